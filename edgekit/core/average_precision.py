"""Mean average precision of boxes by the rules of COCO (area all, at most 100 detections a picture and class).

Ten overlaps 0.50:0.95, 101 recall points, crowd regions neither found nor missed (cocodataset.org, "Detection
Evaluation"). Equal to the reference implementation to the last digits, which a test proves where it is installed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

Doubles = NDArray[np.float64]

OVERLAPS: Final = np.linspace(0.5, 0.95, 10)
RECALLS: Final = np.linspace(0.0, 1.0, 101)
DETECTIONS_LIMIT: Final = 100


@dataclass(frozen=True, slots=True)
class TrueBoxes:
    """The objects of one picture: corner boxes [N, 4] in pixels, class indices [N], crowd flags [N]."""

    boxes: Doubles
    classes: NDArray[np.intp]
    crowd: NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class FoundBoxes:
    """The detections in one picture: corner boxes [N, 4] in pixels, class indices [N], scores [N]."""

    boxes: Doubles
    classes: NDArray[np.intp]
    scores: Doubles


@dataclass(frozen=True, slots=True)
class AveragePrecision:
    """`map`: mean over overlaps 0.50:0.95 and classes that occur; `map50`: at 0.50. 0.0 where no object is."""

    map: float
    map50: float


@dataclass(frozen=True, slots=True)
class _Matched:
    """Detections of one class in one picture, best first: scores [D], hits and ignored [10, D]; objects to find."""

    scores: Doubles
    hits: NDArray[np.bool_]
    ignored: NDArray[np.bool_]
    objects: int


def average_precision(truth: Mapping[str, TrueBoxes], found: Mapping[str, FoundBoxes]) -> AveragePrecision:
    """Over the pictures of `truth`, by name; a picture without an entry in `found` has no detections."""
    classes = sorted({int(index) for boxes in truth.values() for index in boxes.classes})
    curves = [_precision(_matches(truth, found, index)) for index in classes]
    kept = np.array([curve for curve in curves if curve is not None])
    if not len(kept):
        return AveragePrecision(0.0, 0.0)
    return AveragePrecision(float(kept.mean()), float(kept[:, 0].mean()))


def _matches(truth: Mapping[str, TrueBoxes], found: Mapping[str, FoundBoxes], index: int) -> list[_Matched]:
    matches = []
    for name, true in truth.items():
        objects = true.classes == index
        boxes, crowd = true.boxes[objects], true.crowd[objects]
        detections, scores = np.empty((0, 4)), np.empty(0)
        if name in found:
            chosen = np.flatnonzero(found[name].classes == index)
            chosen = chosen[np.argsort(-found[name].scores[chosen], kind="stable")][:DETECTIONS_LIMIT]
            detections, scores = found[name].boxes[chosen], found[name].scores[chosen]
        if len(boxes) or len(detections):
            matches.append(_match(boxes, crowd, detections, scores))
    return matches


def _match(boxes: Doubles, crowd: NDArray[np.bool_], detections: Doubles, scores: Doubles) -> _Matched:
    """Each detection, best first, takes the free object that it overlaps most; objects before crowd regions."""
    order = np.argsort(crowd, kind="stable")
    boxes, crowd = boxes[order], crowd[order]
    overlaps = _overlaps(detections, boxes, crowd)
    hits = np.zeros((len(OVERLAPS), len(detections)), np.bool_)
    ignored = np.zeros_like(hits)
    solid = int((~crowd).sum())
    for level, least in enumerate(OVERLAPS):
        free = np.ones(solid, np.bool_)
        for place, row in enumerate(overlaps):
            taken = _last_best(np.where(free, row[:solid], -1.0), least)
            if taken is not None:
                free[taken] = False
                hits[level, place] = True
            elif _last_best(row[solid:], least) is not None:
                ignored[level, place] = True
    return _Matched(scores, hits, ignored, solid)


def _last_best(row: Doubles, least: float) -> int | None:
    """The place of the largest value, the last of equal ones (as the reference does), if it is at least `least`."""
    if not len(row):
        return None
    place = len(row) - 1 - int(np.argmax(row[::-1]))
    return place if row[place] >= min(least, 1 - 1e-10) else None


def _overlaps(detections: Doubles, boxes: Doubles, crowd: NDArray[np.bool_]) -> Doubles:
    """Intersection over union [D, G]; over the detection's own area where the object is a crowd region."""
    low = np.maximum(detections[:, None, :2], boxes[None, :, :2])
    high = np.minimum(detections[:, None, 2:], boxes[None, :, 2:])
    shared = np.prod(np.maximum(high - low, 0), axis=2)
    own = np.prod(detections[:, 2:] - detections[:, :2], axis=1)[:, None]
    other = np.prod(boxes[:, 2:] - boxes[:, :2], axis=1)[None, :]
    union = np.where(crowd[None, :], own, own + other - shared)
    ratio: Doubles = np.divide(shared, union, out=np.zeros(shared.shape), where=union > 0)
    return ratio


def _precision(matches: Sequence[_Matched]) -> Doubles | None:
    """Mean interpolated precision at each overlap [10]; None where there is nothing to find."""
    objects = sum(match.objects for match in matches)
    if not objects:
        return None
    order = np.argsort(-np.concatenate([match.scores for match in matches]), kind="stable")
    hits = np.concatenate([match.hits for match in matches], axis=1)[:, order]
    ignored = np.concatenate([match.ignored for match in matches], axis=1)[:, order]
    right, wrong = np.cumsum(hits & ~ignored, axis=1), np.cumsum(~hits & ~ignored, axis=1)
    levels = []
    for tp, fp in zip(right.astype(np.float64), wrong.astype(np.float64), strict=True):
        recall, precision = tp / objects, tp / np.maximum(tp + fp, np.spacing(1))
        precision = np.maximum.accumulate(precision[::-1])[::-1]
        places = np.searchsorted(recall, RECALLS, side="left")
        padded = np.concatenate([precision, [0.0]])
        levels.append(padded[np.minimum(places, len(precision))].mean())
    return np.array(levels)
