"""`edgekit bench`: a bundle's speed on this machine, INT8 against float, paired in one run."""

import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from edgekit.cli.arguments import add_bundle, add_json, add_threads
from edgekit.cli.terminal import Progress, print_json, table
from edgekit.core.errors import ExitCode

if TYPE_CHECKING:
    from edgekit.runtimes.bench import Bench

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


def run(args: Namespace) -> ExitCode:
    """Time, and print the ratios."""
    from edgekit.core.threads import usable_cpus
    from edgekit.runtimes.bench import bench

    progress = Progress()
    try:
        found = bench(args.bundle, threads=args.threads or usable_cpus(), reference=args.reference, progress=progress)
    finally:
        progress.close()
    for name, why in found.missing.items():
        print(f"edgekit: {name}: {why}", file=sys.stderr)
    if args.json:
        print_json({"runtimes": _document(found), "threads": found.threads, "cpu": found.cpu, "vnni": found.vnni})
        return ExitCode.DONE
    rows = [
        [name, f"{r.base_ms:.2f}", f"{r.other_ms:.2f}", f"{r.speedup:.2f}x", f"{r.low:.2f} to {r.high:.2f}"]
        for name, r in found.runtimes.items()
    ]
    for name, (precision, ms) in found.single.items():
        cells = [f"{ms:.2f}", "-"] if precision == "fp32" else ["-", f"{ms:.2f}"]
        rows.append([name, *cells, "-", "-"])
    print(table(["runtime", "FP32 ms", "INT8 ms", "speed-up", "95 %"], rows))
    print(f"{found.threads} thread(s), {found.cpu}, {'with' if found.vnni else 'without'} VNNI")
    return ExitCode.DONE


def _document(found: "Bench") -> dict[str, dict[str, float | None]]:
    both: dict[str, dict[str, float | None]] = {
        name: {"fp32_ms": r.base_ms, "int8_ms": r.other_ms, "speedup": r.speedup, "low": r.low, "high": r.high}
        for name, r in found.runtimes.items()
    }
    for name, (precision, ms) in found.single.items():
        both[name] = {
            "fp32_ms": ms if precision == "fp32" else None,
            "int8_ms": ms if precision == "int8" else None,
            "speedup": None,
            "low": None,
            "high": None,
        }
    return both
