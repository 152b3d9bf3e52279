"""`edgekit devices`: the device profiles, and this machine's own."""

from argparse import ArgumentParser
from pathlib import Path
from typing import Final

from edgekit.cli.arguments import add_json

DESCRIPTION: Final = "List the device profiles that a bundle can be built for, or detect this machine's own."
EXAMPLE: Final = "edgekit devices --detect"


def add_arguments(parser: ArgumentParser) -> None:
    """Flags of the command."""
    parser.add_argument("--detect", action="store_true", help="print this machine's profile as TOML")
    parser.add_argument("-o", "--output", metavar="FILE.toml", type=Path, help="with --detect: write it to a file")
    add_json(parser)
