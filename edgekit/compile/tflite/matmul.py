"""Gemm and MatMul: FULLY_CONNECTED where the second operand is a constant matrix, else BATCH_MATMUL."""

from typing import Final

import ai_edge_litert.schema_py_generated as schema
import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from edgekit.compile.tflite.axes import as_is, swapped
from edgekit.compile.tflite.convolution import bias_tensor, weight_tensor
from edgekit.compile.tflite.dims import rank
from edgekit.compile.tflite.lowering import Lower, Need, Reason, constants, dtypes
from edgekit.compile.tflite.site import Site
from edgekit.compile.tflite.views import LAST_AXIS, MATMUL
from edgekit.quantize.canonical import constant, integer, real


def gemm(site: Site) -> None:
    """Canonical: B is [N, K], as FULLY_CONNECTED wants it."""
    _fully_connected(site, *site.weight())


def matmul_by_constant(site: Site) -> None:
    """B is [K, N]."""
    weight, scales = site.weight()
    _fully_connected(site, weight.T, scales)


def _fully_connected(site: Site, weight: NDArray[np.generic], scales: NDArray[np.float32] | None) -> None:
    x = site.x()
    options = schema.FullyConnectedOptionsT(fusedActivationFunction=site.activation(), keepNumDims=len(x.shape) > 2)
    inputs = [x, weight_tensor(site, weight, scales, 0), bias_tensor(site, weight.shape[0])]
    site.op("FULLY_CONNECTED", inputs, site.y(), options)


def batch_matmul(site: Site) -> None:
    """The right operand may be held transposed: the kernel has a flag for it."""
    left = site.x(0)
    right = rank(site.node.inputs[1])
    held = site.held(1, accepted=(as_is(right),) if site.constant(1) is not None else None)
    is_transposed = held.axes == swapped(right)
    site.op("BATCH_MATMUL", [left, held.tensor], site.y(), schema.BatchMatMulOptionsT(adjY=is_transposed))


def _canonical(node: ir.Node) -> Reason:
    usual = integer(node, "transA", 0) == 0 and integer(node, "transB", 0) == 1
    return (
        None
        if usual and real(node, "alpha", 1.0) == real(node, "beta", 1.0) == 1.0
        else "its attributes are not canonical"
    )


def _matrix_right(node: ir.Node) -> Reason:
    array = constant(node.inputs[1])
    if array is None or array.ndim != 2:
        return "its second operand is not a constant matrix"
    return None if rank(node.inputs[0]) >= 2 else "its first operand is a vector"


def _matrices(node: ir.Node) -> Reason:
    left, right = (rank(v) for v in node.inputs)
    if min(left, right) < 2:
        return "one of its operands is a vector"
    return None if max(left, right) <= 5 else f"its operands have {max(left, right)} axes, the kernel takes 5"


def _both_rounded(node: ir.Node) -> Reason:
    return "its operand is a constant" if any(constant(v) is not None for v in node.inputs) else None


_FLOAT: Final = dtypes("float32")

ROWS: Final = (
    Lower("Gemm", gemm, LAST_AXIS, (_FLOAT, constants(1, 2), Need("canonical attributes", _canonical)), (), True),
    Lower(
        "MatMul", matmul_by_constant, LAST_AXIS, (_FLOAT, Need("constant matrix on the right", _matrix_right)), (), True
    ),
    Lower(
        "MatMul",
        batch_matmul,
        MATMUL,
        (_FLOAT, Need("matrices, rank ≤ 5", _matrices)),
        (Need("two activations", _both_rounded),),
    ),
)
