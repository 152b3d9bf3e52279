"""Brings a graph from any opset that is taken to `CANONICAL_OPSET`: upward by a table of changes, downward by schema.

Upward, each (operator, opset) at which ONNX changed an operator is a row of `opset_changes`: an adapter, or a name in
the list of changes that only added types or options. A test holds the table against ONNX's own schema history, so that
no change is forgotten. Subgraphs are brought along; `onnx.version_converter` leaves them as they are.
"""

import onnx
import onnx_ir as ir

from edgekit.build.importing.opset_changes import ADAPTERS, EXPANSIONS
from edgekit.build.importing.structure import all_graphs, all_nodes
from edgekit.core.errors import Unsupported
from edgekit.quantize.canonical import CANONICAL_OPSET, integer

REMEDY = f"export with opset {CANONICAL_OPSET} or older"


def to_canonical_opset(model: ir.Model) -> None:
    """Rewrites every node to mean the same at `CANONICAL_OPSET`; `node.version` says where each comes from.

    Raises `Unsupported` naming node and opset where a newer operator, attribute or meaning has no equal there.
    """
    _upward(model)
    _downward(model)
    for node in all_nodes(model):
        node.version = None
    for graph in (model.graph, *all_graphs(model)):
        graph.opset_imports.clear()
        graph.opset_imports[""] = CANONICAL_OPSET


def _upward(model: ir.Model) -> None:
    oldest = min((node.version or CANONICAL_OPSET for node in all_nodes(model)), default=CANONICAL_OPSET)
    for opset in range(oldest + 1, CANONICAL_OPSET + 1):
        for graph in all_graphs(model):
            for node in tuple(graph):
                if node.version is None or node.version >= opset:
                    continue
                adapt = ADAPTERS.get((node.op_type, opset))
                node.version = opset
                if adapt is not None:
                    adapt(node)


def _downward(model: ir.Model) -> None:
    for graph in all_graphs(model):
        for node in tuple(graph):
            if node.version is not None and node.version > CANONICAL_OPSET:
                _bring_down(node)


def _bring_down(node: ir.Node) -> None:
    """A node of a newer opset keeps its form where everything it says can be said at the canonical one."""
    assert node.version is not None
    subject = f"'{node.name}' ({node.op_type})"
    expand = EXPANSIONS.get(node.op_type)
    if expand is not None:
        expand(node)
        return
    try:
        schema = onnx.defs.get_schema(node.op_type, CANONICAL_OPSET, "")
    except onnx.defs.SchemaError:
        why = f"operator {node.op_type} of opset {node.version} has no equal in opset {CANONICAL_OPSET}"
        raise Unsupported(subject, why, f"{REMEDY}, which writes it as simpler operators") from None
    newer = onnx.defs.get_schema(node.op_type, node.version, "")
    for name, attribute in tuple(node.attributes.items()):
        if name in schema.attributes:
            continue
        if attribute.value != ir.serde.deserialize_attribute(newer.attributes[name].default_value).value:
            why = f"its attribute '{name}' of opset {node.version} does not exist in opset {CANONICAL_OPSET}"
            raise Unsupported(subject, why, REMEDY)
        del node.attributes[name]
    if len(node.inputs) > schema.max_input:
        why = f"its input {schema.max_input} of opset {node.version} does not exist in opset {CANONICAL_OPSET}"
        raise Unsupported(subject, why, REMEDY)
    if node.op_type == "Mod" and not integer(node, "fmod", 0) and _is_float(node.inputs[0]):
        raise Unsupported(subject, f"floored division of floats came after opset {CANONICAL_OPSET}", REMEDY)


def _is_float(value: ir.Value | None) -> bool:
    return value is not None and value.dtype is not None and value.dtype.is_floating_point()
