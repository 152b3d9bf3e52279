"""The example of a runtime of one's own runs as it stands, and keeps the contract."""

import subprocess
import sys
from pathlib import Path

EXAMPLE = Path(__file__).parents[2] / "examples/third_party_runtime"


def test_the_example_keeps_the_contract() -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(EXAMPLE)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, cwd=EXAMPLE)
    assert ended.returncode == 0, ended.stdout
    assert " passed" in ended.stdout
    assert "skipped" not in ended.stdout
