"""Concat, Split, Slice, Pad, Tile and Expand along any axes, in any layout."""

from typing import Final

import ai_edge_litert.schema_py_generated as schema
import onnx_ir as ir

from edgekit.compile.tflite.axes import arranged
from edgekit.compile.tflite.dims import dims, rank
from edgekit.compile.tflite.elementwise import requantized
from edgekit.compile.tflite.flatfile import FREE, Tensor
from edgekit.compile.tflite.lowering import Lower, Need, Reason, attribute_in, constants
from edgekit.compile.tflite.padding import pad as pad_with
from edgekit.compile.tflite.site import Site
from edgekit.compile.tflite.views import AS_IS, ELEMENTWISE, FIRST, constant_ints
from edgekit.quantize.canonical import integer, text

_FAR: Final = 2**31 - 1


def concat(site: Site) -> None:
    """8-bit kernels take only operands with the parameters of the result."""
    made = site.y()
    parts = [requantized(site, site.x(i), made) for i in range(len(site.node.inputs))]
    axis = site.frame.index(integer(site.node, "axis", 0) % len(site.frame))
    site.op("CONCATENATION", parts, made, schema.ConcatenationOptionsT(axis))


def split(site: Site) -> None:
    """SPLIT where the parts are equal (delegates take that one), else SPLIT_V."""
    x, node = site.x(), site.node
    axis = integer(node, "axis", 0) % len(site.frame)
    sizes = [dims(v)[axis] for v in node.outputs]
    parts = [site.y(i, q=x.q) for i in range(len(sizes))]
    place = site.ints(site.frame.index(axis), "axis")
    if len(set(sizes)) == 1:
        site.op("SPLIT", [place, x], parts, schema.SplitOptionsT(len(parts)))
    else:
        site.op("SPLIT_V", [x, site.ints(sizes, "sizes"), place], parts, schema.SplitVOptionsT(len(parts)))


def slice_(site: Site) -> None:
    """SLICE for steps of 1 with known ends (delegates take that one), else STRIDED_SLICE."""
    x, shape = site.x(), site.dims()
    starts, ends, steps = ([d] * len(shape) for d in (0, _FAR, 1))
    given, until = constant_ints(site.node, 1) or (), constant_ints(site.node, 2) or ()
    named = constant_ints(site.node, 3) or tuple(range(len(given)))
    strides = constant_ints(site.node, 4) or (1,) * len(given)
    for axis, start, end, step in zip(named, given, until, strides, strict=True):
        starts[axis], ends[axis], steps[axis] = _bounds(shape[axis], start, end, step)
    made, free = site.y(q=x.q), FREE in x.shape
    if all(s == 1 for s in steps) and not free:
        begin = site.ints(arranged(starts, site.frame), "begin")
        site.op("SLICE", [x, begin, site.ints(made.shape, "size")], made, schema.SliceOptionsT())
        return
    from_start = [a for a, s in enumerate(steps) if starts[a] == (0 if s > 0 else _FAR)]
    to_end = [a for a, s in enumerate(steps) if ends[a] == (_FAR if s > 0 else -_FAR)]
    masks = [sum(1 << site.frame.index(a) for a in axes) for axes in (from_start, to_end)]
    bounds = [site.ints(arranged(v, site.frame), n) for v, n in ((starts, "begin"), (ends, "end"), (steps, "step"))]
    site.op("STRIDED_SLICE", [x, *bounds], made, schema.StridedSliceOptionsT(masks[0], masks[1]))


def _bounds(size: int | str, start: int, end: int, step: int) -> tuple[int, int, int]:
    """Start and end as the kernel takes them: whole ranges as `_FAR`, known sizes clamped as ONNX clamps them."""
    if isinstance(size, str):
        if step > 0:
            return max(start, -_FAR), min(end, _FAR), step
        return min(start, _FAR), max(end, -_FAR), step
    low, high = (0, size) if step > 0 else (-1, size - 1)
    start, end = (min(max(v + size if v < 0 else v, low), high) for v in (start, end))
    if step < 0:
        return (_FAR if start == size - 1 else start), (-_FAR if end == -1 else end), step
    return start, (_FAR if end == size else end), step


def pad(site: Site) -> None:
    """Constant, reflect, or edge: a mirror that repeats the border, as far as it reaches each time."""
    begins, ends = _amounts(site.node)
    mode = text(site.node, "mode", "constant")
    x = _cropped(site, site.x(), begins, ends)
    before, after = (arranged([max(p, 0) for p in side], site.frame) for side in (begins, ends))
    if mode == "constant":
        fill = site.constant(2)
        site.give(pad_with(site, x, before, after, None if fill is None else float(fill.reshape(-1)[0])))
        return
    if mode == "reflect":
        site.give(_mirrored(site, x, before, after, schema.MirrorPadMode.REFLECT))
        return
    reach = 1
    while any(before) or any(after):
        now = [tuple(min(p, reach) for p in side) for side in (before, after)]
        x = _mirrored(site, x, now[0], now[1], schema.MirrorPadMode.SYMMETRIC)
        before, after = (
            tuple(p - n for p, n in zip(side, step, strict=True))
            for side, step in zip((before, after), now, strict=True)
        )
        reach += 1 if not (any(before) or any(after)) else reach
    site.give(x)


