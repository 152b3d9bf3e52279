"""Image files to upright 8-bit RGB, or a refusal by name: cut, damaged, hostile and huge files never become pixels.

Pillow decodes; what it lets pass is checked here: sizes before memory is taken, checksums of PNG chunks, orientation,
16-bit brightness. No switch of Pillow is changed, since it would change how other code of the process reads files.
Rules: orientation from EXIF is applied; transparency is laid over black; of several frames the first is taken.
"""

import io
import struct
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final

import numpy as np
from numpy.typing import NDArray

from edgekit.core.errors import BadInput
from edgekit.core.files import open_input
from edgekit.core.png import SIGNATURE, check_png, png_header

if TYPE_CHECKING:
    from PIL import Image

# How pictures are named in a folder; what a file is, its content says.
IMAGE_SUFFIXES: Final = frozenset({".jpg", ".jpeg", ".png", ".bmp", ".tif", ".tiff", ".webp", ".gif", ".ppm", ".pgm"})
MAX_PIXELS: Final = 50_000_000
MAX_FILE_BYTES: Final = 1 << 29
FORMATS: Final = ("JPEG", "PNG", "TIFF", "BMP", "WEBP", "GIF", "PPM")
SUFFIXES: Final = (".jpg", ".jpeg", ".png", ".tif", ".tiff", ".bmp", ".webp", ".gif", ".ppm", ".pgm")

_ORIENTATION: Final = 0x0112
_UPRIGHT: Final = {  # what turns a stored picture upright, in Pillow's words
    2: "FLIP_LEFT_RIGHT",
    3: "ROTATE_180",
    4: "FLIP_TOP_BOTTOM",
    5: "TRANSPOSE",
    6: "ROTATE_270",
    7: "TRANSVERSE",
    8: "ROTATE_90",
}
_WIDE_MODES: Final = ("I;16", "I;16L", "I;16B", "I;16N", "I", "F")
# What Pillow's decoders were seen to raise on damaged files; anything else is a bug and keeps its traceback.
_DECODER_ERRORS: Final = (
    OSError,
    SyntaxError,
    ValueError,
    TypeError,
    LookupError,
    ArithmeticError,
    AttributeError,
    RuntimeError,
    AssertionError,
    EOFError,
    MemoryError,
    struct.error,
    zlib.error,
)


def decode_image(
    source: Path | str | bytes, *, max_pixels: int = MAX_PIXELS, value_range: tuple[float, float] | None = None
) -> NDArray[np.uint8]:
    """The upright picture in a file or in encoded bytes, uint8 [H, W, 3] RGB.

    `max_pixels` is refused from the header, before the pixels take memory (above 178 million Pillow refuses by
    itself). `value_range` = (black, white) scales a single-channel picture linearly; None: 16-bit brightness is
    divided by 257. Raises `BadInput` naming the file.
    """
    if isinstance(source, bytes):
        return _decode(io.BytesIO(source), f"image of {len(source)} bytes", max_pixels, value_range)
    with open_input(Path(source)) as file:
        return _decode(file, str(source), max_pixels, value_range)


def _decode(file: BinaryIO, name: str, max_pixels: int, value_range: tuple[float, float] | None) -> NDArray[np.uint8]:
    from PIL import Image, UnidentifiedImageError

    head = file.read(32)
    if not head:
        raise _no_image(name, "the file is empty")
    if file.seek(0, io.SEEK_END) > MAX_FILE_BYTES:
        raise BadInput(name, f"larger than {MAX_FILE_BYTES >> 20} MiB", "give a smaller image file")
    if head.startswith(SIGNATURE):
        header = png_header(head, name)
        _check_size(name, header.width, header.height, max_pixels)
        check_png(file, header, name)
    file.seek(0)
    try:
        with Image.open(file, formats=FORMATS) as image:
            _check_size(name, image.width, image.height, max_pixels)
            image.load()
            if image.format in {"JPEG", "MPO"}:
                _check_jpeg_end(file, name)
            return _upright_rgb(image, name, value_range)
    except Image.DecompressionBombError as error:
        raise _too_large(name, str(error), max_pixels) from error
    except UnidentifiedImageError as error:
        raise _no_image(name, f"its content is none of {', '.join(FORMATS)}") from error
    except _DECODER_ERRORS as error:
        raise _damaged(name, error) from error


