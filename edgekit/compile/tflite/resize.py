"""Resize of the spatial axes: nearest by kernel or by table, linear by kernel.

ONNX has many ways to map a position of the result to one of the input. For nearest with known sizes the positions are
computed here, and where TFLite's kernel takes others they become a GATHER per axis, which is exact for every mode.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import ai_edge_litert.schema_py_generated as schema
import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from edgekit.compile.tflite.convolution import as_image
from edgekit.compile.tflite.dims import dims, is_static
from edgekit.compile.tflite.flatfile import FREE, Tensor
from edgekit.compile.tflite.lowering import Lower, Need, Reason, attribute_in, constants, dtypes, number_is, ranks
from edgekit.compile.tflite.site import Site
from edgekit.compile.tflite.views import CHANNELS_LAST, constant_ints
from edgekit.quantize.canonical import constant, ints, text

Positions = NDArray[np.floating]


def _symmetric(x: Positions, scale: float, before: int, after: int) -> Positions:
    adjusted = after / (scale * before)
    return before / 2 * (1 - adjusted) + (x + 0.5) / scale - 0.5


MAPPINGS: Final[dict[str, Callable[[Positions, float, int, int], Positions]]] = {
    "half_pixel": lambda x, scale, before, after: (x + 0.5) / scale - 0.5,
    "pytorch_half_pixel": lambda x, scale, before, after: (x + 0.5) / scale - 0.5 if after > 1 else x * 0,
    "half_pixel_symmetric": _symmetric,
    "asymmetric": lambda x, scale, before, after: x / scale,
    "align_corners": lambda x, scale, before, after: x * (before - 1) / (after - 1) if after > 1 else x * 0,
}
ROUNDINGS: Final[dict[str, Callable[[Positions], Positions]]] = {
    "round_prefer_floor": lambda x: np.ceil(x - 0.5),
    "round_prefer_ceil": lambda x: np.floor(x + 0.5),
    "floor": np.floor,
    "ceil": np.ceil,
}


@dataclass(frozen=True, slots=True)
class Kernel:
    """The flags of a TFLite resize and the input positions that they stand for."""

    align_corners: bool
    half_pixel: bool

    def positions(self, before: int, after: int) -> Positions:
        """Before rounding (nearest) or clamping (linear), in the kernel's own float32 arithmetic."""
        x = np.arange(after, dtype=np.float32)
        if self.align_corners and after > 1:
            return x * (np.float32(before - 1) / np.float32(after - 1))
        scale = np.float32(before) / np.float32(after)
        return (x + np.float32(0.5)) * scale - np.float32(0.5) if self.half_pixel else x * scale

    def nearest(self, before: int, after: int) -> NDArray[np.int64]:
        """The kernel's own table."""
        x = self.positions(before, after)
        if self.half_pixel:  # without the detour by - 0.5, which would move ties
            x = (np.arange(after, dtype=np.float32) + np.float32(0.5)) * (np.float32(before) / np.float32(after))
        taken = np.floor(x + np.float32(0.5)) if self.align_corners else np.floor(x)
        return np.clip(taken, 0, before - 1).astype(np.int64)


KERNELS: Final = (Kernel(False, False), Kernel(False, True), Kernel(True, False))


def positions(node: ir.Node, axis: int) -> Positions:
    """Where each position of the result lies in the input along a model axis of known size, as ONNX says."""
    before, after = int(dims(node.inputs[0])[axis]), int(dims(node.outputs[0])[axis])
    mapping = MAPPINGS[text(node, "coordinate_transformation_mode", "half_pixel")]
    return mapping(np.arange(after, dtype=np.float64), scale_of(node, axis), before, after)


def scale_of(node: ir.Node, axis: int) -> float:
    """The factor given, or the ratio of sizes."""
    scales = constant(node.inputs[2]) if len(node.inputs) > 2 else None
    axes = ints(node, "axes", tuple(range(len(dims(node.inputs[0])))))
    if scales is not None and scales.size:
        return float(dict(zip(axes, scales.reshape(-1), strict=True)).get(axis, 1.0))
    before, after = dims(node.inputs[0])[axis], dims(node.outputs[0])[axis]
    return int(after) / int(before) if isinstance(before, int) and isinstance(after, int) else 1.0


def nearest_table(node: ir.Node, axis: int) -> NDArray[np.int64]:
    """The input position that each position of the result takes."""
    rounding = ROUNDINGS[text(node, "nearest_mode", "round_prefer_floor")]
    size = int(dims(node.inputs[0])[axis])
    return np.clip(rounding(positions(node, axis)), 0, size - 1).astype(np.int64)


def _spatial(node: ir.Node) -> range:
    return range(2, len(dims(node.inputs[0])))


def _sizes(node: ir.Node, axis: int) -> tuple[int, int]:
    return int(dims(node.inputs[0])[axis]), int(dims(node.outputs[0])[axis])


def nearest_kernel(node: ir.Node) -> Kernel | None:
    """Flags at which the kernel takes the same positions; None: no flags do."""
    if not _has_known_sizes(node):
        return _kernel_for_free_sizes(node)
    for kernel in KERNELS:
        if all((kernel.nearest(*_sizes(node, a)) == nearest_table(node, a)).all() for a in _spatial(node)):
            return kernel
    return None


def linear_kernel(node: ir.Node) -> Kernel | None:
    """Flags at which the kernel interpolates between the same positions."""
    if not _has_known_sizes(node):
        return _kernel_for_free_sizes(node)
    for kernel in KERNELS:
        if all(_same_points(node, kernel, a) for a in _spatial(node)):
            return kernel
    return None


