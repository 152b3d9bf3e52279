"""Concat and Split along any axis, in any layout."""

from typing import Final

import ai_edge_litert.schema_py_generated as schema

from edgekit.compile.tflite.forms import convert
from edgekit.compile.tflite.lowering import Lower
from edgekit.compile.tflite.site import Site
from edgekit.compile.tflite.views import ELEMENTWISE
from edgekit.quantize.canonical import integer


def concat(site: Site) -> None:
    """8-bit kernels take only operands with the parameters of the result."""
    made = site.y()
    parts = []
    for index in range(len(site.node.inputs)):
        part = site.x(index)
        if part.q != made.q:
            same = site.temp(part.shape, dtype="int8", q=made.q)
            convert(site.file, part, same)
            part = same
        parts.append(part)
    axis = site.frame.index(integer(site.node, "axis", 0) % len(site.frame))
    site.op("CONCATENATION", parts, made, schema.ConcatenationOptionsT(axis, site.activation()))


ROWS: Final = (Lower("Concat", concat, ELEMENTWISE, (), ()),)
