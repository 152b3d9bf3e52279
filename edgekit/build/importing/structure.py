"""The form of the graph: local functions inlined, constants as initializers, every node and value named once.

What nodes mean is not looked at here. Names that the model gives are kept; made ones depend on the graph alone.
"""

from collections.abc import Iterator
from typing import Final

import onnx
import onnx_ir as ir
import onnx_ir.passes.common as passes

from edgekit.build.importing.definitions import check_definitions
from edgekit.core.errors import BadInput, Unsupported
from edgekit.quantize.interpreter import IR_VERSION

DEFAULT_DOMAINS: Final = ("", "ai.onnx")


def all_nodes(model: ir.Model) -> Iterator[ir.Node]:
    """The nodes of the graph and of all subgraphs, each before those in it."""
    return iter(ir.traversal.RecursiveGraphIterator(model.graph))


def subgraphs(node: ir.Node) -> Iterator[ir.Graph]:
    """The graphs that a node holds: branches and loop bodies."""
    for attribute in node.attributes.values():
        if attribute.type is ir.AttributeType.GRAPH:
            yield attribute.as_graph()
        elif attribute.type is ir.AttributeType.GRAPHS:
            yield from attribute.as_graphs()


def all_graphs(model: ir.Model) -> tuple[ir.Graph, ...]:
    """The main graph first, then each subgraph; functions are inlined before this is asked."""
    return (model.graph, *(graph for node in all_nodes(model) for graph in subgraphs(node)))


def to_ir(proto: onnx.ModelProto, label: str) -> ir.Model:
    """The graph in memory, functions inlined, each node's `version` the opset that it is written in.

    Raises `BadInput` where tensors are read that nothing defines, or defined twice.
    """
    check_definitions(proto, label)
    for graph in proto_graphs(proto.graph):
        if graph.sparse_initializer:
            name = graph.sparse_initializer[0].values.name
            raise Unsupported(f"tensor '{name}'", "sparse weights are not taken", "export the model with dense weights")
    try:
        model = ir.from_proto(proto)
    except (ir.serde.SerdeError, ValueError, TypeError, KeyError, NotImplementedError, AttributeError) as error:
        raise BadInput(label, f"damaged graph: {error}", "export the model again") from error
    for value, declared in zip(model.graph.inputs, proto.graph.input, strict=True):
        # an output of the same name would overwrite what the input says
        value.type = ir.serde.deserialize_type_proto_for_type(declared.type)
        value.shape = ir.serde.deserialize_type_proto_for_shape(declared.type)
    model.ir_version = IR_VERSION
    _settle_domains(model)
    _inline(model, label)
    try:
        model.graph.sort()
    except ValueError as error:
        raise BadInput(label, f"its nodes wait for each other in a circle: {error}", "export the model again") from None
    return model


def lift_constants(model: ir.Model) -> None:
    """Constant nodes become initializers; weights listed among the inputs (IR 3) are no inputs any more."""
    initialized = set(model.graph.initializers)
    kept = [value for value in model.graph.inputs if value.name not in initialized]
    model.graph.inputs[:] = kept
    for graph in all_graphs(model):
        for node in tuple(graph):
            if node.op_type == "Constant" and any(output.is_graph_output() for output in node.outputs):
                through_identity(graph, node.outputs[0])
    passes.LiftConstantsToInitializersPass(lift_all_constants=True, size_limit=0)(model)
    for node in all_nodes(model):
        if node.op_type == "Constant":
            raise Unsupported(f"constant '{node.name}'", "its value has no dense form", "export it as a tensor")


def separate_outputs(model: ir.Model) -> None:
    """An Identity stands before each output that is an input or an initializer, or is given twice."""
    for graph in all_graphs(model):
        seen: set[int] = set()
        for index, value in enumerate(tuple(graph.outputs)):
            is_own = value.producer() is not None and value.graph is graph
            if is_own and id(value) not in seen:
                seen.add(id(value))
                continue
            copy = ir.Value(name=value.name, shape=value.shape, type=value.type)
            graph.append(ir.node("Identity", [value], outputs=[copy], version=_version_at(graph)))
            graph.outputs[index] = copy
            seen.add(id(copy))


