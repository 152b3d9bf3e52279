"""The runner of the regression suite: bars, records, baseline, pages. Figures are made up; nothing is measured."""

import json
import math
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("benchmarks", reason="benchmarks/ is part of a checkout, not of the sdist")

from benchmarks import __main__ as runner
from benchmarks import baseline, records, tables
from benchmarks.bench import Benchmark, Figure, Outcome, Skipped, benchmarks
from benchmarks.records import Record
from benchmarks.world import Missing, World


def record(*figures: Figure, cpu: str = "a CPU", benchmark: str = "made-up") -> Record:
    return Record(
        benchmark=benchmark,
        about="Made up.",
        is_quick=False,
        commit="abc1234",
        cpu_class="VNNI",
        cpu=cpu,
        versions={"numpy": "2"},
        threads=1,
        load_average=(0.1, 0.2),
        wall_s=1.0,
        cpu_s=1.0,
        figures=figures,
        skipped=(Skipped("that", "it is not here"),),
    )


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(baseline, "FILE", tmp_path / "baseline.json")
    monkeypatch.setattr(records, "FOLDER", tmp_path / "records")
    monkeypatch.setattr(tables, "FOLDER", tmp_path)


@pytest.mark.parametrize(
    ("value", "better", "bar", "met"),
    [
        (1.0, "lower", 1.0, True),
        (1.1, "lower", 1.0, False),
        (1.0, "higher", 1.0, True),
        (0.9, "higher", 1.0, False),
        (math.nan, "higher", 1.0, False),
        (math.nan, "lower", 1.0, False),
        (5.0, "lower", None, None),
    ],
)
def test_a_figure_meets_its_bar_in_its_own_direction(
    value: float, better: str, bar: float | None, met: bool | None
) -> None:
    assert Figure("f", value, "x", better, bar).is_met is met  # type: ignore[arg-type]


def test_every_benchmark_of_the_folder_is_found_and_says_what_it_measures() -> None:
    found = benchmarks()
    assert {"quality", "peers", "speed", "share", "build_cost", "overhead"} <= set(found)
    assert all(each.about.endswith(".") for each in found.values())


def test_a_record_survives_its_file() -> None:
    kept = record(Figure("f", 1.5, "x", "higher", 1.0, 1.4, 1.6, "a note"), Figure("g", 2.0, "nats", "lower"))
    kept.keep()
    (read,) = records.kept_records()
    assert json.loads(json.dumps(read.to_plain())) == json.loads(json.dumps(kept.to_plain()))
    assert read.figures == kept.figures


def test_a_loss_beyond_the_units_noise_is_named_and_a_gain_is_not() -> None:
    baseline.accept([record(Figure("kl", 0.010, "nats", "lower"), Figure("speed", 2.0, "x", "higher"))])
    assert baseline.worse(record(Figure("kl", 0.0102, "nats", "lower"), Figure("speed", 2.5, "x", "higher"))) == ()
    (loss,) = baseline.worse(record(Figure("kl", 0.012, "nats", "lower"), Figure("speed", 1.9, "x", "higher")))
    assert loss.figure == "kl"
    assert loss.ratio == pytest.approx(1.2)


def test_absolute_times_of_another_processor_are_not_compared() -> None:
    baseline.accept([record(Figure("build", 10.0, "CPU-s", "lower"))])
    slower = Figure("build", 30.0, "CPU-s", "lower")
    assert baseline.worse(record(slower, cpu="another CPU")) == ()
    assert len(baseline.worse(record(slower))) == 1


def test_accepting_one_benchmark_leaves_the_baseline_of_others() -> None:
    baseline.accept([record(Figure("f", 1.0, "x", "higher"), benchmark="one")])
    baseline.accept([record(Figure("f", 3.0, "x", "higher"), benchmark="two")])
    assert len(baseline.worse(record(Figure("f", 0.5, "x", "higher"), benchmark="one"))) == 1


def test_the_page_begins_with_what_was_missed(tmp_path: Path) -> None:
    tables.write_pages([record(Figure("good", 2.0, "x", "higher", 1.0), Figure("bad", 0.5, "x", "higher", 1.0))])
    page = (tmp_path / "RESULTS.md").read_text(encoding="utf-8")
    assert "1 of 2 bars are met" in page
    assert page.index("## Missed") < page.index("| made-up | bad |") < page.index("| good |")
    assert "Skipped: that: it is not here." in page


def test_peers_have_a_page_with_a_row_each(tmp_path: Path) -> None:
    figures = [
        Figure("net/litert/ours/kl", 0.01, "nats", "lower"),
        Figure("net/litert/ours/kl-over-best-peer", 0.5, "x", "lower", 0.9),
        Figure("net/litert/theirs/kl", 0.02, "nats", "lower"),
    ]
    tables.write_pages([record(*figures, benchmark="peers")])
    assert "| litert | ours | 0.0100 |  |  |  | 0.50 |  |" in (tmp_path / "PEERS.md").read_text(encoding="utf-8")
    assert "theirs" not in (tmp_path / "RESULTS.md").read_text(encoding="utf-8")


def test_what_is_missing_is_skipped_by_name_and_what_was_measured_before_stays(tmp_path: Path) -> None:
    def measure(world: World) -> Iterator[Outcome]:
        yield Figure("f", 1.0, "x", "higher")
        raise Missing("no photos here")

    made = runner.measured(Benchmark("made-up", "Made up.", 1, measure), World(True, tmp_path))
    assert [each.name for each in made.figures] == ["f"]
    assert made.skipped == (Skipped("made-up", "no photos here"),)


def test_an_unknown_benchmark_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        runner.main(["run", "nothing"])
    assert ended.value.code == 2
    assert "no benchmark is named nothing" in capsys.readouterr().err
