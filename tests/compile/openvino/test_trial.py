"""A graph that crashes the engine takes only its own process with it."""

import sys

import pytest

from edgekit.compile.openvino import trial


@pytest.mark.parametrize(
    ("program", "words"),
    [
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", "crashes (signal 11)"),
        ("raise ValueError('no such thing')", "no such thing"),
    ],
)
def test_a_crash_is_a_refusal_of_the_graph(monkeypatch: pytest.MonkeyPatch, program: str, words: str) -> None:
    monkeypatch.setattr(trial, "_COMMAND", (sys.executable, "-c", program))
    (refusal,) = trial.compiled_apart(b"")
    assert words in refusal.reason
    assert refusal.runtime == "openvino"


def test_a_process_that_hangs_is_a_refusal_of_the_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trial, "_COMMAND", (sys.executable, "-c", "import time; time.sleep(60)"))
    (refusal,) = trial.compiled_apart(b"", timeout_s=0.3)
    assert "did not end" in refusal.reason
