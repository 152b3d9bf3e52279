"""Boxes from a detector's rows: the YOLOX grid, and non-maximum suppression within each class."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]


def yolox_boxes(rows: Floats, frame: tuple[int, int], strides: Sequence[int]) -> Floats:
    """Corner boxes [N, 4] in frame pixels from rows [N, 4+] of (x, y, w, h) relative to their cells.

    Centre = (xy + cell) * stride, size = exp(wh) * stride, cells in row-major order, strides one after the other
    (YOLOX, arXiv 2107.08430). `frame` is (height, width). Raises ValueError where N is not the number of cells.
    """
    cells, steps = [], []
    for stride in strides:
        height, width = frame[0] // stride, frame[1] // stride
        y, x = np.mgrid[0:height, 0:width]
        cells.append(np.stack([x.ravel(), y.ravel()], axis=1))
        steps.append(np.full((height * width, 1), stride))
    grid, step = np.concatenate(cells).astype(np.float32), np.concatenate(steps).astype(np.float32)
    if len(grid) != len(rows):
        raise ValueError(f"{len(rows)} rows, but strides {list(strides)} give {len(grid)} cells")
    centre, size = (rows[:, :2] + grid) * step, np.exp(np.minimum(rows[:, 2:4], 20.0)) * step
    return np.concatenate([centre - size / 2, centre + size / 2], axis=1)


def centred_boxes(rows: Floats) -> Floats:
    """Corner boxes [N, 4] from rows [N, 4+] of (centre x, centre y, width, height)."""
    return np.concatenate([rows[:, :2] - rows[:, 2:4] / 2, rows[:, :2] + rows[:, 2:4] / 2], axis=1)


def suppress(boxes: Floats, scores: Floats, classes: NDArray[np.intp], threshold: float) -> NDArray[np.intp]:
    """Indices of the boxes kept, best first: greedy, a box never suppresses one of another class.

    A box goes where its intersection over union with a better one is above `threshold`. Equal scores: the lower index
    is the better one.
    """
    kept = [members[_greedy(boxes[members], scores[members], threshold)] for members in _members(classes)]
    if not kept:
        return np.empty(0, np.intp)
    chosen = np.sort(np.concatenate(kept))
    return chosen[np.argsort(-scores[chosen], kind="stable")]


def _members(classes: NDArray[np.intp]) -> list[NDArray[np.intp]]:
    order = np.argsort(classes, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(classes[order])) + 1) if len(order) else []


def _greedy(boxes: Floats, scores: Floats, threshold: float) -> NDArray[np.intp]:
    order, kept = np.argsort(-scores, kind="stable"), []
    areas = np.prod(np.maximum(boxes[:, 2:] - boxes[:, :2], 0), axis=1)
    while order.size:
        best, rest = order[0], order[1:]
        kept.append(best)
        corner = np.minimum(boxes[best, 2:], boxes[rest, 2:]) - np.maximum(boxes[best, :2], boxes[rest, :2])
        shared = np.prod(np.maximum(corner, 0), axis=1)
        union = areas[best] + areas[rest] - shared
        order = rest[shared <= threshold * union]
    return np.array(kept, np.intp)
