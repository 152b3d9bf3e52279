"""Flags that several commands share, so that each reads and means the same everywhere."""

from argparse import ArgumentParser, ArgumentTypeError
from pathlib import Path
from typing import Final

from edgekit.core.errors import UsageError

PRECISIONS: Final = ("int8", "fp16", "fp32")
RUNTIMES_HELP: Final = "onnxruntime, openvino, litert, tflite-runtime, or an installed one of another package"


def add_bundle(parser: ArgumentParser) -> None:
    """The bundle to work on."""
    parser.add_argument("bundle", metavar="BUNDLE", type=Path, help="a bundle (.ekb) that `edgekit build` wrote")


def add_runtime(parser: ArgumentParser, *, default: str) -> None:
    """One runtime by name."""
    parser.add_argument("--runtime", metavar="R", help=f"{RUNTIMES_HELP}; default: {default}")


def add_precision(parser: ArgumentParser) -> None:
    """Which artifact of a runtime."""
    parser.add_argument("--precision", choices=PRECISIONS, help="default: the one that the bundle prefers")


def add_threads(parser: ArgumentParser) -> None:
    """Threads of a session."""
    parser.add_argument(
        "--threads", metavar="N", type=positive, help="default: what affinity and quota give this process"
    )


def add_json(parser: ArgumentParser) -> None:
    """One JSON document on standard output."""
    parser.add_argument("--json", action="store_true", help="print one JSON document; errors as JSON on stderr")


def add_bindings(parser: ArgumentParser) -> None:
    """What binds a model's free axes and inputs."""
    parser.add_argument(
        "--input-shape", metavar="NAME:DIMS", action="append", default=[], help="bind an input's shape: x:1,3,640,640"
    )
    parser.add_argument(
        "--fix", metavar="NAME=VALUE", action="append", default=[], help="make an input a constant: sr=16000"
    )


def positive(text: str) -> int:
    """A whole number of at least 1."""
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number < 1:
        raise ArgumentTypeError(f"{text!r} is not a whole number of at least 1")
    return number


def share_of_points(text: str) -> float:
    """Percentage points, 0 to 100."""
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number <= 100:
        raise ArgumentTypeError(f"{text!r} is not a number of points from 0 to 100")
    return number


def parse_shapes(given: list[str]) -> dict[str, tuple[int, ...]]:
    """`["x:1,3,640,640"]` -> `{"x": (1, 3, 640, 640)}`; the name may hold colons itself. Raises `UsageError`."""
    shapes: dict[str, tuple[int, ...]] = {}
    for text in given:
        name, colon, dims = text.rpartition(":")
        try:
            shape = tuple(int(dim) for dim in dims.split(","))
        except ValueError:
            shape = ()
        if not name or not colon or not shape or min(shape) < 1:
            raise UsageError(
                f"--input-shape {text}", "is not NAME:DIM,DIM,…", "for example --input-shape x:1,3,640,640"
            )
        if shapes.setdefault(name, shape) != shape:
            raise UsageError(f"--input-shape {text}", f"{name} was given another shape before", "give each input once")
    return shapes


def parse_fixed(given: list[str]) -> dict[str, float | int]:
    """`["sr=16000"]` -> `{"sr": 16000}`; whole numbers stay whole. Raises `UsageError`."""
    fixed: dict[str, float | int] = {}
    for text in given:
        name, equals, value = text.rpartition("=")
        number = _number(value)
        if not name or not equals or number is None:
            raise UsageError(f"--fix {text}", "is not NAME=NUMBER", "for example --fix sr=16000")
        if fixed.setdefault(name, number) != number:
            raise UsageError(f"--fix {text}", f"{name} was given another value before", "give each input once")
    return fixed


def _number(text: str) -> float | int | None:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return None
