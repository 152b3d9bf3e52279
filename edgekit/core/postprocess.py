"""What outputs mean: one record per task, each a value with a TOML and JSON form, each called with outputs by name.

`task(outputs, geometry)` takes the outputs of one call (arrays by the model's own names, batch first) and the map from
the frame back to the picture (`Preprocess.geometry`), and gives one `Result` for the picture `row` of the batch.
Raises `BadInput` where the outputs are not what the task reads. Drawing, tracking and thresholds of an application are
not here.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar, Final, Literal, cast

import numpy as np
from numpy.typing import NDArray

from edgekit.core.detection import centred_boxes, suppress, yolox_boxes
from edgekit.core.errors import BadInput, UsageError
from edgekit.core.files import read_input
from edgekit.core.geometry import Geometry
from edgekit.core.record import Plain, to_plain, value_from_plain
from edgekit.core.results import Box, Boxes, Label, Labels, Region, Regions, Tensors, TensorSummary, Text
from edgekit.core.results import Result as Result  # what a task gives; callers of a task name it
from edgekit.core.text_regions import components, corners, smallest_rectangle
from edgekit.core.toml import dump_toml, parse_toml, read_toml

Outputs = Mapping[str, NDArray[np.generic]]
Activation = Literal["softmax", "sigmoid", "none"]

_CLASSES_LIMIT: Final = 4 * 1024 * 1024
_WHERE: Final = "task"


@dataclass(frozen=True, slots=True)
class Classification:
    """The best classes of a row of scores.

    `output` names the output, None: the first. `background` classes at the start of the row are left out: class 0 of
    `classes` comes behind them. `activation` turns the row into scores ("none": it holds probabilities).
    """

    kind: ClassVar[Literal["classification"]] = "classification"
    output: str | None = None
    classes: tuple[str, ...] = ()
    background: int = 0
    activation: Activation = "softmax"
    top: int = 5

    def __call__(self, outputs: Outputs, geometry: Geometry | None = None, *, row: int = 0) -> Labels:
        scores = self.scores(outputs, row=row)
        best = np.argsort(-scores, kind="stable")[: self.top]
        return Labels(tuple(Label(int(i), _name(self.classes, int(i)), float(scores[i])) for i in best))

    def scores(self, outputs: Outputs, *, row: int = 0) -> NDArray[np.float32]:
        """One score per class, background left out."""
        values = _picked(outputs, self.output, row).ravel()
        return _activated(values, self.activation)[self.background :]


@dataclass(frozen=True, slots=True)
class Detection:
    """Boxes with classes, from rows of 4 box numbers, objectness, and one score per class.

    `boxes` says what the 4 numbers are: "yolox" relative to their cell, "centred" in frame pixels. A score is
    objectness times class score; a row may give a box in each class. Scores must be probabilities.
    """

    kind: ClassVar[Literal["detection"]] = "detection"
    output: str | None = None
    classes: tuple[str, ...] = ()
    boxes: Literal["yolox", "centred"] = "yolox"
    strides: tuple[int, ...] = (8, 16, 32)
    score: float = 0.3
    overlap: float = 0.65
    limit: int = 300

    def __call__(self, outputs: Outputs, geometry: Geometry | None = None, *, row: int = 0) -> Boxes:
        rows = _picked(outputs, self.output, row)
        if rows.ndim != 2 or rows.shape[1] < 6:
            raise BadInput("detection output", f"shape {list(rows.shape)}", "name an output [N, boxes, 5 + classes]")
        if geometry is None:
            raise BadInput("detection", "the picture's geometry is not known", "pass the geometry of its preprocess")
        scores = rows[:, 4:5] * rows[:, 5:]
        place, index = np.nonzero(scores > self.score)
        found = self._corners(rows, geometry.frame)[place]
        values = scores[place, index]
        kept = suppress(found, values, index, self.overlap)[: self.limit]
        picture: list[list[float]] = geometry.boxes_to_source(found[kept]).tolist()
        return Boxes(
            tuple(
                Box(x0, y0, x1, y1, int(label), _name(self.classes, int(label)), float(value))
                for (x0, y0, x1, y1), label, value in zip(picture, index[kept], values[kept], strict=True)
            )
        )

    def _corners(self, rows: NDArray[np.float32], frame: tuple[int, int]) -> NDArray[np.float32]:
        if self.boxes == "centred":
            return centred_boxes(rows)
        try:
            return yolox_boxes(rows, frame, self.strides)
        except ValueError as error:
            raise BadInput(f"detection output for a frame of {frame}", str(error), "correct 'strides'") from error


@dataclass(frozen=True, slots=True)
class TextRegions:
    """Lines of text from a probability map [1, H, W].

    Pixels above `threshold` are joined; a component whose mean is at least `score` becomes a rectangle, enlarged on
    each side by its area * `unclip` / its perimeter (the network is trained on shrunken lines).
    """

    kind: ClassVar[Literal["text-regions"]] = "text-regions"
    output: str | None = None
    threshold: float = 0.3
    score: float = 0.5
    unclip: float = 1.6
    least_side: int = 3
    limit: int = 1000

    def __call__(self, outputs: Outputs, geometry: Geometry | None = None, *, row: int = 0) -> Regions:
        chart = _picked(outputs, self.output, row).squeeze()
        if chart.ndim != 2:
            raise BadInput("text output", f"shape {list(chart.shape)}", "name an output [N, 1, height, width]")
        if geometry is None:
            raise BadInput("text regions", "the picture's geometry is not known", "pass the geometry of its preprocess")
        shrink = geometry.frame[1] / chart.shape[1], geometry.frame[0] / chart.shape[0]
        sums = np.concatenate([np.zeros((chart.shape[0], 1)), np.cumsum(chart, axis=1, dtype=np.float64)], axis=1)
        regions = []
        for runs in components(chart > self.threshold):
            lengths = runs[:, 2] - runs[:, 1]
            mean = float((sums[runs[:, 0], runs[:, 2]] - sums[runs[:, 0], runs[:, 1]]).sum() / lengths.sum())
            if mean < self.score:
                continue
            centre, across, width, height = smallest_rectangle(runs)
            if min(width, height) < self.least_side:
                continue
            margin = width * height * self.unclip / (width + height)  # both sides: twice area * unclip / perimeter
            frame = corners(centre, across, width + margin, height + margin) * shrink
            (x0, y0), (x1, y1), (x2, y2), (x3, y3) = geometry.to_source(frame).tolist()
            regions.append(Region(((x0, y0), (x1, y1), (x2, y2), (x3, y3)), mean))
        regions.sort(key=lambda region: (region.corners[0][1], region.corners[0][0]))
        return Regions(tuple(regions[: self.limit]))


@dataclass(frozen=True, slots=True)
class Ctc:
    """Text from rows [T, characters] by the best path: repeats joined, the blank left out (Graves et al., ICML 2006).

    `classes[i]` is the character at place i; the place `blank` is never one.
    """

    kind: ClassVar[Literal["ctc"]] = "ctc"
    output: str | None = None
    classes: tuple[str, ...] = ()
    blank: int = 0
    activation: Activation = "none"

    def __call__(self, outputs: Outputs, geometry: Geometry | None = None, *, row: int = 0) -> Text:
        steps = _picked(outputs, self.output, row)
        if steps.ndim != 2 or (self.classes and steps.shape[1] != len(self.classes)):
            wanted = f"an output [N, T, {len(self.classes) or 'characters'}]"
            raise BadInput("text output", f"shape {list(steps.shape)}", f"name {wanted}, or give its characters")
        scores = _activated(steps, self.activation)
        best = scores.argmax(axis=1)
        kept = (best != self.blank) & np.concatenate([[True], best[1:] != best[:-1]])[: len(best)]
        text = "".join(_name(self.classes, int(i)) for i in best[kept])
        return Text(text, float(scores.max(axis=1)[kept].mean()) if kept.any() else 0.0)


@dataclass(frozen=True, slots=True)
class Raw:
    """No meaning: the outputs, summarised."""

    kind: ClassVar[Literal["raw"]] = "raw"

    def __call__(self, outputs: Outputs, geometry: Geometry | None = None, *, row: int = 0) -> Tensors:
        return Tensors(tuple(_summary(name, array) for name, array in outputs.items()))


Postprocess = Classification | Detection | TextRegions | Ctc | Raw

TASKS: Final[dict[str, Postprocess]] = {
    "classification": Classification(),
    "classification-background": Classification(background=1),
    "yolox": Detection(),
    "ppocr-det": TextRegions(),
    "ppocr-rec": Ctc(),
    "ppocr-cls": Classification(classes=("0", "180"), activation="none", top=2),
    "raw": Raw(),
}


def task(name: str) -> Postprocess:
    """The task preset of that name. Raises `UsageError` listing them."""
    if name not in TASKS:
        raise UsageError(f"task '{name}'", "no task has that name", f"one of {', '.join(TASKS)}, or a TOML file")
    return TASKS[name]


def with_classes(post: Postprocess, names: tuple[str, ...]) -> Postprocess:
    """The task with class names (for CTC: the character at each place). Raises `UsageError` where a task has none."""
    if isinstance(post, TextRegions | Raw):
        raise UsageError(f"task '{post.kind}'", "it has no classes", "leave the class names out")
    return replace(post, classes=names)


def read_classes(path: Path) -> tuple[str, ...]:
    """Class names, one a line, in the order of their index. Raises `BadInput` for a file without names."""
    try:
        text = read_input(path, limit=_CLASSES_LIMIT).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise BadInput(str(path), f"not UTF-8 text: {error.reason}", "save it as UTF-8, one name a line") from error
    names = tuple(line.removesuffix("\r") for line in text.removesuffix("\n").split("\n"))
    if names == ("",) or "\0" in text:
        raise BadInput(str(path), "no class names in it", "write one name a line, in the order of their index")
    return names


def postprocess_from_plain(plain: object, *, where: str = _WHERE) -> Postprocess:
    """The task that JSON or TOML values describe. Raises `BadInput` with the field's path."""
    return cast(Postprocess, value_from_plain(Postprocess, plain, where=where))


