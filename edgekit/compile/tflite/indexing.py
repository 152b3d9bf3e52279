"""Gather, GatherND, TopK, OneHot: positions that are data.

TFLite knows no negative positions: constants are made positive here, computed ones by FLOOR_MOD with the axis' size.
"""

from typing import Final

import ai_edge_litert.schema_py_generated as schema
import numpy as np
import onnx_ir as ir

from edgekit.compile.tflite.axes import Axes, as_is, without
from edgekit.compile.tflite.dims import dims, rank
from edgekit.compile.tflite.flatfile import Tensor
from edgekit.compile.tflite.lowering import Lower, Need, Reason, constants, dtypes, number_is
from edgekit.compile.tflite.site import Site
from edgekit.compile.tflite.views import AS_IS, AXIS_ATTRIBUTE_LAST, Rule, View
from edgekit.quantize.canonical import constant, integer


def _axis(node: ir.Node) -> int:
    return integer(node, "axis", 0) % rank(node.inputs[0])


def _gather_view(node: ir.Node, frame: Axes) -> View:
    places = None if constant(node.inputs[1]) is not None else (as_is(rank(node.inputs[1])),)
    left = {0: without(frame, [_axis(node)]), 1: frame}.get(rank(node.inputs[1]), as_is(rank(node.outputs[0])))
    return View(((frame,), places), (left,))


GATHER: Final = Rule(
    _gather_view,
    default=lambda node: as_is(rank(node.inputs[0])),
    from_input=lambda node, index, axes: axes if index == 0 else None,
    from_output=lambda node, index, axes: axes if rank(node.inputs[1]) == 1 else None,
    allows=lambda node, frame: rank(node.inputs[1]) < 2 or frame == as_is(len(frame)),
)


def gather(site: Site) -> None:
    """Positions of rank 0 or 1 leave the layout free."""
    axis = _axis(site.node)
    x = site.x()
    place = site.frame.index(axis)
    indices = _positive(site, x, place)
    site.op("GATHER", [x, indices], site.y(q=x.q), schema.GatherOptionsT(place))


def _positive(site: Site, x: Tensor, place: int) -> Tensor:
    size, given = x.shape[place], site.constant(1)
    array = None if given is None else given.astype(np.int64)
    if array is not None and (size >= 0 or (array >= 0).all()):
        return site.ints(np.where(array < 0, array + size, array), "indices")
    indices = site.const(array, "indices") if array is not None else site.x(1)
    if size >= 0:
        bound = site.const(np.asarray(size, indices.dtype), "size")
    else:
        kind = schema.TensorType.INT64 if indices.dtype == "int64" else schema.TensorType.INT32
        shape = site.op("SHAPE", [x], site.temp((len(x.shape),), dtype=indices.dtype), schema.ShapeOptionsT(kind))
        at = site.ints(place, "axis")
        bound = site.op("GATHER", [shape, at], site.temp((), dtype=indices.dtype), schema.GatherOptionsT(0))
    made = site.temp(indices.shape, dtype=indices.dtype)
    return site.op("FLOOR_MOD", [indices, bound], made, schema.FloorModOptionsT())


def gather_nd(site: Site) -> None:
    """Tuples of positions in the last axis of the indices."""
    x, given = site.x(), site.constant(1)
    array = None if given is None else given.astype(np.int64)
    count = int(site.dims(1)[-1])
    sizes = np.array([int(d) for d in site.dims()[:count]])
    if array is not None:
        indices = site.ints(np.where(array < 0, array + sizes, array), "indices")
    else:
        raw = site.x(1)
        bound = site.const(sizes.astype(raw.dtype), "sizes")
        indices = site.op("FLOOR_MOD", [raw, bound], site.temp(raw.shape, dtype=raw.dtype), schema.FloorModOptionsT())
    site.op("GATHER_ND", [x, indices], site.y(), schema.GatherNdOptionsT())


def top_k(site: Site) -> None:
    """Along the last file axis; the smallest are the largest of the negated."""
    x, node = site.x(), site.node
    k = np.asarray(site.constant(1)).reshape(-1)[0]
    smallest = not integer(node, "largest", 1)
    if smallest:
        x = site.op("NEG", [x], site.temp(x.shape, x), schema.NegOptionsT())
    values = site.y(0)
    found = site.temp(values.shape, values) if smallest else values
    wants_places = len(node.outputs) > 1 and node.outputs[1].name
    places = site.temp(values.shape, dtype="int32")
    site.op("TOPK_V2", [x, site.ints(k, "k")], [found, places], schema.TopKV2OptionsT())
    if smallest:
        site.op("NEG", [found], values, schema.NegOptionsT())
    if wants_places:
        site.op("CAST", [places], site.y(1), schema.CastOptionsT(schema.TensorType.INT32, schema.TensorType.INT64))


def one_hot(site: Site) -> None:
    """Negative positions count from the end; what is beyond gives a row of `off`."""
    node = site.node
    depth = int(np.asarray(site.constant(1)).reshape(-1)[0])
    off, on = np.asarray(site.constant(2)).reshape(-1)
    x = site.x()
    zero, size = (site.const(np.asarray(v, x.dtype), n) for v, n in ((0, "zero"), (depth, "size")))
    below = site.op("LESS", [x, zero], site.temp(x.shape, dtype="bool"), schema.LessOptionsT())
    moved = site.op("ADD", [x, size], site.temp(x.shape, x), schema.AddOptionsT())
    indices = site.op("SELECT_V2", [below, moved, x], site.temp(x.shape, x), schema.SelectV2OptionsT())
    full = rank(node.outputs[0])
    axis = integer(node, "axis", -1) % full
    inputs = [indices, site.ints(depth, "depth"), site.const(on, "on"), site.const(off, "off")]
    site.op("ONE_HOT", inputs, site.y(), schema.OneHotOptionsT(-1 if axis == full - 1 else axis))


def _plain_tuples(node: ir.Node) -> Reason:
    shape, places = dims(node.inputs[0]), dims(node.inputs[1])
    if not places or not isinstance(places[-1], int):
        return "the length of its position tuples is free"
    free = [d for d in shape[: places[-1]] if isinstance(d, str)]
    return f"it indexes a free size ('{free[0]}')" if free else None


_INDEX: Final = dtypes("int32", "int64", index=1)
_DATA: Final = dtypes("float32", "int32", "int64", "bool", "int8", "uint8")

ROWS: Final = (
    Lower("Gather", gather, GATHER, (_DATA, _INDEX), ()),
    Lower(
        "GatherND", gather_nd, AS_IS, (_DATA, _INDEX, number_is("batch_dims", 0, 0), Need("known sizes", _plain_tuples))
    ),
    Lower("TopK", top_k, AXIS_ATTRIBUTE_LAST, (dtypes("float32", "int32"), constants(1))),
    Lower("OneHot", one_hot, AS_IS, (dtypes("int32", "int64"), constants(1, 2))),
)
