"""Every tensor is defined once and nothing undefined is read: checked on the file's own graph, before it is built."""

from collections.abc import Iterable
from typing import Final

import onnx

from edgekit.core.errors import BadInput

REMEDY: Final = "export the model again"


def check_definitions(proto: onnx.ModelProto, label: str) -> None:
    """Raises `BadInput` naming the tensor that is defined twice, read before it exists, or never given."""
    _check_graph(proto.graph, label, frozenset())
    for function in proto.functions:
        where = f"{label}, function '{function.name}'"
        _check_nodes(function.node, function.output, set(function.input), where, frozenset())


def _check_graph(graph: onnx.GraphProto, label: str, outer: frozenset[str]) -> None:
    weights = {tensor.name for tensor in graph.initializer} | {each.values.name for each in graph.sparse_initializer}
    given = {value.name for value in graph.input} | weights
    _check_nodes(graph.node, (value.name for value in graph.output), given, label, outer)


def _check_nodes(
    nodes: Iterable[onnx.NodeProto], outputs: Iterable[str], given: set[str], label: str, outer: frozenset[str]
) -> None:
    nodes = tuple(nodes)
    for node in nodes:
        for name in filter(None, node.output):
            if name in given:
                raise BadInput(label, f"tensor '{name}' is defined twice", REMEDY)
            given.add(name)
    visible = outer | given
    for node in nodes:
        for name in filter(None, node.input):
            if name not in visible:
                why = f"node '{node.name}' ({node.op_type}) reads '{name}', which nothing gives"
                raise BadInput(label, why, REMEDY)
        for attribute in node.attribute:
            for child in (*([attribute.g] if attribute.HasField("g") else ()), *attribute.graphs):
                _check_graph(child, label, visible)
    for name in outputs:
        if name not in visible:
            raise BadInput(label, f"output '{name}' is given by nothing", REMEDY)
