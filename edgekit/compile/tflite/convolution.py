"""Conv and ConvTranspose: channels-last kernels, grouped, depthwise, dilated, one- or two-dimensional.

A one-dimensional convolution is a two-dimensional one of height 1.
"""

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
    return Window(
        (1, *window.sizes), (1, *window.kernel), (1, *window.strides), (1, *window.dilations),
        (0, *window.begins), (0, *window.ends), window.rounds_up,
    )  # fmt: skip


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


def conv_transpose(site: Site) -> None:
    """The whole result (VALID), then a cut; SAME where it gives the same. Groups become zeros in a dense kernel."""
    node = site.node
    weight, scales = site.weight()
    group, spatial = integer(node, "group", 1), weight.ndim - 2
    dilations = ints(node, "dilations", (1,) * spatial)
    kernel = image_kernel(_dilated(_dense(weight, group), dilations))  # I, O, H, W
    ones, zeros = (1,) * (2 - spatial), (0,) * (2 - spatial)
    strides = (*ones, *ints(node, "strides", (1,) * spatial))
    pads = ints(node, "pads", (0,) * 2 * spatial)
    begins, ends = (*zeros, *pads[:spatial]), (*zeros, *pads[spatial:])
    extra = (*zeros, *ints(node, "output_padding", (0,) * spatial))
    x = as_image(site, site.x())
    channels, extents = kernel.shape[1], kernel.shape[2:]
    full = [
        FREE if d == FREE else (d - 1) * s + e + max(0, o - p)
        for d, s, e, o, p in zip(x.shape[1:3], strides, extents, extra, ends, strict=True)
    ]
    grown = [max(0, o - p) for o, p in zip(extra, ends, strict=True)]
    cut = [max(0, p - o) for o, p in zip(extra, ends, strict=True)]
    whole = not any(begins) and not any(cut)
    sized = [FREE if d == FREE else d - b - c for d, b, c in zip(full, begins, cut, strict=True)]
    same = FREE not in sized and not whole and _same_front(sized, x.shape[1:3], strides, extents) == tuple(begins)
    target = sized if same else full
    offsets = [e - s + g for e, s, g in zip(extents, strides, grown, strict=True)]
    sizes = _output_sizes(site, x, target, strides, offsets, channels)
    inputs: list[Tensor | None] = [
        sizes, weight_tensor(site, kernel.transpose(1, 2, 3, 0), scales, 0), x, bias_tensor(site, channels),
    ]  # fmt: skip
    options = schema.TransposeConvOptionsT(padding=SAME if same else VALID, strideH=strides[0], strideW=strides[1])
    if whole or same:
        written_as_image(site, "TRANSPOSE_CONV", inputs, options)
        return
    made = site.y()
    padded = site.temp((x.shape[0], *full, channels), made)
    site.op("TRANSPOSE_CONV", inputs, padded, options)
    shape = site.out_shape()
    image = made if len(shape) == 4 else site.temp((shape[0], 1, *shape[1:]), made)
    first = site.ints([0, *begins, 0], "begin")
    last = site.ints([0, *(-c for c in cut), 0], "end")
    masks = schema.StridedSliceOptionsT(
        beginMask=0b1001, endMask=0b1001 | sum(1 << (i + 1) for i, c in enumerate(cut) if not c)
    )
    site.op("STRIDED_SLICE", [padded, first, last, site.ints([1] * 4, "step")], image, masks)
    if image is not made:
        site.give(site.reshape(image, shape))


def _same_front(
    sized: list[int], into: tuple[int, ...], strides: tuple[int, ...], extents: tuple[int, ...]
) -> tuple[int, ...] | None:
    """What TFLite's SAME cuts in front; None where it does not fit the input's size."""
    found = []
    for out, size, stride, extent in zip(sized, into, strides, extents, strict=True):
        if -(-out // stride) != size:
            return None
        found.append(max(0, (size - 1) * stride + extent - out) // 2)
    return tuple(found)


def _output_sizes(
    site: Site, x: Tensor, target: list[int], strides: tuple[int, ...], offsets: list[int], channels: int
) -> Tensor:
    """The shape input: a constant, or computed from the shape of `x` where a size is free."""
    if FREE not in (x.shape[0], *target):
        return site.ints([x.shape[0], *target, channels], "shape")
    now = site.op("SHAPE", [x], site.temp((4,), dtype="int32"), schema.ShapeOptionsT(schema.TensorType.INT32))
    factor, term = (
        site.ints([1, *strides, 0], "factor"),
        site.ints([0, *offsets, channels], "term"),
    )
    if FREE not in target:
        factor = site.ints([1, 0, 0, 0], "factor")
        term = site.ints([0, *target, channels], "term")
    scaled = site.op("MUL", [now, factor], site.temp((4,), dtype="int32"), schema.MulOptionsT())
    return site.op("ADD", [scaled, term], site.temp((4,), dtype="int32"), schema.AddOptionsT())


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
