"""Records of runs: one JSON file per benchmark and CPU class, the last full run of each.

They hold what RESULTS.md is made from, so that a run of one benchmark leaves the rows of the others alone.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from benchmarks.bench import Figure, Skipped

FOLDER: Final = Path(__file__).parent / "records"


@dataclass(frozen=True, slots=True)
class Record:
    """One run of one benchmark. `load_average` before and after; `cpu_s` of this process and the ones it started."""

    benchmark: str
    about: str
    is_quick: bool
    commit: str
    cpu_class: str
    cpu: str
    versions: Mapping[str, str]
    threads: int
    load_average: tuple[float, float]
    wall_s: float
    cpu_s: float
    figures: tuple[Figure, ...]
    skipped: tuple[Skipped, ...]

    def to_plain(self) -> dict[str, object]:
        """For JSON; `is_met` is written out for readers of the file."""
        plain = asdict(self)
        plain["figures"] = [{**asdict(each), "is_met": each.is_met} for each in self.figures]
        return plain

    def keep(self) -> None:
        """Write it over the last one of its benchmark and CPU class."""
        folder = FOLDER / self.cpu_class.replace(" ", "-").lower()
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{self.benchmark}.json").write_text(json.dumps(self.to_plain(), indent=1) + "\n", encoding="utf-8")


def kept_records() -> tuple[Record, ...]:
    """Every record that is kept, in the order of their paths."""
    return tuple(_record(json.loads(path.read_text(encoding="utf-8"))) for path in sorted(FOLDER.glob("*/*.json")))


def _record(plain: dict[str, object]) -> Record:
    figures, skipped = plain.pop("figures"), plain.pop("skipped")
    assert isinstance(figures, Sequence)
    assert isinstance(skipped, Sequence)
    return Record(
        **plain,  # type: ignore[arg-type]  # written by `to_plain`
        figures=tuple(Figure(**{k: v for k, v in each.items() if k != "is_met"}) for each in figures),
        skipped=tuple(Skipped(**each) for each in skipped),
    )