def _mirrored(site: Site, x: Tensor, before: tuple[int, ...], after: tuple[int, ...], mode: int) -> Tensor:
    shape = [FREE if d == FREE else d + b + a for d, b, a in zip(x.shape, before, after, strict=True)]
    amounts = site.ints(list(zip(before, after, strict=True)), "pads")
    return site.op("MIRROR_PAD", [x, amounts], site.temp(shape, x), schema.MirrorPadOptionsT(mode))


def _amounts(node: ir.Node) -> tuple[list[int], list[int]]:
    full = rank(node.inputs[0])
    pads = constant_ints(node, 1) or ()
    axes = constant_ints(node, 3) or tuple(range(full))
    begins, ends = [0] * full, [0] * full
    for place, axis in enumerate(axes):
        begins[axis], ends[axis] = pads[place], pads[place + len(axes)]
    return begins, ends


def _cropped(site: Site, x: Tensor, begins: list[int], ends: list[int]) -> Tensor:
    """Negative pads cut."""
    if min(*begins, *ends) >= 0:
        return x
    first, last = (arranged([max(-p, 0) for p in side], site.frame) for side in (begins, ends))
    shape = [FREE if d == FREE else d - f - z for d, f, z in zip(x.shape, first, last, strict=True)]
    bounds = [site.ints(v, n) for v, n in ((first, "begin"), ([-z for z in last], "end"), ([1] * len(first), "step"))]
    mask = sum(1 << i for i, z in enumerate(last) if not z)
    return site.op("STRIDED_SLICE", [x, *bounds], site.temp(shape, x), schema.StridedSliceOptionsT(0, mask))


def tile(site: Site) -> None:
    """Constant repeats per axis."""
    x, repeats = site.x(), constant_ints(site.node, 1)
    assert repeats is not None
    site.op(
        "TILE",
        [x, site.ints(arranged(repeats, site.frame), "repeats")],
        site.y(q=x.q),
        schema.TileOptionsT(),
    )


def expand(site: Site) -> None:
    """BROADCAST_TO; with free sizes the shape is the larger of what is there and what is asked for."""
    made, x = site.y(), site.x()
    if FREE not in made.shape:
        site.op("BROADCAST_TO", [x, site.ints(made.shape, "shape")], made, schema.BroadcastToOptionsT())
        return
    count = len(made.shape)
    asked = site.constant(1)
    wanted = (
        site.op("CAST", [site.x(1)], site.temp((count,), dtype="int32"), schema.CastOptionsT())
        if asked is None
        else site.ints([1] * (count - asked.size) + list(asked.reshape(-1)), "shape")
    )
    if len(x.shape) < count:
        x = site.reshape(x, (*(1,) * (count - len(x.shape)), *x.shape))
    now = site.op("SHAPE", [x], site.temp((count,), dtype="int32"), schema.ShapeOptionsT(schema.TensorType.INT32))
    shape = site.op("MAXIMUM", [now, wanted], site.temp((count,), dtype="int32"), schema.MaximumMinimumOptionsT())
    site.op("BROADCAST_TO", [x, shape], made, schema.BroadcastToOptionsT())


def _known_parts(node: ir.Node) -> Reason:
    axis = integer(node, "axis", 0) % rank(node.inputs[0])
    free = [str(d) for v in node.outputs if isinstance(d := dims(v)[axis], str)]
    return f"the split axis has a free size ('{free[0]}')" if free else None


def _five(node: ir.Node) -> Reason:
    found = rank(node.inputs[0])
    return None if found <= 5 else f"its input has {found} axes, the kernel takes 5"


_FEW: Final = Need("rank ≤ 5", _five)

ROWS: Final = (
    Lower("Concat", concat, ELEMENTWISE, (), ()),
    Lower(
        "Split",
        split,
        FIRST,
        (constants(1), Need("known part sizes", _known_parts, "bind the size with --input-shape")),
        (),
    ),
    Lower("Slice", slice_, FIRST, (constants(1, 2, 3, 4), _FEW), ()),
    Lower(
        "Pad",
        pad,
        FIRST,
        (constants(1, 2, 3), attribute_in("mode", "constant", "constant", "reflect", "edge"), _FEW),
        (),
    ),
    Lower("Tile", tile, FIRST, (constants(1), _FEW)),
    Lower("Expand", expand, AS_IS),
)
