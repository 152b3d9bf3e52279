"""Tools of the writer's tests: graphs from text, an interpreter, and a naive quantizer (min–max).

The naive quantizer knows nothing of constraints on purpose: unequal scales across a concat must come out right.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime as ort
import pytest
from ai_edge_litert.interpreter import Interpreter, OpResolverType
from numpy.typing import NDArray

from edgekit.compile.target import Emitted
from edgekit.compile.tflite.target import TARGET
from edgekit.quantize.quantized import QParams, QuantizedModel, QWeight

Array = NDArray[Any]
Feeds = Mapping[str, Array]
LINEAR = {"Conv", "ConvTranspose", "Gemm", "MatMul"}
RESOLVERS = {"xnnpack": OpResolverType.AUTO, "builtin": OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES}


def graph(
    nodes: Sequence[onnx.NodeProto],
    inputs: Mapping[str, Array | tuple[str | int, ...]],
    outputs: Sequence[str],
    constants: Mapping[str, Array],
    opset: int = 21,
) -> onnx.ModelProto:
    """A model with inferred shapes. An input is an array (its type and shape) or a float32 shape with names in it."""
    for i, node in enumerate(nodes):
        node.name = node.name or f"n{i}_{node.op_type}"
    infos = [
        onnx.helper.make_tensor_value_info(name, onnx.helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
        if isinstance(x, np.ndarray)
        else onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, x)
        for name, x in inputs.items()
    ]
    made = onnx.helper.make_graph(
        nodes,
        "g",
        infos,
        [onnx.ValueInfoProto(name=n) for n in outputs],
        [onnx.numpy_helper.from_array(np.asarray(a), n) for n, a in constants.items()],
    )
    model = onnx.helper.make_model(made, opset_imports=[onnx.helper.make_opsetid("", opset)], ir_version=10)
    return onnx.shape_inference.infer_shapes(model, data_prop=True, strict_mode=True)


def onnx_runs(model: onnx.ModelProto, feeds: Feeds) -> dict[str, Array]:
    """ONNX Runtime's answer, unoptimised."""
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    session = ort.InferenceSession(model.SerializeToString(), options)
    names = [o.name for o in session.get_outputs()]
    return dict(zip(names, session.run(None, dict(feeds)), strict=True))


@dataclass(frozen=True)
class Ran:
    """What an interpreter gave: outputs in the model's axes, the file's output shapes, operator names."""

    outputs: dict[str, Array]
    file_shapes: dict[str, tuple[int, ...]]
    operators: list[str]


def litert_runs(emitted: Emitted, feeds: Feeds, engine: str) -> Ran:
    """One call, after resizing the inputs where the feeds differ from the file."""
    interpreter = Interpreter(
        model_content=emitted.files["model.tflite"], num_threads=1, experimental_op_resolver_type=RESOLVERS[engine]
    )
    held = {}
    for port, detail in zip(emitted.inputs, interpreter.get_input_details(), strict=True):
        assert detail["name"] == port.name
        array = feeds[port.name]
        held[detail["index"]] = array.transpose(port.axes) if port.axes else array
        if tuple(detail["shape"]) != held[detail["index"]].shape:
            interpreter.resize_tensor_input(detail["index"], held[detail["index"]].shape)
    operators = [o["op_name"] for o in interpreter._get_ops_details()]
    interpreter.allocate_tensors()
    for index, array in held.items():
        interpreter.set_tensor(index, array)
    if not any(isinstance(d, str) for port in (*emitted.inputs, *emitted.outputs) for d in port.shape):
        shapes = {d["name"]: tuple(int(s) for s in d["shape"]) for d in interpreter.get_output_details()}
        interpreter.invoke()
    else:  # a computed shape is known after the call
        interpreter.invoke()
        shapes = {d["name"]: tuple(int(s) for s in d["shape"]) for d in interpreter.get_output_details()}
    outputs = {}
    for port, detail in zip(emitted.outputs, interpreter.get_output_details(), strict=True):
        assert detail["name"] == port.name
        y = interpreter.get_tensor(detail["index"])
        outputs[port.name] = y.transpose(np.argsort(port.axes)) if port.axes else y
    return Ran(outputs, shapes, operators)


def min_max(x: Array) -> QParams:
    """Asymmetric parameters whose range holds zero."""
    lo, hi = min(float(np.min(x)), 0.0), max(float(np.max(x)), 0.0)
    scale = float(np.float32(max(hi - lo, 1e-6) / 255))
    return QParams(scale, int(np.clip(np.rint(-lo / scale), 0, 255)))


