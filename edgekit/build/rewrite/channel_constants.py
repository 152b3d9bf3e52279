"""A Mul, Div, Add or Sub by a constant per output channel behind a linear node becomes part of its weight and bias.

Only where the linear node's result has no other reader. Sums are in float64, so that a fold rounds once.
"""

from dataclasses import dataclass

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from edgekit.build.importing.editing import become, constant_beside
from edgekit.build.rewrite.matching import (
    LINEAR,
    FloatArray,
    bypass,
    floats,
    input_of,
    made_by,
    nodes,
    other_operand,
    rank,
    set_constant,
    sole_reader,
)
from edgekit.quantize.canonical import integer

_Vector = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class _Affine:
    """y * factor + offset, one value per output channel; None: nothing to do."""

    factor: _Vector | None
    offset: _Vector | None


def fold_channel_constants(model: ir.Model) -> bool:
    """True where the graph changed."""
    changed = False
    for node in nodes(model, "Mul", "Div", "Add", "Sub"):
        operands = other_operand(node)
        if operands is None or sole_reader(operands[0]) is not node:
            continue
        value, array, is_first = operands
        linear = made_by(value, *LINEAR)
        if linear is not None:
            changed |= _fold(linear, node, array, is_first)
        elif (inner := made_by(value, "Add")) is not None:
            changed |= _fold_through_add(inner, node, array, is_first)
    return changed


def _fold(linear: ir.Node, node: ir.Node, array: FloatArray, is_first: bool) -> bool:
    """Into the weight and bias of a linear node; a MatMul has no bias, so an Add stays behind it."""
    weight = floats(linear.inputs[1])
    affine = None if weight is None else _read(linear, weight, node.op_type, array, is_first)
    if weight is None or affine is None:
        return False
    if linear.op_type == "MatMul" and affine.offset is not None:
        return _form_bias(linear, weight, node, array, affine)
    given = input_of(linear, 2) if linear.op_type != "MatMul" else None
    bias = floats(given)
    if given is not None and bias is None:
        return False
    return _write(linear, weight, affine, linear, 2, bias) and bypass(node, linear.outputs[0])


def _fold_through_add(add: ir.Node, node: ir.Node, array: FloatArray, is_first: bool) -> bool:
    """Behind MatMul and its bias: (x W + b) s + t = x (W s) + (b s + t)."""
    operands = other_operand(add)
    matmul = None if operands is None else made_by(operands[0], "MatMul")
    if operands is None or matmul is None or sole_reader(matmul.outputs[0]) is not add:
        return False
    weight = floats(matmul.inputs[1])
    affine = None if weight is None else _read(matmul, weight, node.op_type, array, is_first)
    bias = None if weight is None else _read(matmul, weight, "Add", operands[1], False)
    if weight is None or affine is None or bias is None or bias.offset is None:
        return False
    place = 0 if operands[2] else 1
    return _write(matmul, weight, affine, add, place, bias.offset) and bypass(node, add.outputs[0])


def _form_bias(matmul: ir.Node, weight: FloatArray, node: ir.Node, array: FloatArray, affine: _Affine) -> bool:
    """What is added to a MatMul's result becomes an Add of one value per channel."""
    assert affine.offset is not None
    if node.op_type == "Add" and array.shape == affine.offset.shape:
        return False
    if affine.factor is not None and not _write(matmul, weight, _Affine(affine.factor, None), matmul, 2, None):
        return False
    become(node, "Add", [matmul.outputs[0], constant_beside(node, "bias", affine.offset.astype(np.float32))])
    return True


def _read(linear: ir.Node, weight: FloatArray, op: str, array: FloatArray, is_first: bool) -> _Affine | None:
    """What an elementwise node does to each channel of a linear node's result; None: no such thing."""
    channels = _channels(linear, weight)
    vector = None if channels is None else _per_channel(array, channels, *_axis_and_rank(linear, weight))
    return None if vector is None else _affine(op, vector, is_first)


def _write(
    linear: ir.Node, weight: FloatArray, affine: _Affine, holder: ir.Node, place: int, bias: NDArray[np.floating] | None
) -> bool:
    """Change the weight and the bias at input `place` of `holder`; False where a value would leave float32."""
    factor = np.ones(1) if affine.factor is None else affine.factor
    offset = np.zeros(1) if affine.offset is None else affine.offset
    along = factor if affine.factor is None else _along(linear, weight, factor)
    with np.errstate(over="ignore"):
        scaled = (weight.astype(np.float64) * along).astype(np.float32)
        moved = ((0 if bias is None else bias.astype(np.float64)) * factor + offset).astype(np.float32)
    if not (np.isfinite(scaled).all() and np.isfinite(moved).all()):
        return False
    if affine.factor is not None:
        set_constant(linear, 1, "weight", scaled)
    if bias is not None or affine.offset is not None:
        set_constant(holder, place, "bias", moved)
    return True


def _affine(op: str, vector: _Vector, is_first: bool) -> _Affine | None:
    match op:
        case "Mul":
            return _Affine(vector, None)
        case "Div":
            return None if is_first or not vector.all() else _Affine(1 / vector, None)
        case "Add":
            return _Affine(None, vector)
        case _:
            return _Affine(-np.ones_like(vector), vector) if is_first else _Affine(None, -vector)


def _channels(linear: ir.Node, weight: FloatArray) -> int | None:
    """Number of output channels."""
    match linear.op_type:
        case "Conv":
            return int(weight.shape[0])
        case "ConvTranspose":
            return int(weight.shape[1]) * integer(linear, "group", 1)
        case "Gemm":
            return int(weight.shape[0]) if integer(linear, "transB", 0) else None
        case _:
            return int(weight.shape[1]) if weight.ndim == 2 else None


def _axis_and_rank(linear: ir.Node, weight: FloatArray) -> tuple[int, int | None]:
    """The channel axis of the result, and its rank where it is known."""
    match linear.op_type:
        case "Conv" | "ConvTranspose":
            return 1, weight.ndim
        case "Gemm":
            return 1, 2
        case _:
            count = rank(linear.inputs[0])
            return (-1, None) if count is None or count < 2 else (count - 1, count)


def _per_channel(array: FloatArray, channels: int, axis: int, count: int | None) -> _Vector | None:
    """The constant as one value per channel, where it broadcasts along all other axes and keeps the shape."""
    if array.size == 1 and (count is None or array.ndim <= count):
        return np.full(channels, array.reshape(-1)[0], np.float64)
    if count is None or array.ndim > count:
        return None
    shape = (1,) * (count - array.ndim) + array.shape
    if any(size != 1 for place, size in enumerate(shape) if place != axis) or shape[axis] != channels:
        return None
    return array.reshape(-1).astype(np.float64)


def _along(linear: ir.Node, weight: FloatArray, factor: _Vector) -> NDArray[np.float64]:
    """The factor per output channel in the shape that multiplies the weight."""
    match linear.op_type:
        case "Conv":
            return factor.reshape(-1, *(1,) * (weight.ndim - 1))
        case "ConvTranspose":  # [C, M/group, …]: rows of group g make the channels g * M/group + m
            group = integer(linear, "group", 1)
            rows = np.repeat(factor.reshape(group, -1), weight.shape[0] // group, axis=0)
            return rows.reshape(weight.shape[:2] + (1,) * (weight.ndim - 2))
        case "Gemm":
            return factor.reshape(-1, 1)
        case _:
            return factor