def through_identity(graph: ir.Graph, value: ir.Value) -> None:
    """The graph's output of that value comes from an Identity behind it, under the value's name."""
    name = value.name
    copy = ir.Value(name=name, shape=value.shape, type=value.type)
    value.name = f"{name}.value"
    graph.append(ir.node("Identity", [value], outputs=[copy], version=_version_at(graph)))
    for index, output in enumerate(graph.outputs):
        if output is value:
            graph.outputs[index] = copy


def name_all(model: ir.Model) -> None:
    """Unique names for all nodes (the model's own where it had one) and values (inputs and outputs keep theirs)."""
    taken = {node.name for node in all_nodes(model) if node.name}
    seen: set[str] = set()
    for index, node in enumerate(all_nodes(model)):
        name = node.name or f"{node.op_type}_{index}"
        if name in seen or (not node.name and name in taken):
            name = _free(name, taken | seen)
        seen.add(name)
        node.name = name
    _name_values(model)


def _name_values(model: ir.Model) -> None:
    ports = [*model.graph.inputs, *model.graph.outputs]
    owners = {value.name: id(value) for value in reversed(ports) if value.name}
    taken = set(owners)
    for graph in all_graphs(model):
        for index, value in enumerate(_values(graph)):
            name = value.name or f"{graph.name or 'value'}_{index}"
            if name in taken and owners.get(name) != id(value):
                name = _free(name, taken)
            taken.add(name)
            owners.setdefault(name, id(value))
            if name != value.name:
                value.name = name


def _values(graph: ir.Graph) -> Iterator[ir.Value]:
    yield from graph.inputs
    yield from tuple(graph.initializers.values())
    for node in graph:
        for value in node.outputs:
            if value.name != "" or value.uses() or value.is_graph_output():
                yield value


def _free(name: str, taken: set[str]) -> str:
    return next(candidate for i in range(1, len(taken) + 2) if (candidate := f"{name}_{i}") not in taken)


def _version_at(graph: ir.Graph) -> int | None:
    return next((node.version for node in graph if node.version is not None), None)


def proto_graphs(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    """A graph and all its subgraphs."""
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            for child in (*([attribute.g] if attribute.HasField("g") else ()), *attribute.graphs):
                yield from proto_graphs(child)


def _settle_domains(model: ir.Model) -> None:
    """`ai.onnx` is another spelling of the default domain; each node notes the opset that it is written in."""
    owners: tuple[ir.Graph | ir.Function, ...] = (model.graph, *model.functions.values())
    for owner in owners:
        imports = owner.opset_imports
        if "ai.onnx" in imports:
            imports.setdefault("", imports.pop("ai.onnx"))
        for node in ir.traversal.RecursiveGraphIterator(owner):
            if node.domain in DEFAULT_DOMAINS:
                node.domain = ""
                node.version = imports.get("")


def _inline(model: ir.Model, label: str) -> None:
    if not model.functions:
        return
    for function in model.functions.values():  # versions stay with the nodes: opsets may differ from the model's
        for domain in function.opset_imports:
            function.opset_imports[domain] = model.graph.opset_imports.setdefault(domain, 1)
        for index, node in enumerate(ir.traversal.RecursiveGraphIterator(function)):
            node.name = node.name or f"{node.op_type}_{index}"
    name_all(model)
    try:
        passes.InlinePass()(model)
    except (ir.passes.PreconditionError, ir.passes.PassError, ValueError, RuntimeError) as error:
        raise BadInput(label, f"its local functions cannot be inlined: {error}", "export without functions") from error
    model.functions.clear()
