"""Small edits of a graph: an attribute becomes an input, a node becomes several. Versions follow the node."""

from collections.abc import Sequence
from typing import TypeVar

import numpy as np
import onnx_ir as ir
from numpy.typing import ArrayLike

V = TypeVar("V", int, float, str)


def put_constant(node: ir.Node, index: int, what: str, array: ArrayLike) -> ir.Value:
    """Input `index` of a node becomes a constant named after the node; missing inputs before it are left empty."""
    value = constant_beside(node, what, array)
    put_input(node, index, value)
    return value


def put_input(node: ir.Node, index: int, value: ir.Value | None) -> None:
    """Input `index` of a node becomes `value`."""
    if len(node.inputs) <= index:
        node.resize_inputs(index + 1)
    node.replace_input_with(index, value)


def constant_beside(node: ir.Node, what: str, array: ArrayLike) -> ir.Value:
    """A new initializer in the node's own graph, named `node.what`."""
    graph = node.graph
    assert isinstance(graph, ir.Graph)
    name = base = f"{node.name}.{what}"
    count = 0
    while name in graph.initializers:
        count += 1
        name = f"{base}_{count}"
    tensor = ir.tensor(np.asarray(array), name=name)
    value = ir.Value(name=name, shape=ir.Shape(np.shape(array)), type=ir.TensorType(tensor.dtype), const_value=tensor)
    graph.register_initializer(value)
    return value


def take_ints(node: ir.Node, name: str) -> tuple[int, ...] | None:
    """Remove an INTS attribute and give its value."""
    attribute = node.attributes.pop(name, None)
    return None if attribute is None else tuple(attribute.as_ints())


def take_int(node: ir.Node, name: str) -> int | None:
    """Remove an INT attribute and give its value."""
    attribute = node.attributes.pop(name, None)
    return None if attribute is None else attribute.as_int()


def take_float(node: ir.Node, name: str) -> float | None:
    """Remove a FLOAT attribute and give its value."""
    attribute = node.attributes.pop(name, None)
    return None if attribute is None else attribute.as_float()


def put_before(node: ir.Node, op: str, inputs: Sequence[ir.Value | None], what: str, **attributes: object) -> ir.Value:
    """A new node before `node`, named `node.what`; gives its only output, of the type of the first input."""
    new = ir.node(
        op,
        inputs,
        attributes=attributes or None,  # type: ignore[arg-type]
        name=f"{node.name}.{what}",
        version=node.version,
    )
    output = new.outputs[0]
    output.name = f"{node.name}.{what}"
    first = inputs[0]
    if first is not None and op != "Shape":
        output.type = first.type
    assert node.graph is not None
    node.graph.insert_before(node, new)
    return output


def become(node: ir.Node, op: str, inputs: Sequence[ir.Value | None], **attributes: object) -> None:
    """The node turns into another operator with the same name and first output."""
    new = ir.node(
        op,
        inputs,
        attributes=attributes or None,  # type: ignore[arg-type]
        name=node.name,
        version=node.version,
    )
    old, result = node.outputs[0], new.outputs[0]
    result.shape, result.type = old.shape, old.type
    graph = node.graph
    assert graph is not None
    graph.insert_before(node, new)
    name = old.name
    ir.convenience.replace_all_uses_with(old, result, replace_graph_outputs=True)
    graph.remove(node, safe=True)
    old.name = None
    result.name = name
