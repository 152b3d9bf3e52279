"""Operators that move or rename axes, or tell a shape, without touching values."""

from typing import Final

import ai_edge_litert.schema_py_generated as schema
import numpy as np
import onnx_ir as ir

from edgekit.compile.tflite.axes import Axes, as_is
from edgekit.compile.tflite.dims import Dim, dims, rank
from edgekit.compile.tflite.flatfile import DTYPES, FREE, Tensor
from edgekit.compile.tflite.lowering import Lower, Need, Reason, attribute_in, constants, dtypes, ranks
from edgekit.compile.tflite.site import Site
from edgekit.compile.tflite.views import (
    AS_IS,
    CHANNELS_LAST,
    FIRST,
    RESHAPE,
    TRANSPOSE,
    UNSQUEEZE,
    Rule,
    View,
    constant_ints,
    reducing,
)
from edgekit.quantize.canonical import constant, integer, text

_INT32: Final = schema.TensorType.INT32


def reshape(site: Site) -> None:
    """The shape comes from inference, one free size is -1; more of them are copied from the input or computed."""
    x, shape = site.x(), site.out_shape()
    if shape.count(FREE) <= 1:
        site.give(site.reshape(x, shape))
        return
    made = site.y(q=x.q)
    target = _copies(site.node)
    site.op("RESHAPE", [x, _computed(site, x, target)], made, schema.ReshapeOptionsT())


def _copies(node: ir.Node) -> tuple[int, ...] | None:
    """A target shape with at most one -1, where 0 copies the input's size; None: it is computed while running."""
    if node.op_type == "Flatten":
        return (0, -1) if integer(node, "axis", 1) == 1 else None
    target = constant_ints(node, 1)
    return None if target is None or integer(node, "allowzero", 0) else target


def _computed(site: Site, x: Tensor, target: tuple[int, ...] | None) -> Tensor:
    if target is None and site.node.op_type == "Flatten":
        return _flat(site, x, integer(site.node, "axis", 1) % len(x.shape))
    if target is None:
        given = site.x(1)
        options = schema.CastOptionsT(DTYPES[given.dtype], _INT32)
        return site.op("CAST", [given], site.temp(given.shape, dtype="int32"), options)
    count = (len(target),)
    now = site.op("SHAPE", [x], site.temp((len(x.shape),), dtype="int32"), schema.ShapeOptionsT(_INT32))
    places = site.ints([i if d == 0 else 0 for i, d in enumerate(target)], "places")
    copied = site.op("GATHER", [now, places], site.temp(count, dtype="int32"), schema.GatherOptionsT(0))
    mask = site.ints([int(d == 0) for d in target], "mask")
    masked = site.op("MUL", [copied, mask], site.temp(count, dtype="int32"), schema.MulOptionsT())
    rest = site.ints(target, "rest")
    return site.op("ADD", [masked, rest], site.temp(count, dtype="int32"), schema.AddOptionsT())


def _flat(site: Site, x: Tensor, axis: int) -> Tensor:
    """[product of the sizes before `axis`, -1]."""
    now = site.op("SHAPE", [x], site.temp((len(x.shape),), dtype="int32"), schema.ShapeOptionsT(_INT32))
    bounds = [site.ints([v], n) for n, v in (("begin", 0), ("size", axis))]
    front = site.op("SLICE", [now, *bounds], site.temp((axis,), dtype="int32"), schema.SliceOptionsT())
    axes = site.ints([0], "axes")
    product = site.op("REDUCE_PROD", [front, axes], site.temp((1,), dtype="int32"), schema.ReducerOptionsT(True))
    rest = site.ints([-1], "rest")
    return site.op("CONCATENATION", [product, rest], site.temp((2,), dtype="int32"), schema.ConcatenationOptionsT(0))


def squeeze(site: Site) -> None:
    """Sizes of 1 go; what is left keeps its order."""
    x, shape = site.x(), site.out_shape()
    if shape.count(FREE) <= 1:
        site.give(site.reshape(x, shape))
        return
    made = site.y(q=x.q)
    gone = sorted(site.frame.index(a) for a in _squeezed(site.node))
    site.op("SQUEEZE", [x], made, schema.SqueezeOptionsT(gone))


def _squeezed(node: ir.Node) -> tuple[int, ...]:
    shape = dims(node.inputs[0])
    axes = constant_ints(node, 1)
    return tuple(i for i, d in enumerate(shape) if d == 1) if axes is None else tuple(a % len(shape) for a in axes)


def unsqueeze(site: Site) -> None:
    """Sizes of 1 come, wherever the layout wants them."""
    x, shape = site.x(), site.out_shape()
    if shape.count(FREE) <= 1:
        site.give(site.reshape(x, shape))
        return
    made = site.y(q=x.q)
    new = sorted(site.frame.index(a % len(shape)) for a in constant_ints(site.node, 1) or ())
    for place in new:
        grown = [*x.shape[:place], 1, *x.shape[place:]]
        into = made if place == new[-1] else site.temp(grown, x)
        x = site.op("EXPAND_DIMS", [x, site.ints(place, "axis")], into, schema.ExpandDimsOptionsT())


def renamed(site: Site) -> None:
    """Nothing to compute: the same tensor, for a Transpose under other axis numbers."""
    site.give(site.x())


