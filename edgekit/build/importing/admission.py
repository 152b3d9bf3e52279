"""What is refused before any work: opsets, domains and operators that nobody knows, nodes in training mode."""

from collections.abc import Callable, Iterable
from typing import Final

import onnx
import onnx_ir as ir

from edgekit.build.importing.structure import DEFAULT_DOMAINS, all_nodes
from edgekit.core.errors import BadInput, Unsupported
from edgekit.quantize.canonical import constant, integer

OLDEST_OPSET: Final = 9
NEWEST_OPSET: Final = 28
_AGAIN: Final = "export the model again"
EVALUATE: Final = "export in inference mode (PyTorch: model.eval() before the export)"


def admit_opset(imports: Iterable[onnx.OperatorSetIdProto], label: str) -> int:
    """The opset of the default domain.

    Raises `Unsupported` naming the opset and the range that is taken, `BadInput` where none is named.
    """
    by_domain = {entry.domain: entry.version for entry in imports}
    opset = next((by_domain[domain] for domain in DEFAULT_DOMAINS if domain in by_domain), None)
    if opset is None:
        other = ", ".join(sorted(by_domain)) or "none"
        raise BadInput(label, f"names no opset of the default domain (only: {other})", _AGAIN)
    newest = min(NEWEST_OPSET, onnx.defs.onnx_opset_version())
    if opset > newest:
        why = f"opset {opset} is newer than {newest}, the newest that the runtimes take"
        raise Unsupported(label, why, f"export with opset {newest} or older; 17 suits every model")
    if opset < OLDEST_OPSET:
        why = f"opset {opset} is older than {OLDEST_OPSET}, the oldest that is taken"
        raise Unsupported(label, why, f"export with opset {OLDEST_OPSET} or newer, or use onnx.version_converter")
    return int(opset)


def admit_operators(model: ir.Model) -> None:
    """Raises `Unsupported` naming operator, domain and node where an operator is not ONNX's own at its opset."""
    for node in all_nodes(model):
        subject = f"'{node.name}' ({node.op_type})"
        if node.domain != "":
            why = (
                f"operator {node.op_type} of domain '{node.domain}' is not ONNX's own, and the model does not define it"
            )
            raise Unsupported(subject, why, _domain_remedy(node.domain))
        if node.version is None:
            raise BadInput(subject, "its opset is not named", _AGAIN)
        try:
            schema = onnx.defs.get_schema(node.op_type, node.version, "")
        except onnx.defs.SchemaError:
            why = f"operator {node.op_type} of domain 'ai.onnx' does not exist at opset {node.version}"
            raise Unsupported(subject, why, "check the exporter, or the opset that the model names") from None
        if schema.deprecated and node.op_type != "GroupNormalization":  # deprecated at 18, yet the only form until 21
            why = f"operator {node.op_type} of domain 'ai.onnx' was removed before opset {node.version}"
            raise Unsupported(subject, why, _AGAIN)
        _admit_form(node, schema, subject)


def settle_inference(model: ir.Model) -> None:
    """Drops Dropout; raises `Unsupported` naming the node where it, or a BatchNormalization, is in training mode."""
    for node in tuple(all_nodes(model)):
        settle = _SETTLE.get(node.op_type)
        if settle is not None and node.domain == "":
            settle(node)


def _admit_form(node: ir.Node, schema: onnx.defs.OpSchema, subject: str) -> None:
    for name, attribute in node.attributes.items():
        known = schema.attributes.get(name)
        if known is None:
            raise BadInput(subject, f"has an attribute '{name}', which opset {node.version} does not know", _AGAIN)
        if known.type != getattr(onnx.defs.OpSchema.AttrType, attribute.type.name, None):
            raise BadInput(subject, f"its attribute '{name}' is a {attribute.type.name.lower()}", _AGAIN)
    given = len(node.inputs)
    if not schema.min_input <= given <= schema.max_input:
        why = f"has {given} inputs where opset {node.version} takes {schema.min_input} to {schema.max_input}"
        raise BadInput(subject, why, _AGAIN)
    single = onnx.defs.OpSchema.FormalParameterOption.Single
    if any(not out.name and form.option == single for out, form in zip(node.outputs, schema.outputs, strict=False)):
        raise BadInput(subject, "a result that it must give has no name", _AGAIN)
    missing = sorted(name for name, a in schema.attributes.items() if a.required and name not in node.attributes)
    if missing:
        raise BadInput(subject, f"lacks the attribute '{missing[0]}'", _AGAIN)


def _domain_remedy(domain: str) -> str:
    if domain.startswith("com.microsoft") or domain == "ai.onnx.ml":
        return "export without runtime-specific optimisation: only the default domain is taken"
    return "replace the node before export, or give its function body in the model (onnx local functions)"


def _batch_norm(node: ir.Node) -> None:
    assert node.version is not None
    used = [output for output in node.outputs[1:] if output.name]
    if integer(node, "training_mode", 0) or (node.version < 14 and used):  # before 14, more outputs say the same
        _refuse(node, "is in training mode: it would take statistics from each batch")
    if len(node.outputs) > 1:
        _refuse_read(node, used)
        node.resize_outputs(1)


def _dropout(node: ir.Node) -> None:
    mode = node.inputs[2] if len(node.inputs) > 2 else None
    value = constant(mode)
    if mode is not None and value is None:
        _refuse(node, "takes its training mode from a computed tensor")
    if value is not None and bool(value):
        _refuse(node, "is in training mode")
    _refuse_read(node, node.outputs[1:])
    source, result, graph = node.inputs[0], node.outputs[0], node.graph
    assert source is not None
    assert graph is not None
    if result.is_graph_output():
        identity = ir.node("Identity", [source], version=node.version, name=node.name)
        copy = identity.outputs[0]
        copy.shape, copy.type = result.shape, result.type
        graph.insert_before(node, identity)
        ir.convenience.replace_all_uses_with(result, copy, replace_graph_outputs=True)
        name, result.name = result.name, None
        copy.name = name
    else:
        result.replace_all_uses_with(source)
    graph.remove(node, safe=True)


def _refuse(node: ir.Node, why: str) -> None:
    raise Unsupported(f"'{node.name}' ({node.op_type})", why, EVALUATE)


def _refuse_read(node: ir.Node, outputs: Iterable[ir.Value]) -> None:
    if any(output.uses() or output.is_graph_output() for output in outputs):
        _refuse(node, "has results that exist for training only, and they are read")


_SETTLE: Final[dict[str, Callable[[ir.Node], None]]] = {"BatchNormalization": _batch_norm, "Dropout": _dropout}
