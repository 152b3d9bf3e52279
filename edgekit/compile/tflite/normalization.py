"""Normalisations by the mean and variance of the tensor itself, taken apart; in any layout, in float."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from edgekit.compile.tflite.flatfile import Tensor
from edgekit.compile.tflite.lowering import Lower, constants, dtypes, one_output
from edgekit.compile.tflite.reduce import Reduction, spatial
from edgekit.compile.tflite.site import Site
from edgekit.compile.tflite.unary import Formula
from edgekit.compile.tflite.views import FIRST
from edgekit.quantize.canonical import integer, real


def layer_normalization(site: Site) -> None:
    """Over the axes from `axis` on; scale and bias are aligned with the last axes."""
    full = len(site.frame)
    first = integer(site.node, "axis", -1) % full
    factors = [site.constant(i) for i in (1, 2)]
    _normalized(site, tuple(range(first, full)), [None if f is None else _aligned(f, full) for f in factors])


def instance_normalization(site: Site) -> None:
    """Over the spatial axes; scale and bias per channel."""
    full = len(site.frame)
    shape = (1, -1, *(1,) * (full - 2))
    _normalized(site, spatial(site.node), [np.asarray(site.constant(i)).reshape(shape) for i in (1, 2)])


def _aligned(array: NDArray[np.generic], full: int) -> NDArray[np.generic]:
    return array.reshape((1,) * (full - array.ndim) + array.shape)


def _normalized(site: Site, axes: tuple[int, ...], factors: list[NDArray[np.generic] | None]) -> None:
    """(x - mean) / sqrt(variance + epsilon) * scale + bias."""
    x, over = site.x(), Reduction(site, axes)
    f = Formula(site, x)
    centred = f.two("SUB", x, over.write("MEAN", x, keeps=True))
    variance = over.write("MEAN", f.two("MUL", centred, centred), keeps=True)
    inverse = f.one("RSQRT", f.two("ADD", variance, real(site.node, "epsilon", 1e-5)))
    scale, bias = (None if a is None else site.const(a.transpose(site.frame), "factor") for a in factors)
    made = site.y()
    result: Tensor = f.two("MUL", centred, inverse, made if scale is None and bias is None else None)
    if scale is not None:
        result = f.two("MUL", result, scale, made if bias is None else None)
    if bias is not None:
        f.two("ADD", result, bias, made)


_NEEDS: Final = (dtypes("float32"), constants(1, 2), one_output())

ROWS: Final = (
    Lower("LayerNormalization", layer_normalization, FIRST, _NEEDS),
    Lower("InstanceNormalization", instance_normalization, FIRST, _NEEDS),
)
