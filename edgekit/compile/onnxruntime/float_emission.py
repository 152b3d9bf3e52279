"""The canonical graph as an ONNX file, and its ports: what every target says of its inputs and outputs.

Bytes depend on the graph only: nodes, tensors and attributes in the graph's order, and no producer, path, stack trace
or documentation of the exporter.
"""

from typing import Final

import onnx
import onnx_ir as ir

from edgekit.compile.target import Emitted
from edgekit.core.artifact import Dim, Port
from edgekit.core.errors import Unsupported
from edgekit.quantize.interpreter import IR_VERSION, reads

FILE: Final = "model.onnx"
PRODUCER: Final = "edgekit"


def emit_float(model: ir.Model) -> Emitted:
    """One `model.onnx` that computes the graph as it stands. Raises `Unsupported` where a port has no fixed rank."""
    inputs, outputs = ports_of(model)
    return Emitted({FILE: serialized(model)}, inputs, outputs)


def ports_of(model: ir.Model) -> tuple[tuple[Port, ...], tuple[Port, ...]]:
    """Inputs and outputs in graph order, under the model's names and with its dtypes.

    Free sizes keep their names; one without a name gets a name of its own, so that it equals no other.
    """
    graph = model.graph
    is_read = {id(value) for node in graph for value in reads(node)} | {id(value) for value in graph.outputs}
    inputs = tuple(_port(value, is_unused=id(value) not in is_read) for value in graph.inputs)
    return inputs, tuple(_port(value, is_unused=False) for value in graph.outputs)


def serialized(model: ir.Model | onnx.ModelProto) -> bytes:
    """Deterministic ONNX bytes, weights inside."""
    proto = onnx.ModelProto()
    proto.CopyFrom(ir.to_proto(model) if isinstance(model, ir.Model) else model)
    proto.ir_version = IR_VERSION
    proto.producer_name = PRODUCER
    for field in ("producer_version", "domain", "model_version", "doc_string", "metadata_props"):
        proto.ClearField(field)
    _strip(proto.graph)
    content: bytes = proto.SerializeToString(deterministic=True)
    return content


def _strip(graph: onnx.GraphProto) -> None:
    """Drops what exporters remember (stack traces, source paths); shapes between nodes are inferred again."""
    for field in ("doc_string", "metadata_props", "value_info", "quantization_annotation"):
        graph.ClearField(field)
    for each in (*graph.node, *graph.initializer, *graph.input, *graph.output):
        each.ClearField("doc_string")
        each.ClearField("metadata_props")
    for node in graph.node:
        for attribute in node.attribute:
            attribute.ClearField("doc_string")
            for child in (*([attribute.g] if attribute.HasField("g") else ()), *attribute.graphs):
                _strip(child)


def _port(value: ir.Value, *, is_unused: bool) -> Port:
    name = str(value.name)
    if value.shape is None or value.dtype is None:
        raise Unsupported(
            f"'{name}' has no known rank or type", "no runtime can be told what to expect", "bind its shape"
        )
    shape: tuple[Dim, ...] = tuple(_dim(dim, name, axis) for axis, dim in enumerate(value.shape))
    return Port(name, _numpy_name(value.dtype, name), shape, unused=is_unused)


def _dim(dim: int | ir.SymbolicDim, name: str, axis: int) -> Dim:
    return dim if isinstance(dim, int) else dim.value or f"{name}.{axis}"


def _numpy_name(dtype: ir.DataType, name: str) -> str:
    if dtype is ir.DataType.STRING:
        return "object"
    try:
        return str(dtype.numpy().name)
    except TypeError as error:
        raise Unsupported(f"'{name}' has type {dtype}", "numpy has no such type", "cast it in the model") from error
