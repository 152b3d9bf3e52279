import io
import os
import struct
import subprocess
import sys
import warnings
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image, ImageFile

from edgekit.core.errors import BadInput
from edgekit.core.images import decode_image
from edgekit.core.png import PngHeader, png_header

Case = Callable[[str], Path]


def encoded(image: Image.Image, kind: str, **options: object) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def scene(height: int = 24, width: int = 32) -> Image.Image:
    y, x = np.mgrid[0:height, 0:width]
    return Image.fromarray(np.dstack([x * 7 % 256, y * 9 % 256, (x + y) * 5 % 256]).astype(np.uint8))


def test_orientation_is_applied_and_a_broken_block_is_upright(case: Case) -> None:
    folder = case("d01")
    upright = decode_image(folder / "upright.png").astype(int)
    files = sorted(folder.glob("orientation*.jpg"))
    assert len(files) == 11
    for file in files:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            pixels = decode_image(file)
        assert pixels.shape == (96, 64, 3)
        assert np.abs(pixels - upright).mean() < 4, file.name


@pytest.mark.parametrize("kind", ["PNG", "WEBP", "TIFF"])
@pytest.mark.parametrize("tag", range(1, 9))
def test_orientation_is_applied_in_other_formats_too(kind: str, tag: int) -> None:
    turn = [None, None, 0, 3, 1, 5, 2, 6, 4][tag]  # Transpose members that store the scene so that `tag` restores it
    stored = scene() if turn is None else scene().transpose(Image.Transpose(turn))
    exif = Image.Exif()
    exif[0x0112] = tag
    options = {"lossless": True} if kind == "WEBP" else {}
    pixels = decode_image(encoded(stored, kind, exif=exif, **options))
    assert np.array_equal(pixels, np.asarray(scene())), f"{kind}, orientation {tag}"


@pytest.mark.parametrize("suffix", ["png", "tif"])
def test_sixteen_bit_brightness_is_scaled_never_clipped(case: Case, suffix: str) -> None:
    folder = case("d02")
    full = decode_image(folder / f"full.{suffix}")
    assert (len(np.unique(full)), full.mean()) == (256, pytest.approx(127.5, abs=1))
    assert decode_image(folder / f"twelve_bit.{suffix}").mean() == pytest.approx(8, abs=1)
    assert decode_image(folder / f"dim.{suffix}").mean() == pytest.approx(1, abs=1)
    declared = decode_image(folder / f"twelve_bit.{suffix}", value_range=(0, 4095))
    assert (len(np.unique(declared)), declared.mean()) == (256, pytest.approx(127.5, abs=1))


def test_value_range_clips_outside_and_serves_8_bit_and_float_pictures() -> None:
    gray = Image.fromarray(np.array([[0, 50, 100, 150, 255]], np.uint8))
    assert decode_image(encoded(gray, "PNG"), value_range=(50, 150))[0, :, 0].tolist() == [0, 0, 128, 255, 255]
    heat = Image.fromarray(np.array([[20.0, 30.0, 40.0, np.nan]], np.float32))
    assert decode_image(encoded(heat, "TIFF"), value_range=(20, 40))[0, :3, 0].tolist() == [0, 128, 255]
    with pytest.raises(BadInput, match="declare their value_range"):
        decode_image(encoded(heat, "TIFF"))


TRUNCATED = (
    *("baseline_60pct.jpg", "progressive_60pct.jpg", "nul_tail.jpg", "png_70pct.png"),
    *("header_only.jpg", "empty.jpg", "html.jpg", "no_eoi.jpg"),
)


