"""`edgekit run`: a bundle on images or arrays."""

import json
import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import Final

from edgekit.cli.arguments import add_bundle, add_json, add_precision, add_runtime, add_threads, positive
from edgekit.cli.terminal import print_json
from edgekit.core.errors import BadInput, ExitCode, UsageError
from edgekit.core.files import write_atomic
from edgekit.core.images import IMAGE_SUFFIXES
from edgekit.core.record import to_plain
from edgekit.core.results import Boxes, Labels, Regions, Result, Text

DESCRIPTION: Final = """\
Run a bundle on images, .npy or .npz files, or folders of them, and print what it finds.
An .npz holds one array per input by name; an .npy is the only input's array."""
EXAMPLE: Final = "edgekit run model.ekb photo.jpg --runtime litert --top 3"


def add_arguments(parser: ArgumentParser) -> None:
    """Flags of the command."""
    add_bundle(parser)
    parser.add_argument("inputs", metavar="INPUT", nargs="+", type=Path, help="image, .npy, .npz, or a folder of them")
    add_runtime(parser, default="the first that the bundle prefers and this machine has")
    add_precision(parser)
    add_threads(parser)
    parser.add_argument("--top", metavar="K", type=positive, default=5, help="classes to print; default: 5")
    parser.add_argument("--raw", metavar="OUT.npz", type=Path, help="write the output tensors by name")
    add_json(parser)


def run(args: Namespace) -> ExitCode:
    """Run each input and print what the task makes of it."""
    from edgekit.core.tensors import pack_arrays
    from edgekit.runtimes.reference import load_precision

    files = _files(args.inputs)
    if args.raw is not None and len(files) != 1:
        raise UsageError("--raw", f"{len(files)} inputs are given", "give one input, its tensors go to one file")
    model = load_precision(args.bundle, args.runtime, args.precision, threads=args.threads)
    for passed in model.passed_over:
        print(f"edgekit: passed over {passed.label}: {passed.why}", file=sys.stderr)
    documents = []
    for file in files:
        outputs, result = model.infer(file)
        if args.raw is not None:
            write_atomic(args.raw, [pack_arrays(outputs)])
        if isinstance(result, Labels):
            result = Labels(result.labels[: args.top])
        documents.append({"input": str(file), **_document(result)})
        if not args.json:
            print(_text(file, result, model.entry.label))
    if args.json:
        print_json({"runtime": model.entry.runtime, "precision": model.entry.precision, "results": documents})
    return ExitCode.DONE


def _files(inputs: list[Path]) -> list[Path]:
    """Folders give the images and arrays in them, in the order of their names."""
    suffixes = IMAGE_SUFFIXES | {".npy", ".npz"}
    files: list[Path] = []
    for path in inputs:
        if path.is_dir():
            found = sorted(p for p in path.iterdir() if p.suffix.lower() in suffixes)
            if not found:
                raise BadInput(str(path), "the folder holds no image, .npy or .npz", "name a folder with some")
            files += found
        elif not path.exists():
            raise BadInput(str(path), "no such file", "check the path")
        else:
            files.append(path)
    return files


def _document(result: Result) -> dict[str, object]:
    plain = to_plain(result)
    assert isinstance(plain, dict)
    return {**plain}


def _text(file: Path, result: Result, label: str) -> str:
    """What a person reads: one line per finding."""
    head = f"{file.name}  ({label})"
    if isinstance(result, Labels):
        lines = [f"  {each.score:6.1%}  {each.name or each.index}" for each in result.labels]
    elif isinstance(result, Boxes):
        lines = [
            f"  {b.score:6.1%}  {b.name or b.index}  at {b.x0:.0f},{b.y0:.0f} to {b.x1:.0f},{b.y1:.0f}"
            for b in result.boxes
        ] or ["  nothing found"]
    elif isinstance(result, Regions):
        lines = [f"  {r.score:6.1%}  " + " ".join(f"{x:.0f},{y:.0f}" for x, y in r.corners) for r in result.regions]
    elif isinstance(result, Text):
        lines = [f"  {result.score:6.1%}  {result.text}"]
    else:
        lines = [f"  {json.dumps(each)}" for each in _tensors(result)]
    return "\n".join([head, *lines])


def _tensors(result: Result) -> list[object]:
    tensors = _document(result)["tensors"]
    assert isinstance(tensors, list)
    return tensors
