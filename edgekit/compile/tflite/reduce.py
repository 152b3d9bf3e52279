"""Reductions over any axes, in any layout; global pools are reductions over the spatial axes."""

from collections.abc import Callable
from typing import Final

import ai_edge_litert.schema_py_generated as schema
import numpy as np
import onnx_ir as ir

from edgekit.compile.tflite.dims import rank
from edgekit.compile.tflite.lowering import Lower
from edgekit.compile.tflite.site import Site
from edgekit.compile.tflite.views import reducing


def spatial(node: ir.Node) -> tuple[int, ...]:
    """All axes but batch and channels."""
    return tuple(range(2, rank(node.inputs[0])))


GLOBAL: Final = reducing(spatial, lambda node: True)


def global_pool(op: str) -> Callable[[Site], None]:
    """Over all spatial axes, which stay as sizes of 1."""

    def emit(site: Site) -> None:
        axes = site.const(np.int32(sorted(site.frame.index(a) for a in spatial(site.node))), "axes")
        x = site.x()
        site.op(op, [x, axes], site.y(q=x.q if op == "REDUCE_MAX" else None), schema.ReducerOptionsT(keepDims=True))

    return emit


ROWS: Final = (
    Lower("GlobalAveragePool", global_pool("MEAN"), GLOBAL, (), ()),
    Lower("GlobalMaxPool", global_pool("REDUCE_MAX"), GLOBAL, (), ()),
)
