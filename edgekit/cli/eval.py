"""`edgekit eval`: a bundle's quality on labelled data, and its agreement with the float model."""

from argparse import ArgumentParser
from pathlib import Path
from typing import Final

from edgekit.cli.arguments import PRECISIONS, add_bundle, add_json, add_runtime, add_threads

DESCRIPTION: Final = """\
Measure top-1 (or mAP 0.50:0.95 for detection) on labelled data, and agreement and mean KL divergence of softmax
against the FP32 reference that `build` wrote beside the bundle."""
EXAMPLE: Final = "edgekit eval model.ekb --data photos/ --labels labels.csv --json"


def add_arguments(parser: ArgumentParser) -> None:
    """Flags of the command."""
    add_bundle(parser)
    parser.add_argument("--data", metavar="DIR", type=Path, required=True, help="folder of images")
    parser.add_argument(
        "--labels", metavar="FILE", type=Path, required=True, help="CSV with columns file and label, or COCO json"
    )
    add_runtime(parser, default="the first that the bundle prefers and this machine has")
    parser.add_argument("--precision", choices=PRECISIONS, help="default: the one that the bundle prefers")
    parser.add_argument("--reference", metavar="DIR", type=Path, help="default: OUT.reference/ beside the bundle")
    add_threads(parser)
    add_json(parser)
