"""Calibration data: images through the bundle's own `Preprocess`, arrays, or a Python generator.

Samples are read when asked for, one at a time. What cannot be read is named; nothing is skipped silently.
"""

import importlib.util
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from edgekit.core.artifact import Port
from edgekit.core.errors import BadInput, UsageError
from edgekit.core.images import IMAGE_SUFFIXES
from edgekit.core.preprocess import Preprocess
from edgekit.core.tensors import pack_arrays, read_arrays
from edgekit.quantize.calibration import Sample, Samples

Array = NDArray[np.generic]


def image_files(folder: Path) -> tuple[Path, ...]:
    """The images of a folder and of the folders in it, in the order of their paths."""
    return tuple(sorted(p for p in folder.rglob("*") if p.suffix.lower() in IMAGE_SUFFIXES and p.is_file()))


def open_samples(
    source: Path | str,
    inputs: Sequence[Port],
    preprocess: Preprocess | None,
    limit: int | None = None,
) -> Samples:
    """Samples from a folder, a file or `file.py:function`; at most `limit`, evenly spread over what is there.

    Raises `BadInput` where there is nothing to read, `UsageError` where images come without a `Preprocess`.
    """
    text = str(source)
    name, colon, function = text.rpartition(":")
    if colon and name.endswith(".py"):
        return _generated(Path(name), function, inputs, limit)
    path = Path(source)
    if not path.exists():
        raise BadInput(f"calibration {path}", "no such file or folder", "give a folder of images or .npz files")
    if path.is_file():
        if path.suffix == ".npz":
            return _ArrayFiles((path,), tuple(inputs))
        if path.suffix == ".npy":
            return _Rows(path, tuple(inputs), limit)
        if path.suffix.lower() in IMAGE_SUFFIXES:
            return _Images((path,), _image_input(inputs, preprocess), _needed(preprocess))
        raise BadInput(
            f"calibration {path}", "neither an image nor .npy nor .npz", "give a folder of images or .npz files"
        )
    arrays = tuple(sorted((*path.glob("*.npz"), *path.glob("*.npy"))))
    if arrays:
        return _ArrayFiles(_at_most(arrays, limit), tuple(inputs))
    images = image_files(path)
    if not images:
        raise BadInput(f"calibration {path}", "the folder holds no image, .npy or .npz", "give a folder with some")
    return _Images(_at_most(images, limit), _image_input(inputs, preprocess), _needed(preprocess))


def holds_images(source: Path | str) -> bool:
    """Whether the calibration data is images, which need a `Preprocess`."""
    path = Path(source)
    if path.is_dir():
        return not any(path.glob("*.np[yz]")) and bool(image_files(path))
    return path.suffix.lower() in IMAGE_SUFFIXES


def random_samples(inputs: Sequence[Port], count: int = 16) -> Samples:
    """Noise in the inputs' shapes, free axes at 1: only where the user asked for it by flag."""
    rng = np.random.default_rng(0)
    shapes = {p.name: tuple(d if isinstance(d, int) else 1 for d in p.shape) for p in inputs}
    return InMemory(
        tuple(
            Sample(
                f"random {i}",
                {
                    p.name: rng.standard_normal(shapes[p.name]).astype(p.dtype)
                    if np.dtype(p.dtype).kind == "f"
                    else rng.integers(0, 2, shapes[p.name]).astype(p.dtype)
                    for p in inputs
                },
            )
            for i in range(count)
        )
    )


@dataclass(frozen=True, slots=True)
class InMemory:
    """Samples that are there already."""

    samples: tuple[Sample, ...]

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, index: int, /) -> Sample:
        return self.samples[index]


@dataclass(frozen=True, slots=True)
class _Images:
    files: tuple[Path, ...]
    port: Port
    preprocess: Preprocess

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index: int, /) -> Sample:
        path = self.files[index]
        tensor = self.preprocess(path)
        if tensor.ndim != len(self.port.shape) or any(
            isinstance(want, int) and want != got
            for want, got in zip(self.port.shape[1:], tensor.shape[1:], strict=True)
        ):
            raise BadInput(
                f"image {path.name}",
                f"the preprocessing gives {list(tensor.shape)}, input '{self.port.name}' takes {list(self.port.shape)}",
                "choose the preset that fits the model, or bind the input's shape",
            )
        return Sample(path.name, {self.port.name: tensor})


@dataclass(frozen=True, slots=True)
class _ArrayFiles:
    files: tuple[Path, ...]
    inputs: tuple[Port, ...]

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index: int, /) -> Sample:
        path = self.files[index]
        arrays = read_arrays(path, where=f"calibration sample {path.name}", only="")
        return Sample(path.name, checked(arrays, self.inputs, path.name))


