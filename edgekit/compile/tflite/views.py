"""Which orders of axes each operator can work in.

A node has one `frame`: an order of axes that settles how it reads its inputs and writes its outputs (its `View`). Some
operators have one frame (a convolution is channels-last), some can work in any (elementwise), and a Transpose has only
to name the axes anew. `layout` chooses the frames of a whole graph; the emitters get theirs and never choose.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import onnx_ir as ir

from edgekit.compile.tflite.axes import (
    Axes,
    arranged,
    as_is,
    channels_last,
    inverse,
    same_memory,
    swapped,
    with_new,
    without,
)
from edgekit.compile.tflite.dims import Dim, dims, groups, rank, static
from edgekit.quantize.canonical import constant, integer, ints


@dataclass(frozen=True, slots=True)
class View:
    """How a node in one frame sees its tensors.

    `inputs`: the orders that it accepts, the preferred one first; None: not a tensor with a layout (a constant that the
    emitter reads itself, or an absent input). `outputs`: the order that it writes.
    """

    inputs: tuple[tuple[Axes, ...] | None, ...]
    outputs: tuple[Axes, ...]


@dataclass(frozen=True, slots=True)
class Rule:
    """One way of treating layouts. `fixed`: all frames there are, or None: what neighbours propose by `from_*`."""

    view: Callable[[ir.Node, Axes], View]
    fixed: Callable[[ir.Node], tuple[Axes, ...]] | None = None
    default: Callable[[ir.Node], Axes] = lambda node: as_is(rank(node.outputs[0]))
    from_input: Callable[[ir.Node, int, Axes], Axes | None] = lambda node, index, axes: None
    from_output: Callable[[ir.Node, int, Axes], Axes | None] = lambda node, index, axes: None
    allows: Callable[[ir.Node, Axes], bool] = lambda node, frame: True


def _as_is_view(node: ir.Node, frame: Axes) -> View:
    inputs = tuple((as_is(rank(v)),) if v is not None else None for v in node.inputs)
    return View(inputs, tuple(as_is(rank(v)) for v in node.outputs if v.name))


AS_IS = Rule(_as_is_view, fixed=lambda node: (as_is(rank(node.outputs[0])),))


def _channels_last_view(node: ir.Node, frame: Axes) -> View:
    first = (channels_last(rank(node.inputs[0])),)
    return View(
        (first, *(None for _ in node.inputs[1:])), tuple(channels_last(rank(v)) for v in node.outputs if v.name)
    )


CHANNELS_LAST = Rule(_channels_last_view, fixed=lambda node: (channels_last(rank(node.inputs[0])),))


def _elementwise_view(node: ir.Node, frame: Axes) -> View:
    return View(
        tuple((broadcast_axes(frame, rank(v)),) if v is not None else None for v in node.inputs),
        (frame,) * len([v for v in node.outputs if v.name]),
    )


def broadcast_axes(frame: Axes, lower: int) -> Axes:
    """The order of a tensor of rank `lower` that numpy broadcasting aligns with the last axes of `frame`."""
    extra = len(frame) - lower
    return tuple(a - extra for a in frame if a >= extra)


def _of_full_rank(node: ir.Node, index: int, axes: Axes) -> Axes | None:
    return axes if len(axes) == rank(node.outputs[0]) else None


ELEMENTWISE = Rule(_elementwise_view, from_input=_of_full_rank, from_output=lambda node, index, axes: axes)


def _first_view(node: ir.Node, frame: Axes) -> View:
    """Input 0 and every output in the frame; the other inputs are read by the emitter or as they are."""
    rest = tuple((as_is(rank(v)),) if v is not None and constant(v) is None else None for v in node.inputs[1:])
    return View(((frame,), *rest), (frame,) * len([v for v in node.outputs if v.name]))


def _first(node: ir.Node, index: int, axes: Axes) -> Axes | None:
    return axes if index == 0 else None


FIRST = Rule(
    _first_view,
    default=lambda node: as_is(rank(node.inputs[0])),
    from_input=_first,
    from_output=lambda node, index, axes: axes,
)
"""Input 0 in any order, outputs alike: Slice, Split, Pad, Tile, unary operators."""


def along(axis_of: Callable[[ir.Node], int]) -> Rule:
    """As `FIRST`, but the kernel works along the last file axis, so that must be the model's axis `axis_of(node)`."""

    def last(node: ir.Node) -> Axes:
        order = as_is(rank(node.inputs[0]))
        axis = axis_of(node) % len(order)
        return (*(a for a in order if a != axis), axis)

    return Rule(
        _first_view,
        default=last,
        from_input=_first,
        from_output=lambda node, index, axes: axes,
        allows=lambda node, frame: frame[-1] == axis_of(node) % len(frame),
    )


