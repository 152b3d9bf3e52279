"""The demo's photos: windows of a picture, and what is never written."""

import hashlib
from pathlib import Path

import pytest
from demo_photos import PHOTOS, Photo, crops, is_there, save
from PIL import Image


def test_crops_begin_with_the_whole_picture_and_reach_every_corner() -> None:
    image = Image.effect_noise((40, 20), 50)
    whole, *windows = crops(image, per_side=3)
    assert whole.size == (40, 20)
    assert len(windows) == 9
    assert {window.size for window in windows} == {(30, 15)}
    assert windows[0].getpixel((0, 0)) == image.getpixel((0, 0))
    assert windows[-1].getpixel((29, 14)) == image.getpixel((39, 19))


def test_every_photo_has_a_credit_and_names_are_unique() -> None:
    credits = (Path(__file__).parents[2] / "examples/PHOTOS.md").read_text()
    assert all(photo.name in credits for photo in PHOTOS)
    assert len({photo.name for photo in PHOTOS}) == len(PHOTOS)


def test_a_picture_with_another_hash_is_never_written(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="not the picture"):
        save(tmp_path / "a.png", b"other", "0" * 64)
    assert list(tmp_path.iterdir()) == []


def test_a_picture_that_is_there_is_not_fetched_again(tmp_path: Path) -> None:
    right = hashlib.sha256(b"pixels").hexdigest()
    assert not is_there(tmp_path, Photo("p==1", "p/a.png", right))
    save(tmp_path / "a.png", b"pixels", right)
    assert is_there(tmp_path, Photo("p==1", "p/a.png", right))
