"""Transposes that cancel: two in a row become one or none, also with only elementwise nodes of one input between."""

from typing import Final

import onnx_ir as ir

from edgekit.build.rewrite.matching import bypass, input_of, made_by, nodes, sole_reader
from edgekit.quantize.canonical import constant, ints

_ELEMENTWISE: Final = frozenset(
    ["Abs", "Cast", "Ceil", "Clip", "Elu", "Erf", "Exp", "Floor", "Gelu", "HardSigmoid", "HardSwish", "LeakyRelu"]
) | frozenset(
    ["Log", "Mish", "Neg", "Reciprocal", "Relu", "Round", "Selu", "Sigmoid", "Softplus", "Softsign", "Sqrt", "Tanh"]
)
_WITH_SCALAR: Final = frozenset(("Add", "Div", "Mul", "Pow", "Sub"))


def cancel_transposes(model: ir.Model) -> bool:
    """True where the graph changed."""
    changed = False
    for node in nodes(model, "Transpose"):
        perm = ints(node, "perm")
        if not perm or node.graph is None:
            continue
        found = _first_above(node)
        if found is None:
            continue
        first, between = found
        before = ints(first, "perm")
        source = first.inputs[0]
        if not before or source is None:
            continue
        joined = tuple(before[axis] for axis in perm)
        if not between:
            node.replace_input_with(0, source)
            node.attributes["perm"] = ir.AttrInt64s("perm", joined)
            changed = True
        elif joined == tuple(range(len(joined))):
            _run_between_in_source_order(first, between, source)
            bypass(node, between[0].outputs[0])
            changed = True
    return changed


def _first_above(node: ir.Node) -> tuple[ir.Node, list[ir.Node]] | None:
    """The transpose above and the nodes between, from below; each of them is read by the next alone."""
    between: list[ir.Node] = []
    value = node.inputs[0]
    while value is not None:
        above = made_by(value, "Transpose")
        if above is not None:
            return above, between
        maker = value.producer()
        if maker is None or sole_reader(value) is None or maker.graph is not node.graph:
            return None
        index = _data_input(maker)
        if index is None:
            return None
        between.append(maker)
        value = input_of(maker, index)
    return None


def _data_input(node: ir.Node) -> int | None:
    """Which input carries the data of a node that keeps its shape and works on each element alone."""
    if node.op_type in _ELEMENTWISE:
        return 0
    if node.op_type in _WITH_SCALAR:
        for index in (0, 1):
            array = constant(node.inputs[1 - index])
            if array is not None and array.ndim == 0:
                return index
    return None


def _run_between_in_source_order(first: ir.Node, between: list[ir.Node], source: ir.Value) -> None:
    top = between[-1]
    index = _data_input(top)
    assert index is not None
    top.replace_input_with(index, source)
    for node in between:
        node.outputs[0].shape = source.shape
