"""`edgekit export`: a bundle's artifact as the plain files of its runtime."""

from argparse import ArgumentParser
from pathlib import Path
from typing import Final

from edgekit.cli.arguments import add_bundle, add_json, add_precision

DESCRIPTION: Final = (
    "Write the plain model files of one runtime (model.onnx; model.xml and model.bin; model.tflite) to a folder."
)
EXAMPLE: Final = "edgekit export model.ekb --runtime litert -o plain/"


def add_arguments(parser: ArgumentParser) -> None:
    """Flags of the command."""
    add_bundle(parser)
    parser.add_argument("--runtime", metavar="R", required=True, help="whose files")
    add_precision(parser)
    parser.add_argument("-o", "--output", metavar="DIR", type=Path, required=True, help="folder to write to")
    parser.add_argument("--force", action="store_true", help="overwrite files in DIR")
    add_json(parser)