def postprocess_to_toml(post: Postprocess) -> str:
    """TOML text that `postprocess_from_toml` reads back to an equal value."""
    return dump_toml(cast(dict[str, Plain], to_plain(post)))


def postprocess_from_toml(text: str, *, where: str = _WHERE) -> Postprocess:
    """The task in TOML text. Raises `BadInput`."""
    return postprocess_from_plain(parse_toml(text, where=where), where=where)


def read_postprocess(path: Path) -> Postprocess:
    """The task in a TOML file. Raises `BadInput`."""
    return postprocess_from_plain(read_toml(path), where=str(path))


def softmax(values: NDArray[np.floating]) -> NDArray[np.float64]:
    """Probabilities along the last axis, in double precision."""
    shifted = values.astype(np.float64) - values.max(axis=-1, keepdims=True)
    powers = np.exp(shifted)
    return cast(NDArray[np.float64], powers / powers.sum(axis=-1, keepdims=True))


def looks_like_probabilities(values: NDArray[np.generic]) -> bool:
    """Whether rows along the last axis are already a distribution: none negative, each sum 1 within 1 %."""
    rows = values.astype(np.float64)
    return bool(rows.size and np.isfinite(rows).all() and (rows >= 0).all() and (abs(rows.sum(-1) - 1) < 0.01).all())


