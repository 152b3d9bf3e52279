"""LayerNormalization written out as its arithmetic becomes one node.

(x - mean) / sqrt(variance + epsilon) * scale + bias over the last axes; ONNX Runtime's fold takes the usual form with
scale and bias, this takes the rest: squares as products, a reciprocal in place of a division, no scale, no bias.
https://onnx.ai/onnx/operators/onnx__LayerNormalization.html
"""

from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from edgekit.build.importing.editing import become, constant_beside
from edgekit.build.rewrite.matching import (
    FloatArray,
    floats,
    input_of,
    made_by,
    nodes,
    other_operand,
    rank,
    sole_reader,
    whole,
)
from edgekit.quantize.canonical import constant, integer


@dataclass(frozen=True, slots=True)
class _Normalized:
    """What (x - mean) / sqrt(variance + epsilon) is computed from."""

    x: ir.Value
    axis: int
    epsilon: float


def recognise_layer_norms(model: ir.Model) -> bool:
    """True where the graph changed."""
    changed = False
    for node in nodes(model, "Div", "Mul"):
        found = _normalized(node)
        if found is None:
            continue
        sizes = [] if found.x.shape is None else list(found.x.shape[found.axis :])
        if not sizes or not all(isinstance(size, int) for size in sizes):
            continue
        shape = tuple(int(size) for size in sizes)  # type: ignore[arg-type]
        last, scale = _next(node, "Mul", shape)
        last, bias = _next(last, "Add", shape)
        if scale is None and last is not node:
            last, bias = node, None
        inputs = [found.x, constant_beside(last, "scale", np.ones(shape, np.float32) if scale is None else scale)]
        if bias is not None:
            inputs.append(constant_beside(last, "bias", bias))
        become(last, "LayerNormalization", inputs, axis=found.axis, epsilon=found.epsilon)
        changed = True
    return changed


def _next(node: ir.Node, op: str, shape: tuple[int, ...]) -> tuple[ir.Node, FloatArray | None]:
    """The Mul or Add by a constant of the normalized axes that alone reads the node, and that constant."""
    reader = sole_reader(node.outputs[0])
    operands = None if reader is None or reader.op_type != op else other_operand(reader)
    if reader is None or operands is None or operands[0] is not node.outputs[0]:
        return node, None
    array = operands[1]
    if array.ndim > len(shape) and any(size != 1 for size in array.shape[: array.ndim - len(shape)]):
        return node, None
    try:
        return reader, np.broadcast_to(array.reshape(array.shape[-len(shape) :]), shape).copy()
    except ValueError:
        return node, None


def _normalized(node: ir.Node) -> _Normalized | None:
    for centred, spread in _quotients(node):
        sub = made_by(centred, "Sub")
        root = made_by(spread, "Sqrt")
        total = None if root is None else made_by(root.inputs[0], "Add")
        parts = None if total is None else other_operand(total)
        if sub is None or parts is None or parts[1].size != 1:
            continue
        mean, variance = _mean(sub.inputs[1]), _mean(parts[0])
        x = sub.inputs[0]
        if mean is None or variance is None or x is None or mean[0] is not x or mean[1] != variance[1]:
            continue
        if _square_root_of(variance[0]) is centred:
            return _Normalized(x, mean[1], float(parts[1].reshape(-1)[0]))
    return None


def _quotients(node: ir.Node) -> list[tuple[ir.Value | None, ir.Value | None]]:
    """(numerator, denominator) of a Div, or of a Mul with a Reciprocal."""
    if len(node.inputs) != 2:
        return []
    a, b = node.inputs
    if node.op_type == "Div":
        return [(a, b)]
    pairs = []
    for value, inverse in ((a, b), (b, a)):
        maker = made_by(inverse, "Reciprocal")
        if maker is not None:
            pairs.append((value, maker.inputs[0]))
        one = made_by(inverse, "Div")
        if (
            one is not None
            and (ones := floats(one.inputs[0])) is not None
            and ones.size == 1
            and ones.reshape(-1)[0] == 1
        ):
            pairs.append((value, one.inputs[1]))
    return pairs


def _mean(value: ir.Value | None) -> tuple[ir.Value, int] | None:
    """The input of a mean over the last axes, and the first of them as a negative number."""
    node = made_by(value, "ReduceMean")
    if node is None or node.inputs[0] is None or not integer(node, "keepdims", 1):
        return None
    axes, count = whole(input_of(node, 1)), rank(node.inputs[0])
    if axes is None or count is None:
        return None
    counted = sorted(axis - count if axis >= 0 else axis for axis in axes)
    return (node.inputs[0], counted[0]) if counted == list(range(-len(counted), 0)) else None


def _square_root_of(value: ir.Value) -> ir.Value | None:
    """x where the value is x * x or x ** 2."""
    node = made_by(value, "Mul", "Pow")
    if node is None:
        return None
    if node.op_type == "Mul":
        return node.inputs[0] if node.inputs[0] is node.inputs[1] else None
    power = constant(node.inputs[1])
    return node.inputs[0] if power is not None and power.size == 1 and power.reshape(-1)[0] == 2 else None
