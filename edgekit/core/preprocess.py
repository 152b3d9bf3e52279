"""How pixels become the input tensor. One implementation for calibration, evaluation, device and endpoint.

A `Preprocess` is a value: steps that fit the picture into the frame (`geometry.py`), colour order, and the affine map
from a pixel to a real number. The map is a table of 256 values a channel, computed once in double precision: the
quantizer reads the same table (`denormalise_range`) from which every tensor is filled.
"""

from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from edgekit.core.errors import BadInput
from edgekit.core.geometry import Geometry, Step, check_step, fit, geometry_of
from edgekit.core.images import MAX_PIXELS, decode_image
from edgekit.core.record import Plain, from_plain, to_plain
from edgekit.core.toml import dump_toml, parse_toml, read_toml

Colour = Literal["rgb", "bgr", "gray"]
Layout = Literal["nchw", "nhwc"]
PixelDtype = Literal["float32", "float16", "uint8"]
ImageLike = NDArray[np.uint8] | Path | str | bytes

_WHERE: Final = "preprocess"


@dataclass(frozen=True, slots=True)
class TensorPad:
    """Fill to at least `height` x `width` at the bottom and the right with `value`, in units of the tensor."""

    height: int
    width: int
    value: float = 0.0


@dataclass(frozen=True, slots=True)
class Preprocess:
    """From a picture to a tensor: steps, colour, then real = (pixel / divisor - mean) / std, then padding.

    `mean` and `std` hold one value, or one a channel in the order of `colour`. With dtype "uint8" the pixels go in as
    they are. `value_range` says which brightness of a single-channel picture is black and which is white (None: the
    whole range of its type). Raises `BadInput` for contradictions.
    """

    steps: tuple[Step, ...] = ()
    colour: Colour = "rgb"
    divisor: float = 1.0
    mean: tuple[float, ...] = (0.0,)
    std: tuple[float, ...] = (1.0,)
    dtype: PixelDtype = "float32"
    layout: Layout = "nchw"
    pad: TensorPad | None = None
    value_range: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        for step in self.steps:
            check_step(step, _WHERE)
        for name, values in (("mean", self.mean), ("std", self.std)):
            if len(values) not in {1, self.channels}:
                raise BadInput(_WHERE, f"{name} has {len(values)} values", f"give 1 or {self.channels}")
        if self.divisor == 0 or 0 in self.std:
            raise BadInput(_WHERE, "divisor or std is 0", "give the numbers that the model was trained with")
        if self.dtype == "uint8" and (self.divisor, {*self.mean}, {*self.std}) != (1, {0}, {1}):
            raise BadInput(_WHERE, "dtype uint8 takes pixels as they are", "leave out divisor, mean and std")
        if self.pad is not None and not (1 <= self.pad.height <= 65_535 and 1 <= self.pad.width <= 65_535):
            raise BadInput(_WHERE, f"pad to {self.pad.height} x {self.pad.width}", "give sizes from 1 to 65535")

    @property
    def channels(self) -> int:
        """Number of channels of the tensor: 1 or 3."""
        return 1 if self.colour == "gray" else 3

    def __call__(self, image: ImageLike, *, max_pixels: int = MAX_PIXELS) -> NDArray[np.generic]:
        """The tensor [1, C, H, W] (or [1, H, W, C]) of a picture: a path, encoded bytes, or uint8 [H, W, 3] RGB.

        Raises `BadInput` where it is no picture.
        """
        return self.normalise(self.pixels(image, max_pixels=max_pixels))

    def prepare(self, image: ImageLike, *, max_pixels: int = MAX_PIXELS) -> tuple[NDArray[np.generic], Geometry]:
        """The tensor, and the map from its frame back to the picture."""
        picture = self.decode(image, max_pixels=max_pixels)
        return self.normalise(self.pixels(picture)), self.geometry(*picture.shape[:2])

    def decode(self, image: ImageLike, *, max_pixels: int = MAX_PIXELS) -> NDArray[np.uint8]:
        """The upright picture, uint8 [H, W, 3] RGB. Raises `BadInput`."""
        if isinstance(image, np.ndarray):
            return _checked_array(image)
        return decode_image(image, max_pixels=max_pixels, value_range=self.value_range)

    def pixels(self, image: ImageLike, *, max_pixels: int = MAX_PIXELS) -> NDArray[np.uint8]:
        """The picture in the model's frame and colour order, before any arithmetic: uint8 [H, W, C]."""
        picture = self.decode(image, max_pixels=max_pixels)
        self.geometry(*picture.shape[:2])  # refuses absurd sizes before memory is taken
        if self.steps or self.colour == "gray":
            picture = fit(picture, self.steps, is_gray=self.colour == "gray")
        if picture.ndim == 2:
            picture = picture[:, :, None]
        return np.ascontiguousarray(picture[:, :, ::-1]) if self.colour == "bgr" else picture

    def normalise(self, pixels: NDArray[np.uint8]) -> NDArray[np.generic]:
        """From pixels [H, W, C] to the tensor [1, C, H, W] or [1, H, W, C], padded where `pad` asks for it."""
        height, width, channels = pixels.shape
        frame = self._padded(height, width)
        table = _table(self.divisor, self.mean, self.std, self.dtype, channels)
        planar = self.layout == "nchw"
        shape = (1, channels, *frame) if planar else (1, *frame, channels)
        whole = frame == (height, width)
        tensor = np.empty(shape, table.dtype) if whole else np.full(shape, self._pad_value(), table.dtype)
        for channel in range(channels):
            plane = tensor[0, channel] if planar else tensor[0, :, :, channel]
            inner = plane[:height, :width]
            if inner.flags.c_contiguous:
                np.take(table[channel], pixels[:, :, channel], out=inner, mode="clip")  # clip: without a copy of `out`
            else:
                inner[...] = table[channel][pixels[:, :, channel]]
        return tensor

    def geometry(self, height: int, width: int) -> Geometry:
        """The map from a picture of that size to the frame. Raises `BadInput` for a picture that cannot be fitted."""
        return geometry_of(self.steps, height, width)

    def tensor_shape(self, height: int, width: int) -> tuple[int, int, int, int]:
        """The tensor's shape for a picture of that size."""
        frame = self._padded(*self.geometry(height, width).frame)
        return (1, self.channels, *frame) if self.layout == "nchw" else (1, *frame, self.channels)

    def denormalise_range(self) -> NDArray[np.float32]:
        """The real value of each pixel level in each channel, float32 [C, 256]; `pad.value` may come on top."""
        table = _table(self.divisor, self.mean, self.std, self.dtype, self.channels)
        return table.astype(np.float32)

    def as_uint8(self) -> "Preprocess":
        """The same picture as bare pixels, for a model that holds the arithmetic itself; padding is rounded."""
        pad = self.pad
        if pad is not None:
            pixel = (pad.value * self.std[0] + self.mean[0]) * self.divisor
            pad = replace(pad, value=float(min(255, max(0, round(pixel)))))
        return replace(self, divisor=1.0, mean=(0.0,), std=(1.0,), dtype="uint8", pad=pad)

    def to_plain(self) -> dict[str, Plain]:
        """The JSON and TOML form."""
        plain = to_plain(self)
        assert isinstance(plain, dict)
        return plain

    @classmethod
    def from_plain(cls, plain: object, *, where: str = _WHERE) -> "Preprocess":
        """From its JSON or TOML form. Raises `BadInput` with the field's path."""
        return from_plain(cls, plain, where=where)

    def to_toml(self) -> str:
        """TOML text that `from_toml` reads back to an equal value."""
        return dump_toml(self.to_plain())

    @classmethod
    def from_toml(cls, text: str, *, where: str = _WHERE) -> "Preprocess":
        """From TOML text. Raises `BadInput`."""
        return cls.from_plain(parse_toml(text, where=where), where=where)

    @classmethod
    def read(cls, path: Path) -> "Preprocess":
        """From a TOML file. Raises `BadInput`."""
        return cls.from_plain(read_toml(path), where=str(path))

    def _padded(self, height: int, width: int) -> tuple[int, int]:
        return (height, width) if self.pad is None else (max(height, self.pad.height), max(width, self.pad.width))

    def _pad_value(self) -> float:
        return 0.0 if self.pad is None else self.pad.value


@lru_cache(maxsize=64)
def _table(
    divisor: float, mean: tuple[float, ...], std: tuple[float, ...], dtype: str, channels: int
) -> NDArray[np.generic]:
    """[channels, 256]: rounded once, from double precision."""
    levels = np.arange(256, dtype=np.float64)
    means, stds = (np.broadcast_to(np.array(values), channels)[:, None] for values in (mean, std))
    table: NDArray[np.generic] = ((levels / divisor - means) / stds).astype(dtype)
    table.setflags(write=False)
    return table


def _checked_array(image: NDArray[np.generic]) -> NDArray[np.uint8]:
    """uint8 [H, W, 3], or [H, W] and [H, W, 1] repeated to it."""
    if image.ndim == 2:
        image = image[:, :, None]
    if image.dtype != np.uint8 or image.ndim != 3 or image.shape[2] not in {1, 3} or 0 in image.shape:
        raise BadInput(
            f"picture array {image.dtype}{list(image.shape)}", "not a picture", "give uint8 [height, width, 3] in RGB"
        )
    pixels = image if image.shape[2] == 3 else np.repeat(image, 3, axis=2)
    return pixels.astype(np.uint8, copy=False)
