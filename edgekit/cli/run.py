"""`edgekit run`: a bundle on images or arrays."""

from argparse import ArgumentParser
from pathlib import Path
from typing import Final

from edgekit.cli.arguments import add_bundle, add_json, add_precision, add_runtime, add_threads, positive

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
