"""`edgekit inspect`: what is in a bundle."""

from argparse import ArgumentParser
from typing import Final

from edgekit.cli.arguments import add_bundle, add_json

DESCRIPTION: Final = (
    "Show a bundle's manifest: artifacts, sizes, hashes, integer share, errors on the golden samples, refusals."
)
EXAMPLE: Final = "edgekit inspect model.ekb"


def add_arguments(parser: ArgumentParser) -> None:
    """Flags of the command."""
    add_bundle(parser)
    add_json(parser)
