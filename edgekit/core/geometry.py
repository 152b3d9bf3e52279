"""How a picture is fitted into a model's frame: steps as values, and the map back to the picture.

Each step is a row of the table at the end: from a size it says where the resized picture lies in its frame (`place`),
a pure function. Pillow does the resampling, so the filter is part of the contract: bilinear, bicubic, lanczos and box
are antialiased when they shrink. It is imported where pixels are touched: a device that feeds arrays never loads it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final, Literal

import numpy as np
from numpy.typing import NDArray

from edgekit.core.errors import BadInput

if TYPE_CHECKING:
    from PIL import Image

Filter = Literal["bilinear", "bicubic", "lanczos", "box", "nearest"]
FRAME_PIXELS_LIMIT: Final = 50_000_000


@dataclass(frozen=True, slots=True)
class Placement:
    """A picture resized to `height` x `width` with its corner at (`top`, `left`) of a frame, maybe negative."""

    height: int
    width: int
    frame_height: int
    frame_width: int
    top: int = 0
    left: int = 0

    @classmethod
    def whole(cls, height: int, width: int) -> "Placement":
        """The picture fills its frame."""
        return cls(height, width, height, width)


@dataclass(frozen=True, slots=True)
class ShortSide:
    """The short side becomes `size`, the long one in proportion, rounded down (as torchvision does)."""

    kind: ClassVar[Literal["short-side"]] = "short-side"
    size: int
    filter: Filter = "bilinear"

    def place(self, height: int, width: int) -> Placement:
        short = min(height, width)
        return Placement.whole(height * self.size // short, width * self.size // short)


@dataclass(frozen=True, slots=True)
class ShortSideAtLeast:
    """Enlarge until the short side has `size`, never shrink; then both sides to the nearest multiple of `multiple`."""

    kind: ClassVar[Literal["short-side-at-least"]] = "short-side-at-least"
    size: int
    multiple: int = 32
    filter: Filter = "bilinear"

    def place(self, height: int, width: int) -> Placement:
        factor = max(1.0, self.size / min(height, width))
        near = (max(1, round(side * factor / self.multiple)) * self.multiple for side in (height, width))
        return Placement.whole(*near)


@dataclass(frozen=True, slots=True)
class Exact:
    """Exactly `height` x `width`; proportions are not kept."""

    kind: ClassVar[Literal["exact"]] = "exact"
    height: int
    width: int
    filter: Filter = "bilinear"

    def place(self, height: int, width: int) -> Placement:
        return Placement.whole(self.height, self.width)


@dataclass(frozen=True, slots=True)
class Letterbox:
    """As large as fits into `height` x `width` with proportions kept, the rest filled with the grey level `fill`."""

    kind: ClassVar[Literal["letterbox"]] = "letterbox"
    height: int
    width: int
    anchor: Literal["top-left", "centre"] = "top-left"
    fill: int = 114
    filter: Filter = "bilinear"

    def place(self, height: int, width: int) -> Placement:
        if width * self.height <= height * self.width:  # whole numbers: no size is one short by rounding
            inner_height, inner_width = self.height, max(1, width * self.height // height)
        else:
            inner_height, inner_width = max(1, height * self.width // width), self.width
        share = 0 if self.anchor == "top-left" else 2
        top = (self.height - inner_height) // share if share else 0
        left = (self.width - inner_width) // share if share else 0
        return Placement(inner_height, inner_width, self.height, self.width, top, left)


@dataclass(frozen=True, slots=True)
class FitHeight:
    """The height becomes `height`, the width in proportion, nearest, at least 1, squeezed to `max_width` at most."""

    kind: ClassVar[Literal["fit-height"]] = "fit-height"
    height: int
    max_width: int | None = None
    filter: Filter = "bilinear"

    def place(self, height: int, width: int) -> Placement:
        near = max(1, round(width * self.height / height))
        return Placement.whole(self.height, near if self.max_width is None else min(self.max_width, near))


@dataclass(frozen=True, slots=True)
class CentreCrop:
    """The middle `height` x `width`, odd remainders to the bottom right; what lies outside the picture is black."""

    kind: ClassVar[Literal["centre-crop"]] = "centre-crop"
    height: int
    width: int

    def place(self, height: int, width: int) -> Placement:
        top, left = -((height - self.height) // 2), -((width - self.width) // 2)
        return Placement(height, width, self.height, self.width, top, left)


Step = ShortSide | ShortSideAtLeast | Exact | Letterbox | FitHeight | CentreCrop


def check_step(step: Step, where: str) -> None:
    """Raises `BadInput` for sizes below 1 and fills outside 0..255."""
    for name in ("size", "multiple", "height", "width", "max_width"):
        value = getattr(step, name, None)
        if value is not None and not 1 <= value <= 65_535:
            raise BadInput(where, f"{step.kind}: {name} is {value}", "give a size from 1 to 65535")
    if isinstance(step, Letterbox) and not 0 <= step.fill <= 255:
        raise BadInput(where, f"letterbox: fill is {step.fill}", "give a grey level from 0 to 255")


@dataclass(frozen=True, slots=True)
class Geometry:
    """Where each pixel of a picture went: frame = source * scale + offset, along y and x, in pixels.

    `source` and `frame` are (height, width). A pixel's left edge has its index as coordinate, its right edge index + 1.
    """

    source: tuple[int, int]
    frame: tuple[int, int]
    scale: tuple[float, float] = (1.0, 1.0)
    offset: tuple[float, float] = (0.0, 0.0)

    def then(self, placed: Placement) -> "Geometry":
        """This map followed by one more step."""
        scale = placed.height / self.frame[0], placed.width / self.frame[1]
        return Geometry(
            self.source,
            (placed.frame_height, placed.frame_width),
            (self.scale[0] * scale[0], self.scale[1] * scale[1]),
            (self.offset[0] * scale[0] + placed.top, self.offset[1] * scale[1] + placed.left),
        )

    def to_source(self, points: NDArray[np.floating]) -> NDArray[np.float32]:
        """Frame coordinates [..., 2] in the order x, y as source coordinates, clipped to the picture."""
        offset, scale = np.array(self.offset[::-1]), np.array(self.scale[::-1])
        inside: NDArray[np.float64] = np.clip((points.astype(np.float64) - offset) / scale, 0, self.source[::-1])
        return inside.astype(np.float32)

    def boxes_to_source(self, boxes: NDArray[np.floating]) -> NDArray[np.float32]:
        """Boxes [N, 4] as x0, y0, x1, y1 of the frame in source pixels, clipped to the picture."""
        return self.to_source(boxes.reshape(-1, 2, 2)).reshape(-1, 4)


def geometry_of(steps: Sequence[Step], height: int, width: int) -> Geometry:
    """The map of all steps for a picture of that size. Raises `BadInput` where a frame would be absurdly large."""
    geometry = Geometry((height, width), (height, width))
    for step in steps:
        placed = step.place(*geometry.frame)
        pixels = max(placed.height * placed.width, placed.frame_height * placed.frame_width)
        if pixels > FRAME_PIXELS_LIMIT or min(placed.height, placed.width) < 1:
            raise BadInput(
                f"picture of {width} x {height}",
                f"'{step.kind}' would make it {placed.width} x {placed.height}",
                "crop the picture first, or use 'exact' or 'letterbox'",
            )
        geometry = geometry.then(placed)
    return geometry


def fit(picture: NDArray[np.uint8], steps: Sequence[Step], *, is_gray: bool = False) -> NDArray[np.uint8]:
    """The pixels [H, W, 3], or [H, W] where gray is asked for, after all steps."""
    from PIL import Image

    image = Image.fromarray(picture)
    if is_gray:
        image = image.convert("L")
    for step in steps:
        image = _fit_step(step, image)
    return np.asarray(image)


def _fit_step(step: Step, image: "Image.Image") -> "Image.Image":
    from PIL import Image

    placed = step.place(image.height, image.width)
    if (placed.height, placed.width) != (image.height, image.width):
        chosen: Filter = getattr(step, "filter", "bilinear")
        image = image.resize((placed.width, placed.height), Image.Resampling[chosen.upper()])
    if placed == Placement.whole(placed.height, placed.width):
        return image
    fill = getattr(step, "fill", 0)
    framed = Image.new(image.mode, (placed.frame_width, placed.frame_height), (fill,) * len(image.getbands()))
    framed.paste(image, (placed.left, placed.top))
    return framed
