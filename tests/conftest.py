"""Every test run has a state folder of its own: it sees nothing of earlier runs and touches nothing of the user's."""

import os
import shutil
import tempfile

import pytest

_FOLDER = tempfile.mkdtemp(prefix="edgekit-tests-")


def pytest_configure(config: pytest.Config) -> None:
    """Before any test module is imported, so that child processes see it too."""
    os.environ["XDG_STATE_HOME"] = _FOLDER


def pytest_unconfigure(config: pytest.Config) -> None:
    """Leave nothing behind."""
    shutil.rmtree(_FOLDER, ignore_errors=True)
