"""The runner.

    python -m benchmarks list
    python -m benchmarks run [NAME …] [--quick] [--json FILE]
    python -m benchmarks accept [NAME …]

`run` without names runs all. A full run is kept in `records/`, and RESULTS.md is written again; `accept` makes what is
kept the baseline of later runs. `--quick` tries a benchmark out and keeps nothing. Exit code 3: a bar was missed, or a
figure is worse than its baseline.
"""

import json
import sys
import time
from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from collections.abc import Sequence
from pathlib import Path
from resource import RUSAGE_CHILDREN, RUSAGE_SELF, getrusage
from typing import Final

from benchmarks import baseline, machine, tables
from benchmarks.bench import Benchmark, Figure, benchmarks
from benchmarks.records import Record, kept_records
from benchmarks.world import World

WORK: Final = Path(__file__).parent / ".work"
_MISSED: Final = 3


def main(arguments: Sequence[str]) -> int:
    """Run a verb; returns the exit code."""
    parser = ArgumentParser("python -m benchmarks", description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    verbs.add_parser("list")
    run = verbs.add_parser("run")
    run.add_argument("names", nargs="*", metavar="NAME")
    run.add_argument("--quick", action="store_true")
    run.add_argument("--json", type=Path, metavar="FILE")
    accept = verbs.add_parser("accept")
    accept.add_argument("names", nargs="*", metavar="NAME")
    options = parser.parse_args(arguments)
    known = benchmarks()
    if unknown := set(getattr(options, "names", ())) - set(known):
        parser.error(f"no benchmark is named {', '.join(sorted(unknown))}; there are {', '.join(known)}")
    if options.verb == "list":
        print("\n".join(f"{each.name:<12} {each.about}" for each in known.values()))
        return 0
    if options.verb == "accept":
        baseline.accept(r for r in kept_records() if not options.names or r.benchmark in options.names)
        return 0
    return run_all([known[name] for name in options.names or known], options)


def run_all(chosen: Sequence[Benchmark], options: Namespace) -> int:
    """Measure, keep, compare, print."""
    world = World(options.quick, WORK, lambda text: print(f"  … {text}", file=sys.stderr, flush=True))
    records, code = [], 0
    for benchmark in chosen:
        print(f"{benchmark.name}: {benchmark.about}", flush=True)
        record = measured(benchmark, world)
        records.append(record)
        for loss in () if world.is_quick else baseline.worse(record):
            print(f"  worse than the baseline: {loss.figure} {loss.old:.4g} -> {loss.new:.4g} ({loss.ratio:.2f}x)")
            code = _MISSED
        if any(figure.is_met is False for figure in record.figures):
            code = _MISSED
        if not world.is_quick:
            record.keep()
            tables.write_pages(kept_records())
    if options.json:
        options.json.write_text(json.dumps([r.to_plain() for r in records], indent=1) + "\n", encoding="utf-8")
    return code


def measured(benchmark: Benchmark, world: World) -> Record:
    """One run with its circumstances."""
    load, began, cpu = machine.load_average(), time.monotonic(), _cpu_s()
    figures, skipped = [], []
    for outcome in benchmark.outcomes(world):
        if isinstance(outcome, Figure):
            figures.append(outcome)
            met = {None: "", True: "met", False: "MISSED"}[outcome.is_met]
            cells = (outcome.name, tables.number(outcome), tables.bar(outcome), met, tables.spread(outcome))
            print("  {:<58} {:>16}  {:<9} {:<6} {}".format(*cells), outcome.note, flush=True)
        else:
            skipped.append(outcome)
            print(f"  skipped {outcome.name}: {outcome.why}", flush=True)
    return Record(
        benchmark=benchmark.name,
        about=benchmark.about,
        is_quick=world.is_quick,
        commit=machine.commit(),
        cpu_class=machine.cpu_class(world.host),
        cpu=machine.cpu_model(),
        versions=machine.versions(),
        threads=benchmark.threads,
        load_average=(load, machine.load_average()),
        wall_s=round(time.monotonic() - began, 1),
        cpu_s=round(_cpu_s() - cpu, 1),
        figures=tuple(figures),
        skipped=tuple(skipped),
    )


def _cpu_s() -> float:
    return sum(usage.ru_utime + usage.ru_stime for usage in map(getrusage, (RUSAGE_SELF, RUSAGE_CHILDREN)))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
