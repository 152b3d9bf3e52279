"""Nodes that change nothing go: Identity, and Reshape, Cast, Slice, Pad, Resize and their like without effect."""

from collections.abc import Callable
from typing import Final

import onnx_ir as ir

from edgekit.build.rewrite.matching import bypass, floats, input_of, made_by, nodes, same_shape, sizes, whole
from edgekit.quantize.canonical import constant, integer, ints, text

_VIEWS: Final = ("Flatten", "Reshape", "Squeeze", "Unsqueeze")


def remove_no_operations(model: ir.Model) -> bool:
    """Bypass each node whose result is its first input; True where the graph changed."""
    changed = False
    for node in nodes(model):
        is_noop = _ROWS.get(node.op_type)
        source = input_of(node, 0)
        if is_noop is not None and source is not None and is_noop(node):
            changed |= bypass(node, source)
        elif node.op_type in _VIEWS:
            changed |= _shorten_views(node)
    return changed


def _same_shape(node: ir.Node) -> bool:
    return same_shape(node.inputs[0], node.outputs[0])


def _cast(node: ir.Node) -> bool:
    source = node.inputs[0]
    return source is not None and source.dtype is not None and int(source.dtype) == integer(node, "to", 0)


def _slice(node: ir.Node) -> bool:
    steps = whole(input_of(node, 4)) if input_of(node, 4) is not None else (1,)
    if steps is None or any(step != 1 for step in steps):
        return False
    is_static = sizes(node.inputs[0]) is not None
    return is_static and _same_shape(node)


def _pad(node: ir.Node) -> bool:
    pads = whole(input_of(node, 1))
    return pads is not None and not any(pads)


def _resize(node: ir.Node) -> bool:
    """Each place is asked for itself: scales of exactly 1, or the sizes that it has. A crop asks for other places."""
    if text(node, "coordinate_transformation_mode", "half_pixel") == "tf_crop_and_resize":
        return False
    if input_of(node, 3) is not None:
        return sizes(node.inputs[0]) is not None and _same_shape(node)
    scales = floats(input_of(node, 2))
    return scales is not None and scales.size > 0 and bool((scales == 1).all())


def _transpose(node: ir.Node) -> bool:
    perm = ints(node, "perm")
    return bool(perm) and perm == tuple(range(len(perm)))


def _single(node: ir.Node) -> bool:
    return len(node.inputs) == 1


def _split(node: ir.Node) -> bool:
    return len(node.outputs) == 1


def _shorten_views(node: ir.Node) -> bool:
    """A chain of views that ends in the shape it began with is nothing; a Reshape of a view needs no view before it."""
    start = node.inputs[0]
    maker = made_by(start, *_VIEWS)
    while maker is not None:
        source = maker.inputs[0]
        if source is None:
            return False
        if same_shape(source, node.outputs[0]):
            return bypass(node, source)
        maker = made_by(source, *_VIEWS)
    inner = made_by(start, *_VIEWS)
    if inner is None or node.op_type != "Reshape" or integer(node, "allowzero", 0):
        return False
    target = constant(node.inputs[1])
    if target is None or (target == 0).any():  # a zero copies a size of the view's own shape
        return False
    node.replace_input_with(0, inner.inputs[0])
    return True


_ROWS: Final[dict[str, Callable[[ir.Node], bool]]] = {
    "Cast": _cast,
    "Concat": _single,
    "Expand": _same_shape,
    "Flatten": _same_shape,
    "Identity": lambda node: True,
    "Max": _single,
    "Mean": _single,
    "Min": _single,
    "Pad": _pad,
    "Reshape": _same_shape,
    "Resize": _resize,
    "Slice": _slice,
    "Split": _split,
    "Squeeze": _same_shape,
    "Sum": _single,
    "Transpose": _transpose,
}
