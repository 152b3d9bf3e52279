"""`edgekit bench`: a bundle's speed on this machine, INT8 against float, paired in one run."""

from argparse import ArgumentParser
from pathlib import Path
from typing import Final

from edgekit.cli.arguments import add_bundle, add_json, add_threads

DESCRIPTION: Final = """\
Time every runtime of a bundle that this machine has: median of INT8 and float, their paired ratio and its 95 % bounds.
The float side is the fastest float file known for that runtime: in the bundle, or in OUT.reference/ beside it."""
EXAMPLE: Final = "edgekit bench model.ekb --threads 1"


def add_arguments(parser: ArgumentParser) -> None:
    """Flags of the command."""
    add_bundle(parser)
    add_threads(parser)
    parser.add_argument("--reference", metavar="DIR", type=Path, help="default: OUT.reference/ beside the bundle")
    add_json(parser)