def cast(site: Site) -> None:
    """Between numbers and truth values, as C does it."""
    x = site.x()
    made = site.y()
    if x.dtype == made.dtype:
        site.give(x)
    elif made.dtype == "bool":
        zero = site.const(np.zeros((), x.dtype), "zero")
        site.op("NOT_EQUAL", [x, zero], made, schema.NotEqualOptionsT())
    else:
        site.op("CAST", [x], made, schema.CastOptionsT(DTYPES[x.dtype], DTYPES[made.dtype]))


def _shape_view(node: ir.Node, frame: Axes) -> View:
    return View(((frame,),), ((0,),))


_ANY_ORDER: Final = Rule(
    _shape_view, default=lambda node: as_is(rank(node.inputs[0])), from_input=lambda node, index, axes: axes
)


def shape_of(site: Site) -> None:
    """The model's sizes in the model's order, whatever the file's."""
    x, full = site.x(), len(site.frame)
    start, end = integer(site.node, "start", 0), integer(site.node, "end", full)
    chosen = [site.frame.index(a) for a in range(full)][slice(start, end)]
    now, made = site.temp((full,), dtype="int64"), site.y()
    options = schema.ShapeOptionsT(schema.TensorType.INT64)
    if chosen == list(range(full)):
        site.op("SHAPE", [x], made, options)
        return
    site.op("SHAPE", [x], now, options)
    site.op("GATHER", [now, site.ints(chosen, "places")], made, schema.GatherOptionsT(0))


def depth_to_space(site: Site) -> None:
    """DCR is the kernel's own order; CRD is brought to it by reordering channels."""
    x, block = site.x(), integer(site.node, "blocksize", 1)
    channels = x.shape[3]
    if text(site.node, "mode", "DCR") == "CRD":
        order = np.arange(channels).reshape(-1, block * block).T.reshape(-1)
        x = site.op("GATHER", [x, site.ints(order, "order")], site.temp(x.shape, x), schema.GatherOptionsT(3))
    site.op("DEPTH_TO_SPACE", [x], site.y(q=x.q), schema.DepthToSpaceOptionsT(block))


def space_to_depth(site: Site) -> None:
    """Both sides order channels alike."""
    x = site.x()
    site.op("SPACE_TO_DEPTH", [x], site.y(q=x.q), schema.SpaceToDepthOptionsT(integer(site.node, "blocksize", 1)))


def constant_of_shape(site: Site) -> None:
    """FILL with a computed shape."""
    attribute = site.node.attributes.get("value")
    fill = np.zeros(1, np.float32) if attribute is None else attribute.as_tensor().numpy()
    given = site.x()
    shape = site.op(
        "CAST", [given], site.temp(given.shape, dtype="int32"), schema.CastOptionsT(DTYPES[given.dtype], _INT32)
    )
    site.op("FILL", [shape, site.const(fill.reshape(()), "fill")], site.y(), schema.FillOptionsT())


def _few_free(shape: tuple[Dim, ...]) -> bool:
    return sum(isinstance(d, str) for d in shape) <= 1


def _reachable(node: ir.Node) -> Reason:
    if _few_free(dims(node.outputs[0])):
        return None
    if node.op_type == "Flatten":
        return None  # copied, or multiplied while running
    if constant(node.inputs[1]) is None:
        return None
    target = constant_ints(node, 1) or ()
    if target.count(-1) <= 1 and all(d or i < rank(node.inputs[0]) for i, d in enumerate(target)):
        return None
    return "its shape has several free sizes"


def _axes_given(node: ir.Node) -> Reason:
    if constant_ints(node, 1) is None and any(isinstance(d, str) for d in dims(node.inputs[0])):
        return "it names no axes and its input has a free size"
    return None


def _block(node: ir.Node) -> Reason:
    return None if isinstance(dims(node.inputs[0])[1], int) else "its channels are a free size"


SQUEEZE: Final = reducing(_squeezed, lambda node: False)
_CASTS: Final = dtypes("float32", "float16", "int32", "int64", "bool", "uint8", "int8", "int16")

_BLOCKS: Final = (ranks(4), attribute_in("mode", "DCR", "DCR", "CRD"), Need("known channels", _block))

ROWS: Final = (
    Lower("Reshape", reshape, RESHAPE, (Need("shape known, copied or computed", _reachable),), ()),
    Lower("Flatten", reshape, RESHAPE, (Need("shape known or computed", _reachable),), ()),
    Lower("Squeeze", squeeze, SQUEEZE, (constants(1), Need("axes named, or static", _axes_given)), ()),
    Lower("Unsqueeze", unsqueeze, UNSQUEEZE, (constants(1),), ()),
    Lower("Transpose", renamed, TRANSPOSE, (), ()),
    Lower("Identity", renamed, FIRST, (), ()),
    Lower("Cast", cast, FIRST, (_CASTS,)),
    Lower("Shape", shape_of, _ANY_ORDER),
    Lower("ConstantOfShape", constant_of_shape, AS_IS),
    Lower("DepthToSpace", depth_to_space, CHANNELS_LAST, _BLOCKS, ()),
    Lower("SpaceToDepth", space_to_depth, CHANNELS_LAST, (ranks(4),), ()),
)
