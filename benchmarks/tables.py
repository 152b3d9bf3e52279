"""RESULTS.md: every figure that is kept, against its bar. PEERS.md: who competes, side by side.

Both are written by the runner and never edited by hand.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from benchmarks.bench import Figure
from benchmarks.records import Record

FOLDER: Final = Path(__file__).parent
NOTICE: Final = "<!-- written by `python -m benchmarks run`; edit the benchmarks instead -->\n"
_SIGNS: Final = {"lower": "≤", "higher": "≥"}


def write_pages(records: Sequence[Record]) -> None:
    """RESULTS.md, and the pages of the benchmarks that have one of their own."""
    (FOLDER / "RESULTS.md").write_text(results(records), encoding="utf-8")
    for name, (file, page) in PAGES.items():
        if mine := [each for each in records if each.benchmark == name]:
            (FOLDER / file).write_text(page(mine), encoding="utf-8")


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
        if f.bar is not None or record.benchmark not in PAGES
    ]
    if record.benchmark in PAGES:
        yield f"All figures: [{PAGES[record.benchmark][0]}]({PAGES[record.benchmark][0]})."
        yield ""
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


def peers(records: Sequence[Record]) -> str:
    """One table per CPU class and model: a row per runtime and quantizer."""
    lines = [NOTICE, "# edgekit and other quantizers", ""]
    for record in records:
        cells: dict[str, dict[tuple[str, str], dict[str, Figure]]] = {}
        for figure in record.figures:
            model, runtime, who, what = figure.name.split("/")
            cells.setdefault(model, {}).setdefault((runtime, who), {})[what] = figure
        for model, rows in cells.items():
            lines += [f"## {model} on {record.cpu_class}", "", _circumstances(record), ""]
            body = [
                (runtime, who, *(_cell(found, what) for what in _COLUMNS)) for (runtime, who), found in rows.items()
            ]
            lines += [*table(("runtime", "by", *_COLUMNS.values()), body), ""]
        lines += [f"Skipped: {each.name}: {each.why}.\n" for each in record.skipped]
    return "\n".join(lines)


def _circumstances(record: Record) -> str:
    return f"Commit {record.commit}, {record.cpu}, one thread, the same photos and the same run for all."


_COLUMNS: Final[Mapping[str, str]] = {
    "kl": "mean KL to float",
    "agreement": "agreement",
    "top1": "top-1 %",
    "ms": "ms",
    "kl-over-best-peer": "KL over the best of theirs (≤ 0.9)",
    "speed-over-fastest-peer": "speed over the fastest of theirs (≥ 0.95)",
}


def _cell(found: Mapping[str, Figure], what: str) -> str:
    figure = found.get(what)
    if figure is None:
        return ""
    value = f"{figure.value:.4f}" if what in ("kl", "agreement") else f"{figure.value:.2f}"
    return f"**{value}**" if figure.is_met is False else value


PAGES: Final[Mapping[str, tuple[str, Callable[[Sequence[Record]], str]]]] = {"peers": ("PEERS.md", peers)}
