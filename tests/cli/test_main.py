"""The command's outcomes: exit codes, the form of errors, logs of faults, speed of the first answer."""

import errno
import json
import os
import signal
import subprocess
import sys
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from pathlib import Path

import pytest

from edgekit import __version__
from edgekit.cli import main as cli
from edgekit.core.errors import BadInput, EdgekitError, ExitCode, Refusal, RuntimeRefuses


class Scripted:
    """A command that does what the test says."""

    DESCRIPTION = "Scripted."
    EXAMPLE = "edgekit check x"

    def __init__(self, action: Callable[[], ExitCode]) -> None:
        self.action = action

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--json", action="store_true")
        parser.add_argument("--runtime")

    def run(self, _args: Namespace) -> ExitCode:
        return self.action()


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., int]:
    """Run `edgekit check` with a body of the test's own."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))

    def run(action: Callable[[], ExitCode], *arguments: str) -> int:
        monkeypatch.setattr(cli, "load_command", lambda _name: Scripted(action))
        return cli.main(["check", *arguments])

    return run


def fails_with(error: BaseException) -> Callable[[], ExitCode]:
    def action() -> ExitCode:
        raise error

    return action


def edgekit(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", "import sys; from edgekit.cli.main import main; sys.exit(main())", *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
        check=False,
    )


def test_help_names_every_command_and_every_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--help"]) == 0
    printed = capsys.readouterr().out
    assert all(name in printed for name in cli.COMMANDS)
    assert all(f"\n  {code} " in printed for code in ExitCode)


def test_version_is_the_package_s(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out == f"edgekit {__version__}\n"


def test_help_answers_at_once_and_imports_nothing_heavy() -> None:
    script = (
        "import sys, time; from edgekit.cli.main import main; main(['--help']); "
        "heavy = {'numpy', 'PIL', 'onnx', 'onnxruntime', 'openvino'} & sys.modules.keys(); "
        "print(time.process_time(), sorted(heavy))"
    )
    spent = min(_spent(script) for _ in range(3))
    assert spent <= 0.3


def _spent(script: str) -> float:
    last = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split(
        "\n"
    )[-2]
    seconds, heavy = last.split(" ", 1)
    assert heavy == "[]"
    return float(seconds)


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_every_command_has_help_with_an_example_and_imports_nothing_heavy_for_it(name: str) -> None:
    script = (
        f"import sys; from edgekit.cli.main import main; code = main(['{name}', '--help']); "
        "print(sorted({'onnx', 'onnxruntime', 'openvino', 'ai_edge_litert'} & sys.modules.keys())); sys.exit(code)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert f"example:\n  edgekit {name} " in done.stdout
    assert done.stdout.endswith("[]\n")


def test_a_misspelt_command_names_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["biuld"]) == ExitCode.USAGE
    assert capsys.readouterr().err == "edgekit: 'biuld': no such command\n  try: edgekit build\n"


def test_a_misspelt_flag_names_the_nearest(command: Callable[..., int], capsys: pytest.CaptureFixture[str]) -> None:
    assert command(lambda: ExitCode.DONE, "--runtim", "x") == ExitCode.USAGE
    assert "try: --runtime" in capsys.readouterr().err


@pytest.mark.parametrize("kind", EdgekitError.__subclasses__())
def test_an_error_is_one_line_a_remedy_and_its_exit_code(
    kind: type[EdgekitError], command: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    if kind is RuntimeRefuses:
        return
    assert command(fails_with(kind("a model", "is\n  cut off", "copy it again"))) == kind.exit_code
    captured = capsys.readouterr()
    assert captured.err == "edgekit: a model: is cut off\n  try: copy it again\n"
    assert captured.out == ""


def test_an_error_as_json_goes_to_standard_error(
    command: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(fails_with(BadInput("m.onnx", "is cut off", "copy it again")), "--json") == 4
    captured = capsys.readouterr()
    assert captured.out == ""
    assert json.loads(captured.err)["error"] == {
        "kind": "BadInput",
        "exit_code": 4,
        "what": "m.onnx",
        "why": "is cut off",
        "remedy": "copy it again",
    }


def test_refusals_as_json_name_every_node(command: Callable[..., int], capsys: pytest.CaptureFixture[str]) -> None:
    refusals = [Refusal("litert", f"n{i}", "Foo", "unknown", "remove it") for i in range(2)]
    assert command(fails_with(RuntimeRefuses(refusals)), "--json") == 5
    assert [r["node"] for r in json.loads(capsys.readouterr().err)["error"]["refusals"]] == ["n0", "n1"]


def test_a_bug_leaves_its_traceback_in_a_log_that_is_named(
    command: Callable[..., int], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert command(fails_with(ZeroDivisionError("division by zero"))) == ExitCode.FAULT
    captured = capsys.readouterr()
    (log,) = (tmp_path / "state/edgekit/log").iterdir()
    assert str(log) in captured.err
    assert "Traceback" not in captured.err
    assert "ZeroDivisionError" in log.read_text()


def test_a_bug_is_reported_where_no_log_can_be_written(
    command: Callable[..., int], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "state").write_text("a file where a folder should be")
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path / "state" / "nowhere"))
    assert command(fails_with(KeyError("x"))) == ExitCode.FAULT
    assert "fault of edgekit's own: KeyError" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("number", "word"), [(errno.ENOSPC, "space"), (errno.EACCES, "rights"), (errno.EROFS, "rights")]
)
def test_a_full_disk_or_missing_rights_are_the_environment_s(
    number: int, word: str, command: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(fails_with(OSError(number, os.strerror(number), "out.ekb"))) == ExitCode.ENVIRONMENT
    assert word in capsys.readouterr().err


def test_an_interrupt_ends_with_130(command: Callable[..., int], capsys: pytest.CaptureFixture[str]) -> None:
    assert command(fails_with(KeyboardInterrupt())) == ExitCode.INTERRUPTED
    assert capsys.readouterr().err == "edgekit: interrupted; nothing half-written\n"


def test_sigterm_unwinds_like_an_interrupt(command: Callable[..., int], capsys: pytest.CaptureFixture[str]) -> None:
    cleaned = []

    def action() -> ExitCode:
        try:
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(5)
        finally:
            cleaned.append(True)
        return ExitCode.DONE

    assert command(action) == ExitCode.INTERRUPTED
    assert cleaned
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
    assert "interrupted" in capsys.readouterr().err


def test_a_reader_that_goes_away_leaves_no_traceback() -> None:
    script = f"{sys.executable} -c 'import sys; from edgekit.cli.main import main; sys.exit(main())' --help"
    piped = f"set -o pipefail; ({script}) | true"
    buffered = {key: value for key, value in os.environ.items() if key != "PYTHONUNBUFFERED"}
    done = subprocess.run(["bash", "-c", piped], capture_output=True, text=True, check=False, env=buffered)
    assert done.stderr == ""
    assert done.returncode == 0


def test_a_usage_error_reaches_the_shell_as_exit_code_2() -> None:
    done = edgekit("inspect")
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert "BUNDLE" in done.stderr