def _same_points(node: ir.Node, kernel: Kernel, axis: int) -> bool:
    before, after = _sizes(node, axis)
    ours, theirs = (np.clip(p, 0, before - 1) for p in (positions(node, axis), kernel.positions(before, after)))
    return bool(np.abs(ours - theirs).max() < 1e-6)


def _kernel_for_free_sizes(node: ir.Node) -> Kernel | None:
    """Whole factors upwards, where rounding never meets a tie."""
    mode = text(node, "coordinate_transformation_mode", "half_pixel")
    if text(node, "mode", "nearest") == "linear":
        return {"half_pixel": KERNELS[1], "asymmetric": KERNELS[0]}.get(mode)
    rounding = text(node, "nearest_mode", "round_prefer_floor")
    if mode == "asymmetric":
        return KERNELS[0] if rounding == "floor" else None
    return KERNELS[1] if mode == "half_pixel" and rounding.startswith("round") else None


def resize(site: Site) -> None:
    """Height and width; a single spatial axis is an image of height 1."""
    node = site.node
    x = as_image(site, site.x())
    shape = site.out_shape()
    image = shape if len(shape) == 4 else (shape[0], 1, *shape[1:])
    is_linear = text(node, "mode", "nearest") == "linear"
    kernel = linear_kernel(node) if is_linear else nearest_kernel(node)
    made = site.y(q=x.q)
    into = made if len(shape) == 4 else site.temp(image, made)
    if kernel is None:
        _by_table(site, x, into)
    else:
        size = _target(site, x, image)
        flags = {"alignCorners": kernel.align_corners, "halfPixelCenters": kernel.half_pixel}
        if is_linear:
            site.op("RESIZE_BILINEAR", [x, size], into, schema.ResizeBilinearOptionsT(**flags))
        else:
            site.op("RESIZE_NEAREST_NEIGHBOR", [x, size], into, schema.ResizeNearestNeighborOptionsT(**flags))
    if into is not made:
        site.give(site.reshape(into, shape))


def _by_table(site: Site, x: Tensor, into: Tensor) -> None:
    tables = {a - len(site.frame) + 3: nearest_table(site.node, a) for a in _spatial(site.node)}
    steps = [(place, t) for place, t in tables.items() if not np.array_equal(t, np.arange(x.shape[place]))]
    for n, (place, table) in enumerate(steps):
        shape = [table.size if i == place else d for i, d in enumerate(x.shape)]
        target = into if n == len(steps) - 1 else site.temp(shape, x)
        x = site.op("GATHER", [x, site.ints(table, "table")], target, schema.GatherOptionsT(place))
    if not steps:
        site.give(x)


def _target(site: Site, x: Tensor, image: tuple[int, ...]) -> Tensor:
    """Height and width of the result, computed where they are free."""
    if FREE not in image[1:3]:
        return site.ints(image[1:3], "size")
    factors = [round(scale_of(site.node, a)) for a in _spatial(site.node)]
    factors = [1] * (2 - len(factors)) + factors
    now = site.op("SHAPE", [x], site.temp((4,), dtype="int32"), schema.ShapeOptionsT(schema.TensorType.INT32))
    bounds = [site.ints([v], n) for v, n in ((1, "begin"), (2, "size"))]
    size = site.op("SLICE", [now, *bounds], site.temp((2,), dtype="int32"), schema.SliceOptionsT())
    return site.op("MUL", [size, site.ints(factors, "factors")], site.temp((2,), dtype="int32"), schema.MulOptionsT())


def _has_known_sizes(node: ir.Node) -> bool:
    return is_static(dims(node.inputs[0])[2:]) and is_static(dims(node.outputs[0])[2:])


def _spatial_only(node: ir.Node) -> Reason:
    pairs = list(zip(dims(node.inputs[0]), dims(node.outputs[0]), strict=True))[:2]
    changed = any(isinstance(b, int) and isinstance(a, int) and a != b for b, a in pairs)
    return "it resizes batch or channels" if changed or any(scale_of(node, a) != 1 for a in (0, 1)) else None


def _has_kernel(node: ir.Node) -> Reason:
    mode = text(node, "mode", "nearest")
    transformation = text(node, "coordinate_transformation_mode", "half_pixel")
    if _has_known_sizes(node):
        if mode == "linear" and linear_kernel(node) is None:
            return f"no kernel interpolates at the positions of {transformation} here"
        return None
    factors = [scale_of(node, a) for a in _spatial(node)]
    if constant_ints(node, 3) or any(f != round(f) or f < 1 for f in factors) or _kernel_for_free_sizes(node) is None:
        return f"its size is free and the factor is not a whole number of a mode that kernels have ({transformation})"
    return None


_NEEDS: Final = (
    ranks(3, 4),
    dtypes("float32"),
    attribute_in("mode", "nearest", "nearest", "linear"),
    attribute_in("coordinate_transformation_mode", "half_pixel", *MAPPINGS),
    attribute_in("keep_aspect_ratio_policy", "stretch", "stretch"),
    number_is("antialias", 0, 0),
    constants(1, 2, 3),
    Need("spatial axes only", _spatial_only),
    Need("positions that a kernel takes", _has_kernel, "bind the size with --input-shape, or export with half_pixel"),
)

ROWS: Final = (Lower("Resize", resize, CHANNELS_LAST, _NEEDS, (), one_scale=True),)
