"""The stored baseline: each figure of a CPU class as it was when someone last accepted it, compared as a ratio.

A figure is worse when it moved the wrong way by more than the noise of its unit. Absolute times are compared only with
those of the same processor; milliseconds on a shared machine
and top-1 of some hundred photos are not compared at all: ratios, KL and agreement say more.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks.bench import Figure
from benchmarks.records import Record

FILE: Final = Path(__file__).with_name("baseline.json")
NOISE: Final[Mapping[str, float]] = {  # unit -> how far a ratio may be from 1
    "nats": 0.03,
    "share": 0.01,
    "x": 0.10,
    "CPU-s": 0.15,
    "s": 0.25,
    "MiB": 0.05,
    "us": 0.5,
    "operators": 0.0,
    "yes": 0.0,
}
ABSOLUTE: Final = frozenset({"CPU-s", "s", "us", "MiB"})

Stored = dict[str, dict[str, object]]


@dataclass(frozen=True, slots=True)
class Worse:
    """A figure that fell behind its baseline; `ratio` is new / old."""

    figure: str
    old: float
    new: float
    ratio: float


def worse(record: Record) -> tuple[Worse, ...]:
    """What this run lost against the baseline of its CPU class."""
    stored = _read().get(record.cpu_class, {}).get(record.benchmark)
    if not isinstance(stored, dict):
        return ()
    is_same_cpu = stored["cpu"] == record.cpu
    found = []
    for figure in record.figures:
        old = stored["figures"].get(figure.name)
        if old is None or figure.unit not in NOISE or (figure.unit in ABSOLUTE and not is_same_cpu):
            continue
        ratio = figure.value / old if old else 1.0 + figure.value
        loss = ratio - 1 if figure.better == "lower" else 1 - ratio
        if loss > NOISE[figure.unit]:
            found.append(Worse(figure.name, old, figure.value, ratio))
    return tuple(found)


def accept(records: Iterable[Record]) -> None:
    """Make these records the baseline of their benchmarks."""
    stored = _read()
    for record in records:
        stored.setdefault(record.cpu_class, {})[record.benchmark] = {
            "commit": record.commit,
            "cpu": record.cpu,
            "figures": {figure.name: _short(figure) for figure in record.figures if figure.unit in NOISE},
        }
    FILE.write_text(json.dumps(stored, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def _short(figure: Figure) -> float:
    return float(f"{figure.value:.4g}")


def _read() -> Stored:
    return json.loads(FILE.read_text(encoding="utf-8")) if FILE.exists() else {}
