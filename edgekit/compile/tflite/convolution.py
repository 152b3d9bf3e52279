"""Conv and ConvTranspose: channels-last kernels, grouped, depthwise, dilated, one- or two-dimensional.

A one-dimensional convolution is a two-dimensional one of height 1.
"""

from dataclasses import dataclass, replace
from typing import Final

import ai_edge_litert.schema_py_generated as schema
import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from edgekit.compile.tflite.dims import dims, rank
from edgekit.compile.tflite.flatfile import FREE, AxisScales, Tensor
from edgekit.compile.tflite.lowering import Lower, Need, Reason, constants, ranks
from edgekit.compile.tflite.padding import Window, pad_spatial, window_of
from edgekit.compile.tflite.site import Site
from edgekit.compile.tflite.views import CHANNELS_LAST
from edgekit.quantize.canonical import constant, integer, ints
from edgekit.quantize.quantized import QParams

SAME: Final = schema.Padding.SAME
VALID: Final = schema.Padding.VALID


def as_image(site: Site, x: Tensor) -> Tensor:
    """A channels-last tensor with height and width: N, W, C becomes N, 1, W, C."""
    return x if len(x.shape) == 4 else site.reshape(x, (x.shape[0], 1, *x.shape[1:]))


def image_window(window: Window) -> Window:
    """The same window in two dimensions."""
    if len(window.kernel) == 2:
        return window
    return replace(
        window,
        sizes=(1, *window.sizes),
        kernel=(1, *window.kernel),
        strides=(1, *window.strides),
        dilations=(1, *window.dilations),
        begins=(0, *window.begins),
        ends=(0, *window.ends),
    )


def image_kernel(weight: NDArray[np.generic]) -> NDArray[np.generic]:
    """A kernel with height and width."""
    return weight if weight.ndim == 4 else weight[:, :, None, :]


def written_as_image(
    site: Site, name: str, inputs: list[Tensor | None], options: object, q: QParams | None = None
) -> None:
    """The operator that writes output 0, through a reshape where the model has one spatial axis."""
    shape = site.out_shape()
    made = site.y(q=q)
    if len(shape) == 4:
        site.op(name, inputs, made, options)
        return
    image = site.temp((shape[0], 1, *shape[1:]), made)
    site.op(name, inputs, image, options)
    site.give(site.reshape(image, shape))


def bias_tensor(site: Site, channels: int) -> Tensor:
    """Input 2, zero where absent: kernels of old runtimes want one."""
    bias, scales = site.bias(channels)
    if bias is None:
        bias = np.zeros(channels, np.float32)
    return site.const(bias, "bias", axis_scales=None if scales is None else AxisScales(scales, 0))


def weight_tensor(site: Site, held: NDArray[np.generic], scales: NDArray[np.float32] | None, axis: int) -> Tensor:
    """A weight in the order of the file; `axis` is its output-channel axis there."""
    if scales is not None:
        scales = np.array(np.broadcast_to(scales, (held.shape[axis],)))
    return site.const(held, "weight", axis_scales=None if scales is None else AxisScales(scales, axis))