@dataclass(frozen=True, slots=True)
class _Rows:
    """A .npy file whose first axis runs over samples."""

    path: Path
    inputs: tuple[Port, ...]
    limit: int | None

    def __len__(self) -> int:
        rows = len(_mapped(self.path))
        return rows if self.limit is None else min(rows, self.limit)

    def __getitem__(self, index: int, /) -> Sample:
        row = np.array(_mapped(self.path)[index])
        if row.ndim == len(self.inputs[0].shape) - 1:
            row = row[None]
        name = f"{self.path.name}[{index}]"
        return Sample(name, checked({self.inputs[0].name: row}, self.inputs, name))


def checked(arrays: Mapping[str, Array], inputs: Sequence[Port], where: str) -> dict[str, Array]:
    """The arrays by input name, in the input's dtype. Raises `BadInput` naming sample and input."""
    known = {p.name: p for p in inputs}
    if unknown := [k for k in arrays if k not in known]:
        if len(arrays) == len(inputs) == 1:  # a file with one array for the model's one input, whatever its key
            arrays = {inputs[0].name: next(iter(arrays.values()))}
        else:
            raise BadInput(
                f"calibration sample {where}", f"the model has no input '{unknown[0]}'", "name: " + ", ".join(known)
            )
    for name, array in arrays.items():
        port = known[name]
        if array.dtype.kind == "O" or (array.dtype.kind == "f") != (np.dtype(port.dtype).kind == "f"):
            raise BadInput(
                f"calibration sample {where}", f"'{name}' is {array.dtype}, the model takes {port.dtype}", "convert it"
            )
        wrong = array.ndim != len(port.shape) or any(
            isinstance(want, int) and want != got for want, got in zip(port.shape, array.shape, strict=False)
        )
        if wrong:
            raise BadInput(
                f"calibration sample {where}",
                f"'{name}' has shape {list(array.shape)}, the model takes {list(port.shape)}",
                "give one sample a file, batch axis included",
            )
    return {name: np.asarray(array, known[name].dtype) for name, array in arrays.items()}


def _generated(path: Path, function: str, inputs: Sequence[Port], limit: int | None) -> Samples:
    """Run the user's generator once and keep its samples on disk, so that they can be read again."""
    folder = tempfile.TemporaryDirectory(prefix="edgekit-samples-")
    files = []
    for i, arrays in enumerate(_call(path, function)):
        if limit is not None and i >= limit:
            break
        named = arrays if isinstance(arrays, Mapping) else {inputs[0].name: arrays}
        kept = checked({k: np.asarray(v) for k, v in named.items()}, inputs, f"{function}()[{i}]")
        file = Path(folder.name) / f"{i:06}.npz"
        file.write_bytes(pack_arrays(kept))
        files.append(file)
    return _Kept(folder, _ArrayFiles(tuple(files), tuple(inputs)))


def _call(path: Path, function: str) -> Iterator[object]:
    if not path.is_file():
        raise BadInput(f"calibration {path}", "no such file", "give file.py:function")
    spec = importlib.util.spec_from_file_location("edgekit_calibration", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
        made = getattr(module, function)()
        if not isinstance(made, Iterable):
            raise TypeError(f"{function}() gave {type(made).__name__}, not samples")
        yield from made
    except Exception as error:
        raise BadInput(
            f"calibration {path.name}:{function}", f"{type(error).__name__}: {error}", "run the function by itself"
        ) from error


@dataclass(frozen=True, slots=True)
class _Kept:
    folder: "tempfile.TemporaryDirectory[str]"
    files: _ArrayFiles

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index: int, /) -> Sample:
        sample = self.files[index]
        return Sample(f"sample {index}", sample.arrays)


@lru_cache(maxsize=4)
def _mapped(path: Path) -> Array:
    try:
        array: Array = np.load(path, allow_pickle=False, mmap_mode="r")
    except (OSError, ValueError, EOFError) as error:
        raise BadInput(f"calibration {path}", f"not a numpy file: {error}", "write it with numpy.save") from None
    if array.ndim == 0:
        raise BadInput(f"calibration {path}", "a single number", "give an array whose first axis runs over samples")
    return array


def _at_most(files: tuple[Path, ...], limit: int | None) -> tuple[Path, ...]:
    if limit is None or len(files) <= limit:
        return files
    return tuple(files[int(i * len(files) / limit)] for i in range(limit))


def _needed(preprocess: Preprocess | None) -> Preprocess:
    if preprocess is None:
        raise UsageError("calibration with images", "no --preprocess is given", "name a preset or a TOML file")
    return preprocess


def _image_input(inputs: Sequence[Port], preprocess: Preprocess | None) -> Port:
    """The one input that takes a picture."""
    candidates = [p for p in inputs if len(p.shape) == 4]
    if len(candidates) != 1:
        raise UsageError(
            "calibration with images",
            f"the model has {len(candidates)} inputs of four axes",
            "give .npz files with one array per input",
        )
    return candidates[0]
