"""MaxPool and AveragePool: SAME or VALID where that is what the pads say, otherwise padded before the kernel."""

from typing import Final

import ai_edge_litert.schema_py_generated as schema
import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from edgekit.compile.tflite.convolution import EXPLICIT, SAME, VALID, as_image, image_window, written_as_image
from edgekit.compile.tflite.dims import dims, is_static
from edgekit.compile.tflite.flatfile import Tensor
from edgekit.compile.tflite.lowering import Lower, Need, Reason, dtypes, one_output, ranks
from edgekit.compile.tflite.padding import Window, pad_spatial, window_of
from edgekit.compile.tflite.plan import clamp_of
from edgekit.compile.tflite.site import Site
from edgekit.compile.tflite.views import CHANNELS_LAST
from edgekit.quantize.canonical import integer, ints


def _window(node: ir.Node) -> Window:
    return image_window(window_of(node, dims(node.inputs[0])[2:], ints(node, "kernel_shape")))


def _options(site: Site, window: Window, padding: int, activation: int) -> schema.Pool2DOptionsT:
    height, width = window.kernel
    return schema.Pool2DOptionsT(padding, window.strides[1], window.strides[0], width, height, activation)


def max_pool(site: Site) -> None:
    """Pads must lose every comparison: the dtype's minimum, or zero (a cheaper operator) where nothing is below it."""
    window, x = _window(site.node), as_image(site, site.x())
    padding = SAME if window.is_same() else VALID
    if padding == VALID:
        lowest = x.q.lo if x.q is not None else float(np.finfo(np.float32).min)
        x = pad_spatial(site, x, window, 0.0 if _never_negative(site.node.inputs[0]) else lowest)
    written_as_image(site, "MAX_POOL_2D", [x], _options(site, window, padding, site.activation()), q=x.q)


def _never_negative(value: ir.Value | None) -> bool:
    node = value.producer() if value is not None else None
    clamp = clamp_of(node)
    return clamp is not None and clamp.lo >= 0


def average_pool(site: Site) -> None:
    """SAME leaves pads out of the mean. Otherwise zeros are padded, and counted out again by a constant factor."""
    window, x = _window(site.node), as_image(site, site.x())
    counts_pads = bool(integer(site.node, "count_include_pad", 0))
    if window.is_valid() or (window.is_same() and not counts_pads):
        padding = VALID if window.is_valid() else SAME
        written_as_image(site, "AVERAGE_POOL_2D", [x], _options(site, window, padding, site.activation()), q=x.q)
        return
    factor = None if not is_static(window.sizes) else _factor(window, counts_pads)
    x = pad_spatial(site, x, window)
    if factor is None:
        written_as_image(site, "AVERAGE_POOL_2D", [x], _options(site, window, VALID, site.activation()), q=x.q)
        return
    counts = window.outputs()
    assert counts is not None
    pooled = site.temp((x.shape[0], *counts, x.shape[3]), x)
    site.op("AVERAGE_POOL_2D", [x], pooled, _options(site, window, VALID, schema.ActivationFunctionType.NONE))
    inputs: list[Tensor | None] = [pooled, site.const(factor, "factor")]
    written_as_image(site, "MUL", inputs, schema.MulOptionsT(fusedActivationFunction=site.activation()))


def _factor(window: Window, counts_pads: bool) -> NDArray[np.float32] | None:
    """Kernel size over the number of elements that count, per window; None where it is 1 everywhere."""
    per_axis = []
    counts = window.outputs()
    assert counts is not None
    for i, n in enumerate(counts):
        size, end = int(window.sizes[i]), window.ends[i]
        low, high = (-window.begins[i], size + end) if counts_pads else (0, size)
        starts = np.arange(n) * window.strides[i] - window.begins[i]
        at = starts[:, None] + np.arange(window.kernel[i]) * window.dilations[i]
        per_axis.append(((at >= low) & (at < high)).sum(1))
    inside = per_axis[0][:, None] * per_axis[1][None, :]
    whole = window.kernel[0] * window.kernel[1]
    return None if (inside == whole).all() else (whole / inside).astype(np.float32)[None, :, :, None]


def _not_dilated(node: ir.Node) -> Reason:
    return "its window is dilated" if any(d != 1 for d in ints(node, "dilations")) else None


def _pads_on_free_size(node: ir.Node) -> Reason:
    window = _window(node)
    if is_static(window.sizes):
        return None
    if window.rounds_up and any(s != 1 for s in window.strides):
        return "it rounds the size up (ceil_mode) and the size is free"
    plain = window.is_valid() or window.is_same() or bool(integer(node, "count_include_pad", 0))
    return None if plain or node.op_type == "MaxPool" else "its pads are not counted and the size is free"


def _integer_mean(node: ir.Node) -> Reason:
    window, counts_pads = _window(node), bool(integer(node, "count_include_pad", 0))
    if window.is_valid() or (window.is_same() and not counts_pads):
        return None
    return None if is_static(window.sizes) and _factor(window, counts_pads) is None else "pads are counted out in float"


_NEEDS: Final = (
    ranks(3, 4),
    dtypes("float32"),
    EXPLICIT,
    Need("dilations = 1", _not_dilated, "replace the dilated pool"),
    Need("ceil_mode and uncounted pads only on static sizes", _pads_on_free_size, "bind the size with --input-shape"),
)

ROWS: Final = (
    Lower("MaxPool", max_pool, CHANNELS_LAST, (*_NEEDS, one_output()), (), True),
    Lower("AveragePool", average_pool, CHANNELS_LAST, _NEEDS, (Need("equal counts", _integer_mean),), True, True),
)
