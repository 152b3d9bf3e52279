"""Quality of a bundle on labelled data, and its nearness to the float model on the same pictures."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from edgekit.core.average_precision import FoundBoxes, average_precision
from edgekit.core.errors import BadInput
from edgekit.core.metrics import agreement, mean_kl, top_k
from edgekit.core.postprocess import Classification, Detection
from edgekit.core.results import Boxes
from edgekit.core.truth import read_coco, read_labels
from edgekit.runtimes.model import Model

LOWEST_SCORE: Final = 0.01  # COCO's curves need the weak detections too
MATCH_OVERLAP: Final = 0.5


@dataclass(frozen=True, slots=True)
class Evaluation:
    """`metric`: "top1" or "map". `agreement` (share 0..1) and `kl` (nats, of softmax) are against the float reference;
    None with `why_no_reference` where there is none, `kl` also None for detection."""

    metric: str
    value: float
    agreement: float | None
    kl: float | None
    samples: int
    runtime: str
    precision: str
    why_no_reference: str | None = None


def evaluate(
    model: Model,
    data: Path,
    labels: Path,
    *,
    reference: Model | None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Evaluation:
    """Run every labelled picture of `data`. `labels`: a CSV (file, label), or COCO json for detection.

    Raises `BadInput` for labels that do not fit the data or the task.
    """
    if not data.is_dir():
        raise BadInput(f"--data {data}", "no such folder", "give the folder of the labelled pictures")
    if labels.suffix.lower() == ".json":
        return _detection(model, data, labels, reference, progress)
    return _classification(model, data, labels, reference, progress)


def _classification(
    model: Model, data: Path, labels: Path, reference: Model | None, progress: Callable[[int, int], None]
) -> Evaluation:
    post = model.manifest.postprocess
    task = post if isinstance(post, Classification) else Classification()
    truth = read_labels(labels, folder=data)
    scores, wanted = [], []
    for i, name in enumerate(truth):
        progress(i, len(truth))
        tensors = _tensor(model, data / name)
        scores.append(_row(task, model, tensors))
        if reference is not None:
            wanted.append(_row(task, reference, tensors))
    got, truths = np.stack(scores), np.asarray(list(truth.values()))
    if truths.max() >= got.shape[1] - task.background:
        raise BadInput(
            str(labels),
            f"label {truths.max()}, but the model has {got.shape[1] - task.background} classes",
            "use the model's class indices",
        )
    value = top_k(got[:, task.background :], truths)
    want = np.stack(wanted) if wanted else None
    return _evaluation(
        "top1",
        value,
        None if want is None else agreement(want[:, task.background :], got[:, task.background :]),
        None if want is None else mean_kl(want, got, probabilities=task.activation == "none"),
        len(truth),
        model,
    )


def _row(task: Classification, model: Model, tensors: Mapping[str, NDArray[np.generic]]) -> NDArray[np.float32]:
    """The class row before any activation."""
    outputs = model.session()(tensors)
    return np.asarray(outputs[task.output or next(iter(outputs))][0], np.float32).ravel()


def _tensor(model: Model, path: Path) -> dict[str, NDArray[np.generic]]:
    found = model.manifest.image_input()
    if found is None:
        raise BadInput(
            f"model {model.manifest.model}",
            "the bundle does not say how a picture becomes its input",
            "build with --preprocess",
        )
    name, preprocess = found
    return {name: preprocess(path)}


def _detection(
    model: Model, data: Path, labels: Path, reference: Model | None, progress: Callable[[int, int], None]
) -> Evaluation:
    post = model.manifest.postprocess
    if not isinstance(post, Detection):
        raise BadInput(str(labels), "COCO labels, but the bundle's task is no detection", "build with --task yolox")
    truth = read_coco(labels, folder=data)
    weak = replace(post, score=LOWEST_SCORE)
    found, shares = {}, []
    image = model.manifest.image_input()
    if image is None:
        raise BadInput(
            f"model {model.manifest.model}",
            "the bundle does not say how a picture becomes its input",
            "build with --preprocess",
        )
    for i, name in enumerate(truth.pictures):
        progress(i, len(truth.pictures))
        tensor, geometry = image[1].prepare(data / name)
        inputs = {image[0]: tensor}
        outputs = model.session()(inputs)
        found[name] = _boxes(weak(outputs, geometry))
        if reference is not None:
            shares.append(_matched_share(post(reference.session()(inputs), geometry), post(outputs, geometry)))
    value = average_precision(truth.pictures, found).map
    return _evaluation("map", value, float(np.mean(shares)) if shares else None, None, len(found), model)


def _evaluation(
    metric: str, value: float, agreed: float | None, kl: float | None, samples: int, model: Model
) -> Evaluation:
    why = None if agreed is not None else "no float reference: OUT.reference/ is not beside the bundle"
    return Evaluation(metric, value, agreed, kl, samples, model.entry.runtime, model.entry.precision, why)


def _boxes(result: Boxes) -> FoundBoxes:
    corners = np.array([[b.x0, b.y0, b.x1, b.y1] for b in result.boxes], np.float64).reshape(-1, 4)
    return FoundBoxes(
        corners,
        np.array([b.index for b in result.boxes], np.intp),
        np.array([b.score for b in result.boxes], np.float64),
    )


def _matched_share(want: Boxes, got: Boxes) -> float:
    """Share of boxes of either side that the other has too: same class, overlap above one half; both empty: 1."""
    if not want.boxes and not got.boxes:
        return 1.0
    left = list(got.boxes)
    matched = 0
    for box in want.boxes:
        for other in left:
            width = min(box.x1, other.x1) - max(box.x0, other.x0)
            height = min(box.y1, other.y1) - max(box.y0, other.y0)
            common = max(width, 0.0) * max(height, 0.0)
            union = (box.x1 - box.x0) * (box.y1 - box.y0) + (other.x1 - other.x0) * (other.y1 - other.y0) - common
            if box.index == other.index and common > MATCH_OVERLAP * union:
                left.remove(other)
                matched += 1
                break
    return 2 * matched / (len(want.boxes) + len(got.boxes))
