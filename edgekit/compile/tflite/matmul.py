"""Gemm and MatMul: FULLY_CONNECTED where the second operand is a constant matrix, else BATCH_MATMUL."""

from typing import Final

import ai_edge_litert.schema_py_generated as schema
import numpy as np

from edgekit.compile.tflite.convolution import bias_tensor, weight_tensor
from edgekit.compile.tflite.lowering import Lower, constants
from edgekit.compile.tflite.site import Site
from edgekit.compile.tflite.views import FIRST


def gemm(site: Site) -> None:
    """Canonical: B is [N, K], as FULLY_CONNECTED wants it."""
    weight, scales = site.weight()
    fully_connected(site, np.asarray(weight), scales)


def fully_connected(site: Site, weight: np.ndarray, scales: np.ndarray | None) -> None:  # type: ignore[type-arg]
    """`weight` is [outputs, inputs]."""
    x = site.x()
    options = schema.FullyConnectedOptionsT(fusedActivationFunction=site.activation(), keepNumDims=len(x.shape) > 2)
    inputs = [x, weight_tensor(site, weight, scales, 0), bias_tensor(site, weight.shape[0])]
    site.op("FULLY_CONNECTED", inputs, site.y(), options)


ROWS: Final = (Lower("Gemm", gemm, FIRST, (constants(1, 2),), (), True),)
