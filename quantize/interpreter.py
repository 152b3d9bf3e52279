"""Run a canonical graph node by node, many samples abreast, and let the caller look at or replace every tensor.

Each node is an ONNX Runtime session of its own, so the arithmetic is the runtime's and not a second implementation.
Only live tensors are held. What a quantizer does between two nodes (round, correct, record) is the caller's business,
see `edgekit.quantize.simulate`.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime as ort
from numpy.typing import NDArray

from edgekit.core.errors import BadInput
from edgekit.quantize.canonical import CANONICAL_OPSET

Array = NDArray[np.generic]
IR_VERSION = 10


def captured(node: ir.Node) -> tuple[ir.Value, ...]:
    """Values of the outer graph that the node's subgraphs read, each once, in order of first use."""
    found: dict[int, ir.Value] = {}
    for attribute in node.attributes.values():
        graphs = (
            [attribute.as_graph()]
            if attribute.type == ir.AttributeType.GRAPH
            else list(attribute.as_graphs())
            if attribute.type == ir.AttributeType.GRAPHS
            else []
        )
        for graph in graphs:
            inner = {id(v) for v in graph.inputs} | {id(v) for v in graph.initializers.values()}
            for child in graph:
                for value in (*child.inputs, *captured(child)):
                    if value is not None and id(value) not in inner:
                        found.setdefault(id(value), value)
                inner |= {id(v) for v in child.outputs}
            for value in graph.outputs:
                if id(value) not in inner:
                    found.setdefault(id(value), value)
    return tuple(found.values())


def reads(node: ir.Node) -> tuple[ir.Value, ...]:
    """Every value that the node reads, its subgraphs included, each once."""
    seen = {id(v): v for v in (*node.inputs, *captured(node)) if v is not None}
    return tuple(seen.values())


class NodeRunner:
    """One node as a session. Constants are baked in, `constants` replaces some of them by value name."""

    def __init__(self, node: ir.Node, *, threads: int, constants: Mapping[str, Array] | None = None) -> None:
        replaced = constants or {}
        self.node = node
        self.computed = [v for v in reads(node) if v.const_value is None and v.name not in replaced]
        initializers = []
        for value in reads(node):
            name = str(value.name)
            if name in replaced:
                initializers.append(onnx.numpy_helper.from_array(np.ascontiguousarray(replaced[name]), name))
            elif value.const_value is not None:
                tensor = ir.to_proto(value.const_value)
                tensor.name = name
                initializers.append(tensor)
        graph = onnx.helper.make_graph(
            [ir.to_proto(node)],
            "node",
            [onnx.helper.make_tensor_value_info(str(v.name), _element_type(v), None) for v in self.computed],
            [onnx.helper.make_tensor_value_info(v.name, _element_type(v), None) for v in node.outputs if v.name],
            initializers,
        )
        model = onnx.helper.make_model(
            graph, opset_imports=[onnx.helper.make_opsetid("", CANONICAL_OPSET)], ir_version=IR_VERSION
        )
        options = ort.SessionOptions()
        options.intra_op_num_threads = threads
        options.log_severity_level = 4
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        self._session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        self._names = [v.name for v in self.computed]
        self.outputs = [v for v in node.outputs if v.name]

    def __call__(self, arrays: Sequence[Array]) -> list[Array]:
        """Outputs in order, for the computed inputs in order."""
        return list(self._session.run(None, dict(zip(self._names, arrays, strict=True))))


def _element_type(value: ir.Value) -> int:
    if value.dtype is None:
        raise BadInput(f"tensor '{value.name}'", "its type could not be inferred", "re-export with shape inference")
    return int(value.dtype)


Step = Callable[[ir.Node, list[list[Array]]], list[list[Array]]]


def float_step(threads: int) -> Step:
    """The float network itself. A node's session is made once and serves every walk with this step."""
    runners: dict[str, NodeRunner] = {}

    def step(node: ir.Node, inputs: list[list[Array]]) -> list[list[Array]]:
        runner = runners.get(str(node.name))
        if runner is None:
            runner = runners[str(node.name)] = NodeRunner(node, threads=threads)
        return [runner(arrays) for arrays in inputs]

    return step


def walk(
    model: ir.Model, samples: Sequence[Mapping[str, Array]], step: Step
) -> Iterator[tuple[ir.Node | None, dict[str, list[Array]]]]:
    """Nodes in order; `step(node, inputs)` gives `outputs[k][i]` for sample k from `inputs[k][j]` (computed inputs).

    Yields (node, {output name: one array per sample}) after each node, first (None, the graph's inputs). A tensor is
    dropped after its last reader. Graph outputs are kept to the end only by whoever consumes this iterator.
    """
    graph = model.graph
    left = Counter(id(v) for node in graph for v in reads(node))
    live: dict[int, list[Array]] = {}
    named: dict[str, list[Array]] = {}
    for value in graph.inputs:
        name = str(value.name)
        if name in samples[0]:
            # a float16 model is float32 inside: its samples are too
            live[id(value)] = [
                s[name] if value.dtype is None else s[name].astype(value.dtype.numpy(), copy=False) for s in samples
            ]
            named[name] = live[id(value)]
    yield None, named
    for node in graph:
        computed = [v for v in reads(node) if v.const_value is None]
        outputs = step(node, [[live[id(v)][k] for v in computed] for k in range(len(samples))])
        result: dict[str, list[Array]] = {}
        for i, value in enumerate(v for v in node.outputs if v.name):
            column = [outputs[k][i] for k in range(len(samples))]
            result[str(value.name)] = column
            if left[id(value)]:
                live[id(value)] = column
        yield node, result
        for value in computed:
            left[id(value)] -= 1
            if not left[id(value)]:
                live.pop(id(value), None)
