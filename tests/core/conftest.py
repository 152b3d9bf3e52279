"""Where the measured models and pictures are: beside the checkout, or where EDGEKIT_SHARED says."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of test data and cases; skips where it is missing."""
    folder = Path(os.environ.get("EDGEKIT_SHARED", ROOT / "../shared")).resolve()
    if not (folder / "data").is_dir():
        pytest.skip("the shared test data is not here (EDGEKIT_SHARED)")
    return folder


@pytest.fixture(scope="session")
def fetched() -> Path:
    """The folder of models fetched from package registries; skips where it is missing."""
    folder = ROOT / ".data" / "models"
    if not folder.is_dir():
        pytest.skip("the fetched models are not here (.data/models)")
    return folder


@pytest.fixture(scope="session")
def case(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Makes the input of a shared case by its number and gives the folder it is in."""
    made: dict[str, Path] = {}

    def make(number: str) -> Path:
        if number not in made:
            found = next((shared / "cases").glob(f"{number}-*"), None)
            if found is None:
                pytest.skip(f"the case {number} is not here")
            made[number] = tmp_path_factory.mktemp(number)
            subprocess.run([sys.executable, found / "make.py", made[number]], check=True, timeout=120)
        return made[number]

    return make