@pytest.mark.parametrize("name", TRUNCATED)
@pytest.mark.parametrize("tolerant", [False, True])
def test_cut_files_are_refused_by_name_whatever_pillow_is_told(
    case: Case, name: str, tolerant: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = case("d04") / name
    monkeypatch.setattr(ImageFile, "LOAD_TRUNCATED_IMAGES", tolerant)
    with pytest.raises(BadInput) as caught:
        decode_image(file)
    assert str(file) in str(caught.value)
    assert "truncated" in str(caught.value) or "not an image" in str(caught.value)
    assert tolerant == ImageFile.LOAD_TRUNCATED_IMAGES


@pytest.mark.parametrize("name", ["two_glued.jpg", "junk_after.jpg", "whole_progressive.jpg"])
def test_what_follows_a_whole_picture_does_not_matter(case: Case, name: str) -> None:
    whole = decode_image(case("d04") / "whole.jpg").astype(int)
    assert np.abs(decode_image(case("d04") / name) - whole).mean() < 0.5


@pytest.mark.parametrize("name", ["85_megapixel.png", "100_megapixel.png", "3600_megapixel.png"])
def test_huge_pictures_are_refused_from_the_header(case: Case, name: str) -> None:
    script = (
        "import resource, sys, time\n"
        "from edgekit.core.errors import BadInput\n"
        "from edgekit.core.images import decode_image\n"
        "before, start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()\n"
        "try:\n    decode_image(sys.argv[1])\n"
        "except BadInput as error:\n    assert 'too many pixels' in str(error) and '50 megapixels' in str(error)\n"
        "else:\n    raise SystemExit('taken')\n"
        "grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before\n"
        "assert grown < 100_000 and time.process_time() - start < 1, (grown, time.process_time() - start)\n"
    )
    subprocess.run([sys.executable, "-c", script, case("d05") / name], check=True, timeout=60)


def test_the_limit_of_pixels_can_be_raised_and_lowered() -> None:
    picture = encoded(scene(20, 20), "PNG")
    assert decode_image(picture, max_pixels=400).shape == (20, 20, 3)
    with pytest.raises(BadInput, match="too many pixels"):
        decode_image(picture, max_pixels=399)


@pytest.mark.parametrize("name", ["zero_width.png", "bad_zlib.png", "bad_crc.png"])
def test_damaged_pngs_are_refused_by_name(case: Case, name: str) -> None:
    with pytest.raises(BadInput, match=rf"{name}: .*damaged"):
        decode_image(case("d05") / name)


def test_a_png_with_too_few_rows_in_a_whole_stream_is_refused() -> None:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = chunk(b"IHDR", struct.pack(">IIBBBBB", 50, 60, 8, 2, 0, 0, 0))
    body = chunk(b"IDAT", zlib.compress(bytes(151 * 30))) + chunk(b"IEND", b"")
    with pytest.raises(BadInput, match="truncated: the last 4530 bytes"):
        decode_image(b"\x89PNG\r\n\x1a\n" + header + body)


@pytest.mark.parametrize("mode", ["1", "L", "P", "RGB", "RGBA", "I;16"])
@pytest.mark.parametrize("size", [(1, 1), (3, 2), (9, 17), (33, 8)])
def test_the_size_of_a_png_stream_is_known(mode: str, size: tuple[int, int]) -> None:
    data = encoded(Image.new(mode, size), "PNG")
    header = png_header(data[:32], "made")
    at = data.index(b"IDAT")
    stream = zlib.decompress(data[at + 4 : at + 4 + int.from_bytes(data[at - 4 : at], "big")])
    assert header.stream_bytes() == len(stream)


def test_the_size_of_an_interlaced_stream_is_the_sum_of_its_passes() -> None:
    # 8 x 8: passes of 1x1, 1x1, 2x1, 2x2, 4x2, 4x4, 8x4 pixels, a filter byte before each row
    assert PngHeader(8, 8, 24, True).stream_bytes() == 64 * 3 + 1 + 1 + 1 + 2 + 2 + 4 + 4
    assert PngHeader(1, 1, 24, True).stream_bytes() == 4


@pytest.mark.parametrize("mode", ["1", "L", "P", "LA", "RGBA", "CMYK", "RGB"])
@pytest.mark.parametrize("kind", ["PNG", "TIFF", "JPEG"])
def test_every_colour_mode_becomes_rgb(mode: str, kind: str) -> None:
    if (kind, mode) in {("PNG", "CMYK"), ("JPEG", "P"), ("JPEG", "LA"), ("JPEG", "RGBA")}:
        pytest.skip(f"{kind} has no {mode}")
    pixels = decode_image(encoded(scene().convert(mode), kind))
    assert pixels.shape == (24, 32, 3)
    assert pixels.dtype == np.uint8
    assert pixels.max() > 100


def test_transparency_lies_over_black() -> None:
    image = Image.new("RGBA", (2, 1), (200, 100, 50, 255))
    image.putpixel((1, 0), (255, 255, 255, 0))
    assert decode_image(encoded(image, "PNG")).tolist() == [[[200, 100, 50], [0, 0, 0]]]
    palette = Image.new("P", (1, 1), 0)
    palette.putpalette([9, 9, 9])
    assert decode_image(encoded(palette, "PNG", transparency=0)).max() == 0


def test_of_several_frames_the_first_is_taken() -> None:
    frames = [Image.new("RGB", (4, 4), colour) for colour in ("red", "blue")]
    for kind in ("GIF", "WEBP", "PNG", "TIFF"):
        data = encoded(frames[0], kind, save_all=True, append_images=frames[1:])
        assert decode_image(data)[0, 0].argmax() == 0, kind


def test_paths_that_lead_nowhere_are_named(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="no such file"):
        decode_image(tmp_path / "missing.jpg")
    with pytest.raises(BadInput, match="a folder"):
        decode_image(tmp_path)
    with pytest.raises(BadInput):
        decode_image("nul\0inside.jpg")
    (tmp_path / "text.jpg").write_text("hello")
    with pytest.raises(BadInput, match="not an image"):
        decode_image(tmp_path / "text.jpg")


def test_a_fifo_or_device_does_not_hang(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.jpg")
    for path in (tmp_path / "pipe.jpg", Path("/dev/zero")):
        with pytest.raises(BadInput, match="not a regular file"):
            decode_image(path)


SEEDS = [
    encoded(scene(), "JPEG", quality=80),
    encoded(scene(), "JPEG", progressive=True),
    encoded(scene().convert("CMYK"), "JPEG"),
    encoded(scene(), "PNG"),
    encoded(scene().convert("P"), "PNG"),
    encoded(scene(), "TIFF"),
    encoded(scene(), "TIFF", compression="tiff_lzw"),
    encoded(scene(), "BMP"),
    encoded(scene(), "WEBP"),
    encoded(scene().convert("P"), "GIF"),
    encoded(scene(), "PPM"),
]


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from(SEEDS), st.data())
def test_damage_at_any_byte_is_a_picture_or_a_named_refusal(seed: bytes, data: st.DataObject) -> None:
    raw = bytearray(seed)
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(raw) - 1))
        match data.draw(st.sampled_from(["flip", "cut", "insert"])):
            case "flip":
                raw[at] ^= data.draw(st.integers(1, 255))
            case "cut":
                del raw[at:]
            case _:
                raw[at:at] = data.draw(st.binary(max_size=8))
        if not raw:
            break
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            pixels = decode_image(bytes(raw), max_pixels=1_000_000)
        except BadInput:
            return
    assert pixels.dtype == np.uint8
    assert pixels.shape[2] == 3
