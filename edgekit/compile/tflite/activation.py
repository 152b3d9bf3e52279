"""Activations: elementwise functions of one tensor, in any layout."""

from typing import Final

import ai_edge_litert.schema_py_generated as schema
import numpy as np

from edgekit.compile.tflite.lowering import Lower, constants, dtypes
from edgekit.compile.tflite.plan import INF, clamp_of
from edgekit.compile.tflite.site import Site
from edgekit.compile.tflite.views import FIRST

_ALONE: Final = {(0.0, INF): "RELU", (0.0, 6.0): "RELU6", (-1.0, 1.0): "RELU_N1_TO_1"}


def clamp(site: Site) -> None:
    """A Relu or Clip that no other node has swallowed."""
    bounds, x = clamp_of(site.node), site.x()
    assert bounds is not None
    name = _ALONE.get((bounds.lo, bounds.hi))
    if name is not None:
        site.op(name, [x], site.y())
        return
    site.give(site.clamped(site.x(), bounds))


ROWS: Final = (
    Lower("Relu", clamp, FIRST, (dtypes("float32"),), ()),
    Lower("Clip", clamp, FIRST, (dtypes("float32"), constants(1, 2)), ()),
)
