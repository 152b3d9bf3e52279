"""Questions that rewrites ask of a graph, and the few edits that they share.

A graph output keeps its name whatever happens before it; a subgraph that reads a tensor counts as a reader.
"""

from collections.abc import Iterator
from typing import Final

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from edgekit.build.importing.editing import become, constant_beside
from edgekit.quantize.canonical import constant

FloatArray = NDArray[np.float32]
LINEAR: Final = ("Conv", "ConvTranspose", "Gemm", "MatMul")


def nodes(model: ir.Model, *ops: str) -> Iterator[ir.Node]:
    """The main graph's nodes of these operators (all: none named), in order; the graph may be edited meanwhile."""
    for node in tuple(model.graph):
        if node.graph is not None and (not ops or node.op_type in ops):
            yield node


def made_by(value: ir.Value | None, *ops: str) -> ir.Node | None:
    """The node of one of these operators that gives the value, or None."""
    node = None if value is None else value.producer()
    return node if node is not None and node.op_type in ops else None


def sole_reader(value: ir.Value) -> ir.Node | None:
    """The only node that reads a value, once, where it is no graph output either; else None."""
    uses = tuple(value.uses())
    return uses[0].node if len(uses) == 1 and not value.is_graph_output() else None


def input_of(node: ir.Node, index: int) -> ir.Value | None:
    """An input, or None where it is left out."""
    return node.inputs[index] if index < len(node.inputs) else None


def floats(value: ir.Value | None) -> FloatArray | None:
    """The array of a float32 constant, or None."""
    array = constant(value)
    return array if array is not None and array.dtype == np.float32 else None  # type: ignore[return-value]


def whole(value: ir.Value | None) -> tuple[int, ...] | None:
    """The flat contents of an integer constant, or None."""
    array = constant(value)
    return tuple(int(i) for i in array.reshape(-1)) if array is not None and array.dtype.kind in "iu" else None


def rank(value: ir.Value | None) -> int | None:
    """Number of axes, or None where it is not known."""
    return None if value is None or value.shape is None else len(value.shape)


def sizes(value: ir.Value | None) -> tuple[int, ...] | None:
    """The shape where all of it is a number, or None."""
    if value is None or value.shape is None or not all(isinstance(dim, int) for dim in value.shape):
        return None
    return tuple(int(dim) for dim in value.shape)  # type: ignore[arg-type]


def same_shape(a: ir.Value | None, b: ir.Value | None) -> bool:
    """Whether two shapes are known to be equal: numbers, or free axes of one name."""
    if a is None or b is None or a.shape is None or b.shape is None or len(a.shape) != len(b.shape):
        return False
    return all(same_size(x, y) for x, y in zip(a.shape, b.shape, strict=True))


def same_size(a: int | ir.SymbolicDim, b: int | ir.SymbolicDim) -> bool:
    """Whether two sizes are known to be equal."""
    if isinstance(a, int) or isinstance(b, int):
        return isinstance(a, int) and isinstance(b, int) and a == b
    return a.value is not None and a.value == b.value


def bypass(node: ir.Node, source: ir.Value) -> bool:
    """Everything that read the node's first output reads `source`; the node goes. False: nothing could be changed.

    Where that output is the graph's and `source` cannot take its name, an Identity stays in the node's place.
    """
    result, graph = node.outputs[0], node.graph
    assert graph is not None
    if result.is_graph_output():
        maker = source.producer()
        if maker is None or maker.graph is not graph or source.is_graph_output():
            if node.op_type == "Identity":
                return False
            become(node, "Identity", [source])
            return True
        name, shape = result.name, result.shape
        ir.convenience.replace_all_uses_with(result, source, replace_graph_outputs=True)
        graph.remove(node, safe=True)
        result.name = None
        source.name = name
        source.shape = shape if shape is not None else source.shape
        return True
    result.replace_all_uses_with(source)
    graph.remove(node, safe=True)
    return True


def set_constant(node: ir.Node, index: int, what: str, array: NDArray[np.generic]) -> None:
    """Input `index` holds another array: under its old name where no other node reads it, else beside the node."""
    array = np.ascontiguousarray(array) if array.ndim else array
    old = input_of(node, index)
    is_own = old is not None and old.const_value is not None and old.graph is node.graph
    if old is not None and is_own and len(old.uses()) == 1 and not old.is_graph_output():
        tensor = ir.tensor(array, name=old.name)
        old.const_value, old.shape, old.type = tensor, ir.Shape(array.shape), ir.TensorType(tensor.dtype)
        return
    value = constant_beside(node, what, array)
    if len(node.inputs) <= index:
        node.resize_inputs(index + 1)
    node.replace_input_with(index, value)


def other_operand(node: ir.Node) -> tuple[ir.Value, FloatArray, bool] | None:
    """Of a node with two operands of which one is constant: the other, the constant, and whether that comes first."""
    if len(node.inputs) != 2:
        return None
    for index in (1, 0):
        array, value = floats(node.inputs[index]), node.inputs[1 - index]
        if array is not None and value is not None and value.const_value is None:
            return value, array, index == 0
    return None


def drop_dead(model: ir.Model) -> None:
    """Nodes and initializers that no output needs are removed; inputs stay."""
    graph = model.graph
    for node in reversed(tuple(graph)):
        if all(not output.uses() and not output.is_graph_output() for output in node.outputs):
            graph.remove(node, safe=True)
    for name, value in tuple(graph.initializers.items()):
        if not value.uses() and not value.is_graph_output():
            del graph.initializers[name]
