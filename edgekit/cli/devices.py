"""`edgekit devices`: the device profiles, and this machine's own."""

from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import Final

from edgekit.cli.arguments import add_json
from edgekit.cli.terminal import print_json, table
from edgekit.core.errors import ExitCode, UsageError
from edgekit.core.files import write_atomic

DESCRIPTION: Final = "List the device profiles that a bundle can be built for, or detect this machine's own."
EXAMPLE: Final = "edgekit devices --detect"


def add_arguments(parser: ArgumentParser) -> None:
    """Flags of the command."""
    parser.add_argument("--detect", action="store_true", help="print this machine's profile as TOML")
    parser.add_argument("-o", "--output", metavar="FILE.toml", type=Path, help="with --detect: write it to a file")
    add_json(parser)


def run(args: Namespace) -> ExitCode:
    """Print the profiles, or this machine's."""
    from edgekit.core.profile import PROFILES, detect_host, load_profile
    from edgekit.core.record import to_plain

    if args.detect:
        host = detect_host()
        if args.output is not None:
            write_atomic(args.output, [host.to_toml().encode()])
        if args.json:
            print_json(to_plain(host))
        elif args.output is None:
            print(host.to_toml(), end="")
        else:
            print(args.output)
        return ExitCode.DONE
    if args.output is not None:
        raise UsageError("--output", "goes with --detect only", "edgekit devices --detect -o local.toml")
    profiles = [load_profile(name) for name in PROFILES]
    if args.json:
        print_json([to_plain(p) for p in profiles])
        return ExitCode.DONE
    rows = [
        [p.name, p.arch, "yes" if p.has_vnni else "no", str(p.cores), f"{p.memory_mb} MB", ", ".join(p.runtimes)]
        for p in profiles
    ]
    print(table(["profile", "arch", "VNNI", "cores", "memory", "runtimes"], rows))
    return ExitCode.DONE
