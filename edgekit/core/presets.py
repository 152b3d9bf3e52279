"""Named ways to prepare pictures, each adapted to the input's shape. The filter is part of each name's contract."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from edgekit.core.artifact import Port
from edgekit.core.errors import UsageError
from edgekit.core.geometry import CentreCrop, Exact, FitHeight, Letterbox, ShortSide, ShortSideAtLeast, Step
from edgekit.core.preprocess import Layout, PixelDtype, Preprocess, TensorPad

_DTYPES: Final[dict[str, PixelDtype]] = {"float32": "float32", "float16": "float16", "uint8": "uint8"}
_PICTURES: Final = ((480, 640), (640, 480), (97, 1501), (224, 224))  # a preset fits where all of these come out right


@dataclass(frozen=True, slots=True)
class _Frame:
    """What a preset asks of an input: its height and width, None where free; gray where it has one channel."""

    height: int | None = None
    width: int | None = None
    is_gray: bool = False

    def size(self, default: int) -> tuple[int, int]:
        return self.height or default, self.width or default


def _cropped(frame: _Frame, filter_is_bicubic: bool = False) -> tuple[Step, ...]:
    """The middle 7/8 of the short side, as ImageNet classifiers are evaluated: short side 256 for a frame of 224."""
    height, width = frame.size(224)
    short = round(max(height, width) * 256 / 224)
    return ShortSide(short, "bicubic" if filter_is_bicubic else "bilinear"), CentreCrop(height, width)


def _torchvision(frame: _Frame) -> Preprocess:
    return Preprocess(_cropped(frame), divisor=255.0, mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225))


def _efficientnet_lite(frame: _Frame) -> Preprocess:
    return Preprocess(_cropped(frame, filter_is_bicubic=True), mean=(127.0,), std=(128.0,))


def _mobilenet_v1_128(frame: _Frame) -> Preprocess:
    return Preprocess((ShortSide(256), CentreCrop(224, 224), Exact(128, 128)), mean=(128.0,), std=(128.0,))


def _yolox(frame: _Frame) -> Preprocess:
    return Preprocess((Letterbox(*frame.size(416)),), "bgr")


def _ppocr_det(frame: _Frame) -> Preprocess:
    """Free: as the picture is, its short side at least 736. Bound: as large as fits, proportions kept."""
    bound = frame.height is not None or frame.width is not None
    step = Letterbox(*frame.size(736), fill=0) if bound else ShortSideAtLeast(736, 32)
    return Preprocess((step,), "bgr", 255.0, (0.5,), (0.5,))


def _ppocr_rec(frame: _Frame) -> Preprocess:
    pad = TensorPad(48, frame.width or 320)
    return Preprocess((FitHeight(48, frame.width),), "bgr", 255.0, (0.5,), (0.5,), pad=pad)


def _ppocr_cls(frame: _Frame) -> Preprocess:
    return Preprocess((FitHeight(48, 192),), "bgr", 255.0, (0.5,), (0.5,), pad=TensorPad(48, 192))


def _tf(frame: _Frame) -> Preprocess:
    return Preprocess(_cropped(frame), "gray" if frame.is_gray else "rgb", 127.5, (1.0,))


def _raw(frame: _Frame) -> Preprocess:
    bound = frame.height is not None or frame.width is not None
    return Preprocess((Exact(*frame.size(224)),) if bound else (), "gray" if frame.is_gray else "rgb")


def _any_frame(frame: _Frame) -> bool:
    return True


def _is_square(frame: _Frame) -> bool:
    return frame.height is None or frame.width is None or frame.height == frame.width


def _is_multiple_of_32(frame: _Frame) -> bool:
    return all(side is None or side % 32 == 0 for side in (frame.height, frame.width))


@dataclass(frozen=True, slots=True)
class _Preset:
    make: Callable[[_Frame], Preprocess]
    suits: Callable[[_Frame], bool] = _any_frame


PRESETS: Final = {
    # short side 256 bilinear, crop 224, (x / 255 - mean) / std of ImageNet
    "torchvision": _Preset(_torchvision, _is_square),
    # short side 256 bicubic, crop 224, (x - 127) / 128
    "efficientnet-lite": _Preset(_efficientnet_lite, _is_square),
    # crop 224 of short side 256, bilinear to 128, (x - 128) / 128
    "mobilenet-v1-128": _Preset(_mobilenet_v1_128),
    # BGR 0..255, proportions kept, top left on grey 114
    "yolox": _Preset(_yolox, _is_multiple_of_32),
    # BGR, short side at least 736, multiples of 32, -1..1
    "ppocr-det": _Preset(_ppocr_det, _is_multiple_of_32),
    # BGR, height 48, padded with 0 to 320 or more, -1..1
    "ppocr-rec": _Preset(_ppocr_rec),
    # BGR, height 48, padded with 0 to 192, -1..1
    "ppocr-cls": _Preset(_ppocr_cls),
    # as torchvision, but to -1..1
    "tf": _Preset(_tf, _is_square),
    # resized to the frame, 0..255
    "raw": _Preset(_raw),
}


def preset(name: str, port: Port | None = None) -> Preprocess:
    """The preset of that name for an input (None: a free float32 NCHW one).

    Raises `UsageError` for an unknown name and for an input that it does not fit, listing those that do.
    """
    if name not in PRESETS:
        raise UsageError(f"preprocess '{name}'", "no preset has that name", f"one of {', '.join(PRESETS)}")
    if port is None:
        return PRESETS[name].make(_Frame())
    made = _made(name, port)
    if made is None:
        fitting = ", ".join(presets_fitting(port)) or "none; write a preprocess file in TOML"
        raise UsageError(
            f"preprocess '{name}'",
            f"does not fit the input '{port.name}' {port.dtype}{list(port.shape)}",
            f"one that fits: {fitting}",
        )
    return made


def presets_fitting(port: Port) -> tuple[str, ...]:
    """The names of the presets whose tensor has the input's dtype and shape, in the table's order.

    >>> presets_fitting(Port("x", "float32", ("N", 3, 128, 128)))
    ('torchvision', 'efficientnet-lite', 'mobilenet-v1-128', 'yolox', 'ppocr-det', 'tf', 'raw')
    """
    return tuple(name for name in PRESETS if _made(name, port) is not None)


def _made(name: str, port: Port) -> Preprocess | None:
    """The preset adapted to the port, or None where its tensors would not fit."""
    dtype = _DTYPES.get(port.dtype)
    if len(port.shape) != 4 or dtype is None:
        return None
    layout: Layout = "nhwc" if port.shape[3] in {1, 3} and port.shape[1] not in {1, 3} else "nchw"
    at = (1, 2, 3) if layout == "nhwc" else (2, 3, 1)
    height, width, depth = (None if isinstance(port.shape[axis], str) else int(port.shape[axis]) for axis in at)
    frame = _Frame(height, width, depth == 1)
    if not PRESETS[name].suits(frame):
        return None
    made = PRESETS[name].make(frame)
    made = replace(made.as_uint8() if dtype == "uint8" else made, dtype=dtype, layout=layout)
    fits = all(accepts(port, made.tensor_shape(*picture)) for picture in _PICTURES)
    return made if fits else None


def accepts(port: Port, shape: tuple[int, ...]) -> bool:
    """Whether a tensor of that shape may go into the port: fixed sizes equal, free ones anything, one name one size."""
    bound: dict[str, int] = {}
    return len(shape) == len(port.shape) and all(
        size == (want if isinstance(want, int) else bound.setdefault(want, size))
        for size, want in zip(shape, port.shape, strict=True)
    )
