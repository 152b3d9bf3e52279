"""What a picture's outputs mean, as values with a JSON form that holds no NaN (`record.to_plain`)."""

from dataclasses import dataclass
from typing import ClassVar, Literal


@dataclass(frozen=True, slots=True)
class Label:
    """One class of a picture: its index in the class list, its name ("" where none is known), its score 0..1."""

    index: int
    name: str
    score: float


@dataclass(frozen=True, slots=True)
class Labels:
    """The best classes, best first."""

    kind: ClassVar[Literal["labels"]] = "labels"
    labels: tuple[Label, ...]


@dataclass(frozen=True, slots=True)
class Box:
    """One object: corners in pixels of the picture given, class and score 0..1."""

    x0: float
    y0: float
    x1: float
    y1: float
    index: int
    name: str
    score: float


@dataclass(frozen=True, slots=True)
class Boxes:
    """The objects found, best first."""

    kind: ClassVar[Literal["boxes"]] = "boxes"
    boxes: tuple[Box, ...]


Point = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Region:
    """One line of text: its corners (x, y) in pixels of the picture, clockwise from the top left; score 0..1."""

    corners: tuple[Point, Point, Point, Point]
    score: float


@dataclass(frozen=True, slots=True)
class Regions:
    """The lines of text found, from top to bottom."""

    kind: ClassVar[Literal["regions"]] = "regions"
    regions: tuple[Region, ...]


@dataclass(frozen=True, slots=True)
class Text:
    """The text read, and the mean probability of its characters (0 for an empty text)."""

    kind: ClassVar[Literal["text"]] = "text"
    text: str
    score: float


@dataclass(frozen=True, slots=True)
class TensorSummary:
    """One output as it is: range and mean of its finite values (None where there are none)."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    low: float | None
    high: float | None
    mean: float | None
    nonfinite: int


@dataclass(frozen=True, slots=True)
class Tensors:
    """The outputs, summarised."""

    kind: ClassVar[Literal["tensors"]] = "tensors"
    tensors: tuple[TensorSummary, ...]


Result = Labels | Boxes | Regions | Text | Tensors
