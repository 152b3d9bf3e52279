"""Operators that move or rename axes without touching values."""

from typing import Final

from edgekit.compile.tflite.dims import dims
from edgekit.compile.tflite.flatfile import FREE
from edgekit.compile.tflite.lowering import Lower
from edgekit.compile.tflite.site import Site
from edgekit.compile.tflite.views import FIRST, RESHAPE, TRANSPOSE


def reshape(site: Site) -> None:
    """The shape comes from inference: one free size becomes -1."""
    x, shape = site.x(), site.out_shape()
    site.reshape(x, shape, site.y(q=x.q))


def transpose(site: Site) -> None:
    """Nothing to compute: the same tensor under other axis numbers."""
    site.give(site.x())


ROWS: Final = (
    Lower("Reshape", reshape, RESHAPE, (), ()),
    Lower("Flatten", reshape, RESHAPE, (), ()),
    Lower("Transpose", transpose, TRANSPOSE, (), ()),
    Lower("Identity", transpose, FIRST, (), ()),
)