def _upright_rgb(image: "Image.Image", name: str, value_range: tuple[float, float] | None) -> NDArray[np.uint8]:
    from PIL import Image

    turn = _UPRIGHT.get(_orientation(image))
    if image.mode in _WIDE_MODES or (value_range is not None and image.mode == "L"):
        image = Image.fromarray(_eight_bits(image, name, value_range))
    elif "A" in image.mode or "a" in image.mode or "transparency" in image.info:
        over = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", over.size, (0, 0, 0, 255)), over)
    if image.mode != "RGB":
        image = image.convert("RGB")
    if turn is not None:
        image = image.transpose(Image.Transpose[turn])
    return np.array(image)


def _eight_bits(image: "Image.Image", name: str, value_range: tuple[float, float] | None) -> NDArray[np.uint8]:
    """A single-channel picture brought to 0..255 by its declared range, or by the whole range of 16 bits."""
    values = np.asarray(image)
    if value_range is None:
        is_16_bit = image.mode.startswith("I;16") or (image.mode == "I" and image.format in {"PNG", "PPM"})
        if not is_16_bit:
            raise BadInput(name, f"pixels of type {values.dtype} have no natural white", "declare their value_range")
        value_range = (0.0, 65535.0)
    low, high = value_range
    scaled = (values.astype(np.float32) - np.float32(low)) * np.float32(255.0 / (high - low))
    levels: NDArray[np.uint8] = np.clip(np.rint(np.nan_to_num(scaled)), 0, 255).astype(np.uint8)
    return levels


def _orientation(image: "Image.Image") -> int:
    """The EXIF orientation, 1 where there is none or the block is broken (on which Pillow warns or raises).

    A TIFF is turned by Pillow itself while it loads. Layout: Exif 2.32, 4.6.2 (TIFF 6.0 image file directory).
    """
    exif = image.info.get("exif", b"")
    if image.format == "TIFF" or not isinstance(exif, bytes):
        return 1
    block = exif.removeprefix(b"Exif\0\0")
    order = {b"II*\0": "<", b"MM\0*": ">"}.get(block[:4])
    if order is None or len(block) < 8:
        return 1
    try:
        (start,) = struct.unpack_from(f"{order}I", block, 4)
        (count,) = struct.unpack_from(f"{order}H", block, start)
        for entry in range(start + 2, start + 2 + 12 * count, 12):
            tag, kind, number, value = struct.unpack_from(f"{order}HHIH", block, entry)
            if (tag, kind, number) == (_ORIENTATION, 3, 1):
                return int(value)
    except struct.error:
        return 1
    return 1


def _check_size(name: str, width: int, height: int, max_pixels: int) -> None:
    if width * height == 0:
        raise BadInput(name, f"damaged: {width} x {height} pixels", "give a picture with pixels in it")
    if width * height > max_pixels:
        raise _too_large(name, f"{width} x {height} = {width * height / 1e6:.1f} megapixels", max_pixels)


def _check_jpeg_end(file: BinaryIO, name: str) -> None:
    """An end marker must follow the picture's data, even where someone set Pillow to accept truncated files."""
    file.seek(0)
    data = file.read()
    at = 2
    while data[at : at + 1] == b"\xff" and data[at + 1 : at + 2] != b"\xda":  # segments up to the first scan
        if data[at + 1] in {0xFF, *range(0xD0, 0xDA)}:
            at += 1 if data[at + 1] == 0xFF else 2
        else:
            at += 2 + int.from_bytes(data[at + 2 : at + 4], "big")
    if data.find(b"\xff\xd9", at) < 0:
        raise BadInput(name, "truncated: the JPEG has no end", "give the whole file")


def _too_large(name: str, size: str, max_pixels: int) -> BadInput:
    limit = f"{max_pixels / 1e6:g} megapixels are the limit"
    return BadInput(name, f"too many pixels: {size}; {limit}", "shrink the picture or raise the limit")


def _no_image(name: str, why: str) -> BadInput:
    return BadInput(name, f"not an image: {why}", "give an image file, whole and of a known format")


def _damaged(name: str, error: BaseException) -> BadInput:
    word = "truncated" if "truncated" in str(error).lower() else "damaged or truncated"
    return BadInput(name, f"{word}: {error or type(error).__name__}", "fetch or write the file again")
