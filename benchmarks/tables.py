"""RESULTS.md: every figure that is kept, against its bar. Written by the runner; never edited by hand."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from benchmarks.bench import Figure
from benchmarks.records import Record

RESULTS: Final = Path(__file__).with_name("RESULTS.md")
NOTICE: Final = "<!-- written by `python -m benchmarks run`; edit the benchmarks instead -->\n"
_SIGNS: Final = {"lower": "≤", "higher": "≥"}


def results(records: Sequence[Record]) -> str:
    """The page: what was missed first, then each benchmark per CPU class."""
    judged = [(r, f) for r in records for f in r.figures if f.is_met is not None]
    missed = [(r, f) for r, f in judged if not f.is_met]
    lines = [
        NOTICE,
        "# Results",
        "",
        f"{len(judged) - len(missed)} of {len(judged)} bars are met. `python -m benchmarks list` says what each "
        "benchmark measures; `python -m benchmarks run NAME` measures again and rewrites its rows.",
        "",
    ]
    if missed:
        rows = [(r.benchmark, f.name, number(f), bar(f), r.cpu_class, r.commit, f.note) for r, f in missed]
        lines += ["## Missed", "", *table(("benchmark", "figure", "is", "bar", "CPU", "commit", "note"), rows), ""]
    for record in records:
        lines += [*_section(record), ""]
    return "\n".join(lines)


def _section(record: Record) -> Iterator[str]:
    versions = ", ".join(f"{name} {version}" for name, version in record.versions.items())
    yield f"## {record.benchmark} on {record.cpu_class}"
    yield ""
    yield (
        f"{record.about} Commit {record.commit}, {record.cpu}, {record.threads} thread(s), load average "
        f"{record.load_average[0]} to {record.load_average[1]}, {record.cpu_s:.0f} CPU-s. {versions}."
    )
    yield ""
    rows = [
        (f.name, number(f), bar(f), {None: "", True: "yes", False: "**no**"}[f.is_met], spread(f), f.note)
        for f in record.figures
    ]
    yield from table(("figure", "is", "bar", "met", "spread", "note"), rows)
    for skipped in record.skipped:
        yield ""
        yield f"Skipped: {skipped.name}: {skipped.why}."


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Markdown."""
    lines = [header, ["---"] * len(header), *rows]
    return ["| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines]


def number(figure: Figure) -> str:
    """Value and unit, as short as four digits allow."""
    if figure.unit == "yes":
        return "yes" if figure.value else "no"
    return f"{figure.value:.4g} {figure.unit}"


def bar(figure: Figure) -> str:
    """The bar with its direction; empty where there is none."""
    if figure.bar is None:
        return ""
    return "yes" if figure.unit == "yes" else f"{_SIGNS[figure.better]} {figure.bar:.4g}"


def spread(figure: Figure) -> str:
    """Its bounds; empty where there are none."""
    return "" if figure.low is None or figure.high is None else f"{figure.low:.4g} to {figure.high:.4g}"
