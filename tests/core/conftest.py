"""Where the measured models and pictures are: beside the checkout, or where EDGEKIT_SHARED says."""

import os
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
