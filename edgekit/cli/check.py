"""`edgekit check`: which runtimes can take a model, and each node that they cannot."""

from argparse import ArgumentParser
from typing import Final

from edgekit.cli.arguments import add_bindings, add_json

DESCRIPTION: Final = """\
Say, for each runtime of a device profile, which nodes of a model it cannot take, why, and what to do.
Exit code 0 where some runtime takes the model, 5 where none does."""
EXAMPLE: Final = "edgekit check model.onnx --device raspberry-pi-5"


def add_arguments(parser: ArgumentParser) -> None:
    """Flags of the command."""
    parser.add_argument("model", metavar="MODEL", help=".onnx, .pt2, file.py:factory or .tflite")
    parser.add_argument("--device", metavar="PROFILE", default="host", help="see `edgekit devices`; default: host")
    add_bindings(parser)
    add_json(parser)