def _activated(values: NDArray[np.float32], activation: Activation) -> NDArray[np.float32]:
    if activation == "softmax":
        return softmax(values).astype(np.float32)
    if activation == "sigmoid":
        return (0.5 * (1 + np.tanh(0.5 * values.astype(np.float64)))).astype(np.float32)
    return values


def _picked(outputs: Outputs, name: str | None, row: int) -> NDArray[np.float32]:
    """One row of the batch of the named output (None: the first), finite."""
    if name is not None and name not in outputs:
        raise BadInput(f"output '{name}'", "the model has no such output", f"one of {', '.join(outputs)}")
    chosen = next(iter(outputs)) if name is None else name
    array = outputs[chosen]
    if array.ndim < 2 or not row < array.shape[0]:
        raise BadInput(f"output '{chosen}'", f"shape {list(array.shape)} has no row {row}", "name a batched output")
    values: NDArray[np.float32] = array[row].astype(np.float32)
    if not np.isfinite(values).all():
        raise BadInput(f"output '{chosen}'", "holds NaN or infinity", "check the model and the input it was given")
    return values


def _name(classes: tuple[str, ...], index: int) -> str:
    return classes[index] if index < len(classes) else ""


def _summary(name: str, array: NDArray[np.generic]) -> TensorSummary:
    values = array.astype(np.float64)
    finite = values[np.isfinite(values)]
    low, high, mean = (float(finite.min()), float(finite.max()), float(finite.mean())) if finite.size else (None,) * 3
    return TensorSummary(name, array.dtype.name, array.shape, low, high, mean, int(values.size - finite.size))