def conv(site: Site) -> None:
    """OIHW weights become OHWI, or 1HWO where every input channel is its own group."""
    node = site.node
    weight, scales = site.weight()
    weight = image_kernel(weight)
    x = as_image(site, site.x())
    window = image_window(window_of(node, site.dims()[2:], _kernel(node)))
    padding = SAME if window.is_same() else VALID
    if padding == VALID:
        x = pad_spatial(site, x, window)
    outputs, group = weight.shape[0], integer(node, "group", 1)
    depthwise = group > 1 and weight.shape[1] == 1
    held = weight.transpose(1, 2, 3, 0) if depthwise else weight.transpose(0, 2, 3, 1)
    inputs: list[Tensor | None] = [
        x,
        weight_tensor(site, held, scales, 3 if depthwise else 0),
        bias_tensor(site, outputs),
    ]
    geometry = {
        "padding": padding,
        "strideH": window.strides[0],
        "strideW": window.strides[1],
        "dilationHFactor": window.dilations[0],
        "dilationWFactor": window.dilations[1],
        "fusedActivationFunction": site.activation(),
    }
    if depthwise:
        options = schema.DepthwiseConv2DOptionsT(depthMultiplier=outputs // group, **geometry)
        written_as_image(site, "DEPTHWISE_CONV_2D", inputs, options)
    else:
        written_as_image(site, "CONV_2D", inputs, schema.Conv2DOptionsT(**geometry))


def _kernel(node: ir.Node) -> tuple[int, ...]:
    shape = dims(node.inputs[1])[2:]
    return ints(node, "kernel_shape", tuple(int(d) for d in shape))


@dataclass(frozen=True, slots=True)
class Spread:
    """Geometry of a transposed convolution, one entry per spatial axis (height, width); a free size is `FREE`.

    The kernel writes the whole result, from which ONNX's pads cut; `output_padding` gives back at the end.
    """

    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    extents: tuple[int, ...]
    begins: tuple[int, ...]
    ends: tuple[int, ...]
    extra: tuple[int, ...]

    @property
    def cuts(self) -> tuple[int, ...]:
        """What is cut at the end."""
        return tuple(max(0, end - extra) for end, extra in zip(self.ends, self.extra, strict=True))

    @property
    def terms(self) -> tuple[int, ...]:
        """The whole result has size * stride + term places, some of them beyond the last kernel position."""
        grown = (max(0, extra - end) for end, extra in zip(self.ends, self.extra, strict=True))
        return tuple(e - s + g for e, s, g in zip(self.extents, self.strides, grown, strict=True))

    @property
    def full(self) -> tuple[int, ...]:
        """Size of the whole result."""
        parts = zip(self.sizes, self.strides, self.terms, strict=True)
        return tuple(FREE if d == FREE else d * s + t for d, s, t in parts)

    @property
    def result(self) -> tuple[int, ...]:
        """Size after the cut."""
        parts = zip(self.full, self.begins, self.cuts, strict=True)
        return tuple(FREE if d == FREE else d - b - c for d, b, c in parts)

    def is_whole(self) -> bool:
        """Whether nothing is cut."""
        return not any(self.begins) and not any(self.cuts)

    def is_same(self) -> bool:
        """Whether TFLite's SAME cuts exactly so: half of the surplus in front, the rest at the end."""
        for out, size, stride, extent, begin in zip(
            self.result, self.sizes, self.strides, self.extents, self.begins, strict=True
        ):
            surplus = max(0, (size - 1) * stride + extent - out)
            if FREE in (out, size) or -(-out // stride) != size or surplus // 2 != begin:
                return False
        return True


def conv_transpose(site: Site) -> None:
    """The whole result, then a cut; SAME where it gives the same. Groups become zeros in a dense kernel."""
    node = site.node
    weight, scales = site.weight()
    spatial = weight.ndim - 2
    dense = _dense(weight, integer(node, "group", 1))
    kernel = image_kernel(_dilated(dense, ints(node, "dilations", (1,) * spatial)))  # I, O, H, W
    x, channels = as_image(site, site.x()), kernel.shape[1]
    spread = _spread(node, x, kernel.shape[2:], spatial)
    same = not spread.is_whole() and spread.is_same()
    shape = _output_shape(site, x, spread, spread.result if same else spread.full, channels)
    held = weight_tensor(site, kernel.transpose(1, 2, 3, 0), scales, 0)
    inputs: list[Tensor | None] = [shape, held, x, bias_tensor(site, channels)]
    height, width = spread.strides
    options = schema.TransposeConvOptionsT(padding=SAME if same else VALID, strideH=height, strideW=width)
    if same or spread.is_whole():
        written_as_image(site, "TRANSPOSE_CONV", inputs, options)
        return
    whole = site.temp((x.shape[0], *spread.full, channels), site.y())
    site.op("TRANSPOSE_CONV", inputs, whole, options)
    written_as_image(site, "STRIDED_SLICE", [whole, *_cut(site, spread)], _cut_options(spread))


def _spread(node: ir.Node, x: Tensor, extents: tuple[int, ...], spatial: int) -> Spread:
    ones, zeros = (1,) * (2 - spatial), (0,) * (2 - spatial)
    pads = ints(node, "pads", (0,) * 2 * spatial)
    return Spread(
        sizes=x.shape[1:3],
        strides=(*ones, *ints(node, "strides", (1,) * spatial)),
        extents=extents,
        begins=(*zeros, *pads[:spatial]),
        ends=(*zeros, *pads[spatial:]),
        extra=(*zeros, *ints(node, "output_padding", (0,) * spatial)),
    )


def _cut(site: Site, spread: Spread) -> list[Tensor]:
    first = site.ints([0, *spread.begins, 0], "begin")
    last = site.ints([0, *(-c for c in spread.cuts), 0], "end")
    return [first, last, site.ints([1, 1, 1, 1], "step")]


def _cut_options(spread: Spread) -> schema.StridedSliceOptionsT:
    """Batch and channels, and an end where nothing is cut, are masked: they are taken whole."""
    to_end = sum(1 << (axis + 1) for axis, cut in enumerate(spread.cuts) if not cut)
    return schema.StridedSliceOptionsT(beginMask=0b1001, endMask=0b1001 | to_end)


def _output_shape(site: Site, x: Tensor, spread: Spread, target: tuple[int, ...], channels: int) -> Tensor:
    """The shape input: a constant, or computed from the shape of `x` where a size is free."""
    if FREE not in (x.shape[0], *target):
        return site.ints([x.shape[0], *target, channels], "shape")
    factors, terms = ([1, *spread.strides, 0], [0, *spread.terms, channels])
    if FREE not in target:
        factors, terms = [1, 0, 0, 0], [0, *target, channels]
    now = site.op("SHAPE", [x], site.temp((4,), dtype="int32"), schema.ShapeOptionsT(schema.TensorType.INT32))
    scaled = site.temp((4,), dtype="int32")
    site.op("MUL", [now, site.ints(factors, "factors")], scaled, schema.MulOptionsT())
    return site.op("ADD", [scaled, site.ints(terms, "terms")], site.temp((4,), dtype="int32"), schema.AddOptionsT())


def _dense(weight: NDArray[np.generic], group: int) -> NDArray[np.generic]:
    """[C, M/group, …] to [C, M, …] with zeros between groups."""
    if group == 1:
        return weight
    per_group, per_input = weight.shape[1], weight.shape[0] // group
    dense = np.zeros((weight.shape[0], per_group * group, *weight.shape[2:]), weight.dtype)
    for g in range(group):
        rows = slice(g * per_input, (g + 1) * per_input)
        dense[rows, g * per_group : (g + 1) * per_group] = weight[rows]
    return dense


def _dilated(weight: NDArray[np.generic], dilations: tuple[int, ...]) -> NDArray[np.generic]:
    if all(d == 1 for d in dilations):
        return weight
    spread = [(k - 1) * d + 1 for k, d in zip(weight.shape[2:], dilations, strict=True)]
    wide = np.zeros((*weight.shape[:2], *spread), weight.dtype)
    grid: tuple[slice, ...] = tuple(slice(None, None, d) for d in (1, 1, *dilations))
    wide[grid] = weight
    return wide


def _no_output_shape(node: ir.Node) -> Reason:
    return "output_shape is given in the place of pads" if ints(node, "output_shape") else None


def _explicit_pads(node: ir.Node) -> Reason:
    attribute = node.attributes.get("auto_pad")
    value = attribute.as_string() if attribute is not None else "NOTSET"
    return None if value == "NOTSET" else f"auto_pad is {value}"


def _weight_groups(node: ir.Node) -> Reason:
    group, weight = integer(node, "group", 1), constant(node.inputs[1])
    if group == 1 or weight is None:
        return None
    return None if rank(node.inputs[0]) == weight.ndim else "its weight and input differ in rank"


EXPLICIT: Final = Need("explicit pads", _explicit_pads, "let edgekit import the model, which makes pads explicit")
PADS: Final = Need("pads, not output_shape", _no_output_shape, "export with explicit pads")

ROWS: Final = (
    Lower(
        "Conv", conv, CHANNELS_LAST, (ranks(3, 4), constants(1, 2), EXPLICIT, Need("groups", _weight_groups)), (), True
    ),
    Lower("ConvTranspose", conv_transpose, CHANNELS_LAST, (ranks(3, 4), constants(1, 2), EXPLICIT, PADS), ()),
)
