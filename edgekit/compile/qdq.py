"""A `QuantizedModel` as standard ONNX with QuantizeLinear and DequantizeLinear: what ORT and OpenVINO read.

The numbers are the quantizer's; only where pairs stand differs per runtime (`Policy`). Rules:

- an integer node reads every 8-bit tensor through a DequantizeLinear, and what it writes goes through a pair;
- a float node between integer ones reads real values and has no pair of its own: ORT would otherwise quantize its
  weights by itself, per tensor;
- a clamp disappears where the saturation of the 8-bit result does the same; where the scale is shared with wider
  tensors and does not, the linear node is rounded first and the clamp stays;
- weights are int8 initializers behind a DequantizeLinear, biases int32 at the accumulator's scale.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx
import onnx_ir as ir
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from edgekit.quantize.canonical import CANONICAL_OPSET, constant
from edgekit.quantize.interpreter import IR_VERSION
from edgekit.quantize.quantized import QParams, QuantizedModel
from edgekit.quantize.roles import Kind, data_inputs, role
from edgekit.quantize.simulate import bias_scale
from edgekit.quantize.solver import fused_outputs


@dataclass(frozen=True, slots=True)
class Policy:
    """Where a runtime wants pairs. `needs_rounded_result`: linear operators that have no float result there."""

    needs_rounded_result: Collection[str]
    keeps_clamps: bool


def to_qdq(quantized: QuantizedModel, policy: Policy) -> onnx.ModelProto:
    """Deterministic: the same model and numbers give the same bytes."""
    return _Writer(quantized, policy).write()


class _Writer:
    def __init__(self, quantized: QuantizedModel, policy: Policy) -> None:
        self.q, self.policy = quantized, policy
        self.graph = quantized.model.graph
        self.nodes: list[onnx.NodeProto] = []
        self.initializers: dict[str, onnx.TensorProto] = {}
        self.taken = {str(v.name) for n in self.graph for v in (*n.inputs, *n.outputs) if v is not None}
        self.dequantized: dict[str, str] = {}  # 8-bit tensor of the model -> name of its real values
        self.fused = fused_outputs(self.graph, quantized.integer_nodes)
        self.scales: dict[tuple[float, int], tuple[str, str]] = {}

    def write(self) -> onnx.ModelProto:
        for value in self.graph.inputs:
            if value.name in self.q.activations:
                self._pair(str(value.name), str(value.name), self.fresh(f"{value.name}/real"))
        for node in self.graph:
            if node.name in self.q.integer_nodes:
                self._integer(node)
            else:
                self._float(node)
        used = {name for n in self.nodes for name in _all_inputs(n)} | {str(v.name) for v in self.graph.outputs}
        originals = [
            _named(ir.to_proto(v.const_value), str(v.name))
            for v in self.graph.initializers.values()
            if v.name in used and v.const_value is not None
        ]
        graph = helper.make_graph(
            self.nodes,
            self.graph.name or "model",
            [ir.to_proto(v) for v in self.graph.inputs],
            [ir.to_proto(v) for v in self.graph.outputs],
            [*originals, *self.initializers.values()],
        )
        return helper.make_model(
            graph,
            opset_imports=[helper.make_opsetid("", CANONICAL_OPSET)],
            ir_version=IR_VERSION,
            producer_name="edgekit",
        )

    def fresh(self, name: str) -> str:
        """A tensor name that the model does not use."""
        while name in self.taken:
            name += "_"
        self.taken.add(name)
        return name

    def _store(self, name: str, array: NDArray[np.generic]) -> str:
        name = self.fresh(name)
        # asarray keeps a scalar a scalar: ORT fuses Add and Mul only with scalar scales, not with ones of shape [1]
        self.initializers[name] = numpy_helper.from_array(np.asarray(array, order="C"), name)
        return name

    def _parameters(self, p: QParams) -> tuple[str, str]:
        key = (p.scale, p.zero_point)
        if key not in self.scales:
            n = len(self.scales)
            self.scales[key] = (
                self._store(f"scale_{n}", np.array(p.scale, np.float32)),
                self._store(f"zero_point_{n}", np.array(p.zero_point, np.uint8)),
            )
        return self.scales[key]

    def _pair(self, name: str, source: str, real: str, params: QParams | None = None) -> None:
        """QuantizeLinear and DequantizeLinear from float `source` to float `real`, for the model's tensor `name`."""
        scale, zero = self._parameters(params or self.q.activations[name])
        rounded = self.fresh(f"{name}/8bit")
        self.nodes.append(helper.make_node("QuantizeLinear", [source, scale, zero], [rounded], name=f"{rounded}/q"))
        self.nodes.append(helper.make_node("DequantizeLinear", [rounded, scale, zero], [real], name=f"{rounded}/dq"))
        self.dequantized[name] = real

    def _float(self, node: ir.Node) -> None:
        """As it is; results that integer nodes read get a pair of their own beside the float tensor."""
        proto = ir.to_proto(node)
        _rename_inputs(proto, {n: r for n, r in self.dequantized.items() if n != r and not self._is_float_source(n)})
        self.nodes.append(proto)
        for value in node.outputs:
            if value.name in self.q.activations:
                self._pair(str(value.name), str(value.name), self.fresh(f"{value.name}/real"))

    def _is_float_source(self, name: str) -> bool:
        """Float readers take the unrounded tensor where a float node or an input made it."""
        value = self.values().get(name)
        producer = value.producer() if value is not None else None
        return producer is None or producer.name not in self.q.integer_nodes

    def values(self) -> Mapping[str, ir.Value]:
        if not hasattr(self, "_values"):
            self._values = {str(v.name): v for n in self.graph for v in (*n.inputs, *n.outputs) if v is not None}
        return self._values

    def _integer(self, node: ir.Node) -> None:
        row = role(node)
        assert row is not None, node.name  # integer nodes have a role by construction
        proto = ir.to_proto(node)
        for value in data_inputs(node, row):
            name = str(value.name)
            if name not in self.dequantized and (array := constant(value)) is not None:
                self._constant_operand(name, array)
        if row.kind is Kind.CLAMP and node.inputs[0] is not None and node.inputs[0].name in self.fused:
            self._fused_clamp(node, proto)
            return
        _rename_inputs(proto, self.dequantized)
        if row.kind is Kind.LINEAR:
            self._weights(node, proto)
        self._result(node, proto)

    def _result(self, node: ir.Node, proto: onnx.NodeProto) -> None:
        """The node, and a pair behind each result that is 8-bit (the last name is the model's own)."""
        pairs = []
        for i, value in enumerate(node.outputs):
            name = str(value.name)
            params = self.q.activations.get(name)
            if params is None and node.op_type in self.policy.needs_rounded_result:
                params = self.q.output_hint.get(name)
            if params is not None and name:
                raw = self.fresh(f"{name}/raw")
                proto.output[i] = raw
                pairs.append((name, raw, params))
        self.nodes.append(proto)
        for name, raw, params in pairs:
            self._pair(name, raw, name, params)

    def _fused_clamp(self, node: ir.Node, proto: onnx.NodeProto) -> None:
        """The linear node before it is already written, as float; its clamp and the rounding follow."""
        name, params = str(node.outputs[0].name), self.q.activations[str(node.outputs[0].name)]
        source = str(node.inputs[0].name)  # type: ignore[union-attr]
        raw = self.fresh(f"{name}/raw")
        if _saturation_clamps(node, params):
            if self.policy.keeps_clamps:
                proto.output[0] = raw
                self.nodes.append(proto)
                source = raw
            self._pair(name, source, name)
            return
        linear_real = self.fresh(f"{source}/real")
        self._pair(source, source, linear_real, params)
        proto.input[0], proto.output[0] = linear_real, raw
        self.nodes.append(proto)
        self._pair(name, raw, name)

    def _constant_operand(self, name: str, array: NDArray[np.generic]) -> None:
        params = self.q.activations[name]
        scale, zero = self._parameters(params)
        stored = self._store(f"{name}/8bit", params.quantize(np.asarray(array, np.float32)))
        self.dequantized[name] = self.fresh(f"{name}/real")
        self.nodes.append(
            helper.make_node("DequantizeLinear", [stored, scale, zero], [self.dequantized[name]], name=f"{stored}/dq")
        )

    def _weights(self, node: ir.Node, proto: onnx.NodeProto) -> None:
        weight = self.q.weights[str(node.name)]
        stored = self._store(f"{node.name}/weight", weight.values)
        attributes: dict[str, int] = {}
        scales: NDArray[np.float32] = weight.scales
        if weight.axis is not None:
            attributes["axis"] = weight.axis
            if len(scales) != weight.values.shape[weight.axis]:  # grouped ConvTranspose: a scale per group and channel
                groups = len(scales) // weight.values.shape[1]
                shape = (groups, weight.values.shape[1], *(1,) * (weight.values.ndim - 2))
                scales = np.broadcast_to(scales.reshape(shape), (groups, *weight.values.shape[1:]))
                attributes = {"axis": 0, "block_size": weight.values.shape[0] // groups}
        else:
            scales = scales.reshape(())
        scale = self._store(f"{node.name}/weight_scale", scales)
        zero = self._store(f"{node.name}/weight_zero", np.zeros(scales.shape, np.int8))
        proto.input[1] = self.fresh(f"{node.name}/weight_real")
        self.nodes.append(_dequantize([stored, scale, zero], proto.input[1], attributes))
        bias = self.q.biases.get(str(node.name))
        if bias is None:
            return
        stored = self._store(f"{node.name}/bias", bias)
        steps = bias_scale(self.q, node).astype(np.float32)
        per_channel = weight.axis is not None
        scale = self._store(f"{node.name}/bias_scale", steps if per_channel else steps.reshape(()))
        real = self.fresh(f"{node.name}/bias_real")
        axis = {"axis": 0} if per_channel else {}
        zero = self._store(f"{node.name}/bias_zero", np.zeros(steps.shape if per_channel else (), np.int32))
        self.nodes.append(_dequantize([stored, scale, zero], real, axis))
        del proto.input[2:]
        proto.input.append(real)


def _saturation_clamps(clamp: ir.Node, params: QParams) -> bool:
    """Whether the 8-bit result cannot leave the clamp's bounds by more than half a step."""
    lo, hi = clamp_bounds(clamp)
    return params.lo >= lo - params.scale / 2 and params.hi <= hi + params.scale / 2


def clamp_bounds(clamp: ir.Node) -> tuple[float, float]:
    """Bounds of a Relu or of a Clip with constant bounds."""
    if clamp.op_type == "Relu":
        return 0.0, np.inf
    bounds = [constant(v) for v in clamp.inputs[1:]] + [None, None]
    lo, hi = bounds[:2]
    return (-np.inf if lo is None else float(lo)), (np.inf if hi is None else float(hi))


def _named(tensor: TensorProto, name: str) -> TensorProto:
    tensor.name = name
    return tensor


def _rename_inputs(node: onnx.NodeProto, names: Mapping[str, str]) -> None:
    """Rename what the node reads, its subgraphs included (they read the outer graph by name)."""
    node.input[:] = [names.get(n, n) for n in node.input]
    for attribute in node.attribute:
        for graph in (*([attribute.g] if attribute.type == onnx.AttributeProto.GRAPH else ()), *attribute.graphs):
            own = (
                {o for n in graph.node for o in n.output}
                | {i.name for i in graph.initializer}
                | {i.name for i in graph.input}
            )
            outer = {k: v for k, v in names.items() if k not in own}
            for child in graph.node:
                _rename_inputs(child, outer)


def _all_inputs(node: onnx.NodeProto) -> list[str]:
    found = list(node.input)
    for attribute in node.attribute:
        for graph in (*([attribute.g] if attribute.type == onnx.AttributeProto.GRAPH else ()), *attribute.graphs):
            found += [o.name for o in graph.output]
            for child in graph.node:
                found += _all_inputs(child)
    return found


def _dequantize(inputs: Sequence[str], output: str, attributes: Mapping[str, int]) -> onnx.NodeProto:
    """DequantizeLinear of a stored tensor, its scale and its zero point."""
    node = helper.make_node("DequantizeLinear", inputs, [output], name=f"{inputs[0]}/dq")
    node.attribute.extend(helper.make_attribute(name, value) for name, value in sorted(attributes.items()))
    return node
