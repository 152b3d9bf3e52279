"""A constant Pad before a convolution or pool becomes part of its pads, where it pads with what these pad with."""

import numpy as np
import onnx_ir as ir

from edgekit.build.rewrite.matching import input_of, made_by, nodes, rank, whole
from edgekit.quantize.canonical import constant, integer, ints, real, text


def absorb_pads(model: ir.Model) -> bool:
    """True where the graph changed. Windows are spelt in full before this (see `windows`)."""
    changed = False
    for node in nodes(model, "Conv", "AveragePool", "MaxPool"):
        pad = made_by(node.inputs[0], "Pad")
        if pad is None or not ints(node, "pads"):
            continue
        amounts = _spatial(pad)
        if amounts is None or not _is_taken(node, pad, amounts):
            continue
        pads = tuple(a + b for a, b in zip(ints(node, "pads"), amounts, strict=True))
        node.attributes["pads"] = ir.AttrInt64s("pads", pads)
        if node.op_type == "AveragePool":
            node.attributes["count_include_pad"] = ir.AttrInt64("count_include_pad", 1)
        node.replace_input_with(0, pad.inputs[0])
        changed = True
    return changed


def _spatial(pad: ir.Node) -> tuple[int, ...] | None:
    """Begin and end amounts of the spatial axes where nothing else is padded and nothing is cut; else None."""
    amounts, count = whole(input_of(pad, 1)), rank(pad.inputs[0])
    if text(pad, "mode", "constant") != "constant" or amounts is None or count is None or count < 3:
        return None
    axes = tuple(range(count)) if input_of(pad, 3) is None else whole(input_of(pad, 3))
    if axes is None:
        return None
    begins, ends = [0] * count, [0] * count
    for place, axis in enumerate(axes):
        begins[axis], ends[axis] = amounts[place], amounts[len(axes) + place]
    if any(begins[:2]) or any(ends[:2]) or min(*begins, *ends) < 0:
        return None
    return (*begins[2:], *ends[2:])


def _is_taken(node: ir.Node, pad: ir.Node, amounts: tuple[int, ...]) -> bool:
    value = _value(pad)
    if node.op_type == "Conv":
        return value == 0
    kernel, own = ints(node, "kernel_shape"), ints(node, "pads")
    sums = [a + b for a, b in zip(own, amounts, strict=True)]
    if integer(node, "ceil_mode", 0) or any(s >= k for s, k in zip(sums, kernel * 2, strict=True)):
        return False
    if node.op_type == "AveragePool":
        return value == 0 and (not any(own) or integer(node, "count_include_pad", 0) == 1)
    is_single = len(node.outputs) == 1  # the indices of the second output would count the padded places
    if value is None or not is_single:
        return False
    return value <= float(np.finfo(np.float32).min) or (value == 0 and _is_never_negative(pad.inputs[0]))


def _value(pad: ir.Node) -> float | None:
    """What is padded with; None where it is computed."""
    given = input_of(pad, 2)
    if given is None:
        return 0.0
    array = constant(given)
    return None if array is None or array.size != 1 else float(array.reshape(-1)[0])


def _is_never_negative(value: ir.Value | None) -> bool:
    """A window of which each place holds a real element has the same maximum with zeros beside them."""
    maker = made_by(value, "Relu", "Sigmoid", "HardSigmoid", "Clip")
    if maker is None:
        return False
    if maker.op_type != "Clip":
        return maker.op_type != "HardSigmoid" or real(maker, "alpha", 0.2) >= 0
    low = constant(input_of(maker, 1))
    return low is not None and float(low.reshape(-1)[0]) >= 0
