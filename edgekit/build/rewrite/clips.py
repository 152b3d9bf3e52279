"""Bounds in one form: Clip with constant scalars or none; Max and Min with a constant, and a Relu before, become it.

A Clip from 0 without an upper bound is Relu; one without bounds is nothing; one with computed bounds is Max and Min.
On the side without a bound, Clip takes an infinity to the largest float32, where Max and Min leave it.
"""

import numpy as np
import onnx_ir as ir

from edgekit.build.importing.editing import become
from edgekit.build.rewrite.matching import bypass, input_of, made_by, nodes, other_operand, set_constant, sole_reader
from edgekit.quantize.canonical import constant

_LOWEST, _HIGHEST = float(np.finfo(np.float32).min), float(np.finfo(np.float32).max)


def form_clips(model: ir.Model) -> bool:
    """True where the graph changed."""
    changed = False
    for node in nodes(model, "Clip", "Max", "Min"):
        if node.op_type == "Clip":
            changed |= _clip(node)
        else:
            changed |= _bound(node)
    return changed


def _bound(node: ir.Node) -> bool:
    """Max(x, c) and Min(x, c) of floats."""
    operands = other_operand(node)
    if operands is None or operands[1].size != 1 or operands[1].ndim > len(operands[0].shape or ()):
        return False
    value, array, _ = operands
    bound = array.reshape(())
    if not _LOWEST < float(bound) < _HIGHEST:  # Max(x, lowest) takes infinities out of attention masks; Clip would not
        return False
    become(node, "Clip", [value])
    clip = _reader_named(value, node.name)
    set_constant(clip, 1 if node.op_type == "Max" else 2, "min" if node.op_type == "Max" else "max", bound)
    return True


def _reader_named(value: ir.Value, name: str | None) -> ir.Node:
    return next(use.node for use in value.uses() if use.node.name == name and use.node.op_type == "Clip")


def _clip(node: ir.Node) -> bool:
    source = node.inputs[0]
    if source is None or source.dtype is not ir.DataType.FLOAT:
        return False
    bounds = [input_of(node, 1), input_of(node, 2)]
    arrays = [constant(bound) for bound in bounds]
    if any(bound is not None and array is None for bound, array in zip(bounds, arrays, strict=True)):
        return _computed(node, source, bounds)
    low, high = (None if a is None or a.size != 1 else float(a.reshape(-1)[0]) for a in arrays)
    is_guard = low == _LOWEST and bounds[1] is None  # takes infinities out of attention masks
    low = None if low is not None and low <= _LOWEST and not is_guard else low
    high = None if high is not None and high >= _HIGHEST else high
    inner = _bounds_before(source)
    if inner is not None:
        (inner_low, inner_high), start = inner
        joined = _joined((inner_low, inner_high), (low, high))
        if joined is not None:
            node.replace_input_with(0, start)
            low, high = joined
            _write(node, low, high)
            return True
    if low is None and high is None:
        return bypass(node, source)
    if low == 0 and high is None:
        become(node, "Relu", [source])
        return True
    wanted = [low, high]
    if all(_says(array, bound, value) for array, bound, value in zip(arrays, bounds, wanted, strict=True)):
        return False
    _write(node, low, high)
    return True


def _says(array: np.ndarray | None, bound: ir.Value | None, value: float | None) -> bool:
    if value is None:
        return bound is None
    return array is not None and array.ndim == 0


def _write(node: ir.Node, low: float | None, high: float | None) -> None:
    for index, what, value in ((1, "min", low), (2, "max", high)):
        if value is not None:
            set_constant(node, index, what, np.array(value, np.float32))
        elif input_of(node, index) is not None:
            node.replace_input_with(index, None)
    if high is None:
        node.resize_inputs(2)
    if low is None and high is None:
        node.resize_inputs(1)


def _bounds_before(value: ir.Value) -> tuple[tuple[float | None, float | None], ir.Value] | None:
    """Bounds of a Relu or Clip whose only reader is the Clip in question."""
    maker = made_by(value, "Relu", "Clip")
    if maker is None or sole_reader(value) is None or maker.inputs[0] is None:
        return None
    if maker.op_type == "Relu":
        return (0.0, None), maker.inputs[0]
    arrays = [constant(input_of(maker, index)) for index in (1, 2)]
    given = [input_of(maker, index) for index in (1, 2)]
    if any(bound is not None and (a is None or a.size != 1) for bound, a in zip(given, arrays, strict=True)):
        return None
    low, high = (None if a is None else float(a.reshape(-1)[0]) for a in arrays)
    return (low, high), maker.inputs[0]


def _joined(
    first: tuple[float | None, float | None], then: tuple[float | None, float | None]
) -> tuple[float | None, float | None] | None:
    """One pair of bounds for two in a row; None where a pair is crossed, or they lie apart."""
    lows = [bound for bound in (first[0], then[0]) if bound is not None]
    highs = [bound for bound in (first[1], then[1]) if bound is not None]
    low, high = max(lows, default=None), min(highs, default=None)
    return None if low is not None and high is not None and low > high else (low, high)


def _computed(node: ir.Node, source: ir.Value, bounds: list[ir.Value | None]) -> bool:
    low, high = bounds
    assert node.graph is not None
    if low is not None and high is not None:
        name = f"{node.name}.max"
        inner = ir.node("Max", [source, low], name=name, version=node.version)
        inner.outputs[0].name = name
        inner.outputs[0].shape, inner.outputs[0].type = source.shape, source.type
        node.graph.insert_before(node, inner)
        become(node, "Min", [inner.outputs[0], high])
    else:
        become(node, "Max" if high is None else "Min", [source, low if high is None else high])
    return True