def quantized_weight(node: ir.Node, weight: Array) -> QWeight:
    """Symmetric, one scale per output channel."""
    w = np.asarray(weight, np.float32)
    if node.op_type == "ConvTranspose":
        group = node.attributes["group"].as_int() if "group" in node.attributes else 1
        grouped = w.reshape(group, w.shape[0] // group, *w.shape[1:])
        scales = np.abs(grouped).max(axis=(1, *range(3, grouped.ndim))) / 127
        q = np.rint(grouped / scales[:, None, :, *(None,) * (w.ndim - 2)]).reshape(w.shape)
        return QWeight(q.astype(np.int8), scales.reshape(-1).astype(np.float32), 1)
    axis = 1 if node.op_type == "MatMul" else 0
    scales = np.maximum(np.abs(w).max(axis=tuple(a for a in range(w.ndim) if a != axis)), 1e-4) / 127
    q = np.rint(w / scales.reshape([-1 if a == axis else 1 for a in range(w.ndim)]))
    return QWeight(q.astype(np.int8), scales.astype(np.float32), axis)


def name_of(value: ir.Value | ir.Node | None) -> str:
    assert value is not None
    return str(value.name)


def naively_quantized(
    model: onnx.ModelProto, samples: Sequence[Feeds], integer: Callable[[ir.Node], bool] = lambda node: True
) -> QuantizedModel:
    """Min–max ranges of every float tensor; outputs of linear nodes that only a clamp or nobody reads have no entry."""
    wide = onnx.ModelProto()
    wide.CopyFrom(model)
    typed = {v.name: v for v in (*model.graph.value_info, *model.graph.output, *model.graph.input)}
    have = {o.name for o in model.graph.output}
    wide.graph.output.extend(typed[n] for node in model.graph.node for n in node.output if n in typed and n not in have)
    seen: dict[str, list[Array]] = {}
    for feeds in samples:
        for name, array in {**feeds, **onnx_runs(wide, feeds)}.items():
            seen.setdefault(name, []).append(array.reshape(-1))
    graph_ir = ir.from_proto(model)
    nodes = [n for n in graph_ir.graph if integer(n)]
    ranges = {n: min_max(np.concatenate(a)) for n, a in seen.items() if a[0].dtype == np.float32}
    constants = {n: v.const_value.numpy() for n, v in graph_ir.graph.initializers.items() if v.const_value is not None}
    activations: dict[str, QParams] = {}
    weights, biases, hints = {}, {}, {}
    for node in nodes:
        linear = node.op_type in LINEAR and len(node.inputs) > 1 and name_of(node.inputs[1]) in constants
        for index, value in enumerate(node.inputs):
            if value is None or value.dtype != ir.DataType.FLOAT or (linear and index):
                continue
            if value.name in constants and node.op_type not in ("Clip", "Pad", "Resize"):
                activations[value.name] = min_max(constants[value.name])
            elif value.name in ranges:
                activations.setdefault(value.name, ranges[value.name])
        for value in node.outputs:
            readers = [u.node for u in value.uses()]
            clamped = len(readers) == 1 and readers[0].op_type in ("Relu", "Clip") and integer(readers[0])
            if (
                linear
                and (clamped or (not readers and value.is_graph_output()))
                and not (clamped and value.is_graph_output())
            ):
                hints[str(value.name)] = ranges[str(value.name)]
            elif value.name in ranges:
                activations.setdefault(str(value.name), ranges[str(value.name)])
        if linear:
            weights[str(node.name)] = quantized_weight(node, constants[name_of(node.inputs[1])])
    for node in nodes:
        weight = weights.get(str(node.name))
        for value in node.outputs:
            if value.name in hints:
                activations.pop(str(value.name), None)
        if weight is not None and len(node.inputs) > 2 and node.inputs[2] is not None:
            step = np.float64(activations[name_of(node.inputs[0])].scale) * weight.scales
            biases[str(node.name)] = np.clip(
                np.rint(constants[name_of(node.inputs[2])] / step), -(2**30), 2**30
            ).astype(np.int32)
    return QuantizedModel(graph_ir, frozenset(str(n.name) for n in nodes), activations, weights, biases, hints)


@dataclass(frozen=True)
class Writer:
    """Everything above, for tests to call."""

    graph = staticmethod(graph)
    reference = staticmethod(onnx_runs)
    litert = staticmethod(litert_runs)
    quantize = staticmethod(naively_quantized)

    def float32(self, model: onnx.ModelProto) -> Emitted:
        """The float file."""
        return TARGET.emit_float(ir.from_proto(model))


@pytest.fixture(scope="session")
def writer() -> Writer:
    """The tools."""
    return Writer()
