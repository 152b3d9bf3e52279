"""Weights of linear nodes as rows of output channels, their scales, and plain rounding."""

from typing import Final, Literal

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from edgekit.quantize.canonical import integer

WeightSet = Literal["full", "saturation-safe"]
"""`full`: -127..127 (VNNI, Arm, XNNPACK). `saturation-safe`: the two largest weights of equal sign in an output channel
sum to at most 128, so that 255 * (w1 + w2) fits in 16 bits whatever pairs a kernel adds there (x86 without VNNI)."""

PAIR_LIMIT: Final = 128  # 255 * 128 = 32,640 <= 32,767
LIMIT: Final = 127
_TINIEST: Final = 1e-12

Rows = NDArray[np.float64]  # [groups, output channels in the group, inputs of one output channel]


def channel_axis(node: ir.Node) -> int:
    """The output-channel axis of the weight initializer."""
    return 1 if node.op_type in ("ConvTranspose", "MatMul") else 0


def rows_of(node: ir.Node, weight: NDArray[np.generic]) -> NDArray[np.generic]:
    """[G, R, K]: the weights by group and output channel; K runs over (input channel, kernel) of that channel."""
    groups = integer(node, "group", 1)
    if node.op_type == "Conv":
        return weight.reshape(groups, weight.shape[0] // groups, -1)
    if node.op_type == "ConvTranspose":
        split = weight.reshape(groups, weight.shape[0] // groups, *weight.shape[1:])
        return np.moveaxis(split, 2, 1).reshape(groups, weight.shape[1], -1)
    matrix = weight if node.op_type == "Gemm" else weight.T
    return matrix[None]


def from_rows(node: ir.Node, rows: NDArray[np.generic], shape: tuple[int, ...]) -> NDArray[np.generic]:
    """The inverse of `rows_of`, in the initializer's shape."""
    groups = integer(node, "group", 1)
    if node.op_type == "Conv":
        return rows.reshape(shape)
    if node.op_type == "ConvTranspose":
        return np.moveaxis(rows.reshape(groups, shape[1], shape[0] // groups, *shape[2:]), 1, 2).reshape(shape)
    return np.ascontiguousarray(rows[0] if node.op_type == "Gemm" else rows[0].T)


def weight_scales(rows: Rows, weights: WeightSet) -> NDArray[np.float64]:
    """[G, R]: the finest scale per output channel at which every weight (and every pair) still fits."""
    largest = np.abs(rows).max(axis=2, initial=0.0)
    scales = largest / LIMIT
    if weights == "saturation-safe":
        pairs = min(2, rows.shape[2])
        for sign in (1, -1):
            top = np.sort(np.maximum(sign * rows, 0), axis=2)[:, :, -pairs:].sum(axis=2)
            scales = np.maximum(scales, top / PAIR_LIMIT)
    return np.asarray(np.maximum(scales, _TINIEST))


class PairBound:
    """Bounds of the next weight of each output channel, given those before: no pair of equal sign passes the limit."""

    def __init__(self, shape: tuple[int, ...], weights: WeightSet) -> None:
        self._safe = weights == "saturation-safe"
        self._highest, self._lowest = np.zeros(shape), np.zeros(shape)

    def clip(self, q: NDArray[np.float64]) -> NDArray[np.float64]:
        """`q` within the bounds; remembers it."""
        if not self._safe:
            return np.clip(q, -LIMIT, LIMIT)
        q = np.clip(q, np.maximum(-LIMIT, -PAIR_LIMIT - self._lowest), np.minimum(LIMIT, PAIR_LIMIT - self._highest))
        self._highest, self._lowest = np.maximum(self._highest, q), np.minimum(self._lowest, q)
        return q


def round_to_nearest(rows: Rows, scales: NDArray[np.float64], weights: WeightSet) -> NDArray[np.float64]:
    """[G, R, K] integers. The largest weights are placed first, so that a pair bound cuts the smaller of a pair."""
    q = np.rint(rows / scales[..., None])
    if weights == "full":
        return np.clip(q, -LIMIT, LIMIT)
    order = np.argsort(-np.abs(rows), axis=2, kind="stable")[:, :, :8]  # more than a few can't be at the limit
    bound = PairBound(q.shape[:2], weights)
    for k in range(order.shape[2]):
        at = order[:, :, k : k + 1]
        np.put_along_axis(q, at, bound.clip(np.take_along_axis(q, at, 2)[..., 0])[..., None], 2)
    rest = PAIR_LIMIT // 2
    small = np.ones_like(q, bool)
    np.put_along_axis(small, order, False, 2)
    return np.where(small, np.clip(q, -rest, rest), q)
