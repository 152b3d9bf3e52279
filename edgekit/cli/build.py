"""`edgekit build`: model + calibration data + profile -> bundle."""

from argparse import ArgumentParser
from pathlib import Path
from typing import Final

from edgekit.cli.arguments import (
    PRECISIONS,
    RUNTIMES_HELP,
    add_bindings,
    add_json,
    positive,
    share_of_points,
)

DESCRIPTION: Final = """\
Turn a model and calibration data into a verified bundle for every runtime that takes the model.
Beside OUT.ekb it writes OUT.report/ (recipe and measurements) and OUT.reference/ (float model and artifacts).
MODEL may be a .toml file whose keys are the flags below; flags given beside it win."""
EXAMPLE: Final = "edgekit build model.onnx --calibration photos/ --preprocess torchvision -o model.ekb"


def add_arguments(parser: ArgumentParser) -> None:
    """Flags of the command."""
    parser.add_argument(
        "model", metavar="MODEL", help=".onnx, .pt2, file.py:factory, .tflite, or an edgekit.toml with these flags"
    )
    parser.add_argument("-o", "--output", metavar="OUT.ekb", type=Path, help="the bundle to write")
    given = parser.add_argument_group("what is given")
    given.add_argument("--calibration", metavar="PATH", help="folder of images, .npy, .npz, or file.py:function")
    given.add_argument("--preprocess", metavar="PRESET|FILE.toml", help="how an image becomes the input tensor")
    given.add_argument("--task", metavar="PRESET|FILE.toml", help="what the output means")
    given.add_argument("--classes", metavar="FILE", type=Path, help="class names, one per line")
    given.add_argument("--eval", metavar="DIR", type=Path, help="evaluation data; shares nothing with --calibration")
    given.add_argument("--labels", metavar="FILE", type=Path, help="CSV with columns file and label, or COCO json")
    given.add_argument("--samples", metavar="N", type=positive, help="use at most N calibration samples")
    given.add_argument(
        "--random-data", action="store_true", help="calibrate with random data: the result is no promise"
    )
    add_bindings(given_parser := parser)
    wanted = given_parser.add_argument_group("what is wanted")
    wanted.add_argument("--device", metavar="PROFILE", default="host", help="see `edgekit devices`; default: host")
    wanted.add_argument("--runtime", metavar="R", action="append", default=[], help=f"{RUNTIMES_HELP}; may be repeated")
    wanted.add_argument("--precision", choices=PRECISIONS, help="default: what measures best")
    wanted.add_argument("--input", choices=("float32", "uint8"), default="float32", help="dtype of the bundle's input")
    wanted.add_argument("--prefer", choices=("speed", "size", "accuracy"), default="speed", help="default: speed")
    wanted.add_argument(
        "--max-drop", metavar="POINTS", type=share_of_points, help="most that accuracy may fall; else exit 3"
    )
    how = parser.add_argument_group("how")
    how.add_argument("--observer", choices=("minmax", "percentile", "mse"), help="how ranges are chosen")
    how.add_argument("--granularity", choices=("channel", "tensor"), help="of weight scales; default: channel")
    how.add_argument("--recipe", metavar="FILE", type=Path, help="take every decision from this recipe.json")
    how.add_argument("--no-cache", action="store_true", help="compute every stage again")
    how.add_argument("--force", action="store_true", help="overwrite OUT.ekb")
    how.add_argument("--dry-run", action="store_true", help="print the plan, write nothing")
    add_json(parser)