LAST_AXIS = along(lambda node: -1)
AXIS_ATTRIBUTE_LAST = along(lambda node: integer(node, "axis", -1))


def reducing(axes_of: Callable[[ir.Node], Sequence[int]], keeps: Callable[[ir.Node], bool]) -> Rule:
    """The frame is input 0's order; what `axes_of` names vanishes from the outputs unless `keeps`."""

    def view(node: ir.Node, frame: Axes) -> View:
        gone = [a % len(frame) for a in axes_of(node)]
        left = frame if keeps(node) else without(frame, gone)
        return View(((frame,), *(None for _ in node.inputs[1:])), (left,) * len([v for v in node.outputs if v.name]))

    def from_output(node: ir.Node, index: int, axes: Axes) -> Axes:
        return axes if keeps(node) else with_new(axes, [a % rank(node.inputs[0]) for a in axes_of(node)])

    return Rule(view, default=lambda node: as_is(rank(node.inputs[0])), from_input=_first, from_output=from_output)


def _inserting_view(node: ir.Node, frame: Axes) -> View:
    new = [a % len(frame) for a in (constant_ints(node, 1) or ())]
    return View(((without(frame, new),), None), (frame,))


UNSQUEEZE = Rule(
    _inserting_view,
    from_input=lambda node, index, axes: with_new(
        axes, [a % rank(node.outputs[0]) for a in (constant_ints(node, 1) or ())]
    ),
    from_output=lambda node, index, axes: axes,
)


def _transpose_view(node: ir.Node, frame: Axes) -> View:
    perm = permutation_of(node)
    return View(((frame,),), (arranged(inverse(perm), frame),))


def permutation_of(node: ir.Node) -> Axes:
    """The `perm` of an ONNX Transpose: axis i of the result is axis perm[i] of the input."""
    return ints(node, "perm", tuple(reversed(range(rank(node.inputs[0])))))


TRANSPOSE = Rule(
    _transpose_view,
    default=permutation_of,
    from_input=_first,
    from_output=lambda node, index, axes: arranged(permutation_of(node), axes),
)
"""The same memory under new axis numbers: nothing to compute."""


def _reshape_view(node: ir.Node, frame: Axes) -> View:
    before, after = dims(node.inputs[0]), dims(node.outputs[0])
    accepted = [frame]
    order = channels_last(len(before))
    if frame == as_is(len(before)) and same_memory(static(before), order, frame):
        accepted.append(order)
    rest = tuple((as_is(rank(v)),) if v is not None and constant(v) is None else None for v in node.inputs[1:])
    return View((tuple(accepted), *rest), (reshaped_axes(before, after, frame) or as_is(len(after)),))


def reshaped_axes(before: Sequence[Dim], after: Sequence[Dim], frame: Axes) -> Axes | None:
    """The result's order if a reshape of a tensor held as `frame` gives the same values, or None.

    It does where every group of axes that is merged or split stays together, in the model's order.

    >>> reshaped_axes((1, 85, 52, 52), (1, 85, 2704), (0, 2, 3, 1))
    (0, 2, 1)
    """
    if frame == as_is(len(before)):
        return as_is(len(after))
    pairs = groups(before, after)
    if pairs is None:
        return None
    order, position = [], 0
    by_first = {ins[0]: (ins, outs) for ins, outs in pairs if ins}
    while position < len(frame):
        found = by_first.get(frame[position])
        if found is None or frame[position : position + len(found[0])] != tuple(found[0]):
            return None
        order.extend(found[1])
        position += len(found[0])
    return tuple(order) if len(order) == len(after) else None


def _reshape_from_output(node: ir.Node, index: int, axes: Axes) -> Axes | None:
    return reshaped_axes(dims(node.outputs[0]), dims(node.inputs[0]), axes)


RESHAPE = Rule(
    _reshape_view,
    default=lambda node: as_is(rank(node.inputs[0])),
    from_input=_first,
    from_output=_reshape_from_output,
    allows=lambda node, frame: reshaped_axes(dims(node.inputs[0]), dims(node.outputs[0]), frame) is not None,
)


def _matmul_view(node: ir.Node, frame: Axes) -> View:
    left, right = rank(node.inputs[0]), rank(node.inputs[1])
    other = (as_is(right), swapped(right)) if right > 1 else (as_is(right),)
    return View(
        ((as_is(left),), None if constant(node.inputs[1]) is not None else other), (as_is(rank(node.outputs[0])),)
    )


MATMUL = Rule(_matmul_view, fixed=lambda node: (as_is(rank(node.outputs[0])),))


def constant_ints(node: ir.Node, index: int) -> tuple[int, ...] | None:
    """A constant integer input as a tuple; None where it is absent or computed."""
    array = constant(node.inputs[index]) if index < len(node.inputs) else None
    return None if array is None else tuple(int(i) for i in array.reshape(-1))
