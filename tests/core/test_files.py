import errno
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from edgekit.core.errors import BadInput, EnvironmentFault
from edgekit.core.files import read_input, write_atomic


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_file_is_replaced_whole(tmp_path: Path) -> None:
    path = tmp_path / "out"
    write_atomic(path, [b"old"])
    write_atomic(path, [b"ne", memoryview(b"w")])
    assert path.read_bytes() == b"new"
    assert names(tmp_path) == ["out"]


def test_others_may_read_what_the_umask_lets_them(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        write_atomic(tmp_path / "out", [b"x"])
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "out").stat().st_mode) == 0o640


@pytest.mark.parametrize("fault", [KeyboardInterrupt(), ValueError("x"), BadInput("a", "b", "c")])
def test_an_interrupted_write_leaves_the_old_file_and_nothing_else(tmp_path: Path, fault: BaseException) -> None:
    def pieces() -> Iterator[bytes]:
        yield b"half"
        raise fault

    path = tmp_path / "out"
    path.write_bytes(b"old")
    with pytest.raises(type(fault)):
        write_atomic(path, pieces())
    assert path.read_bytes() == b"old"
    assert names(tmp_path) == ["out"]


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_a_full_disk_is_named_at_any_step(tmp_path: Path, call: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, call, full)
    with pytest.raises(EnvironmentFault, match="disk is full"):
        write_atomic(tmp_path / "out", [b"x"])
    assert names(tmp_path) == []


def test_a_disk_that_fills_up_while_writing_is_named(tmp_path: Path) -> None:
    """A limit on file size stands in for a small disk: the write fails in the middle, as on a full one."""
    script = (
        "import resource, signal, sys\n"
        "from pathlib import Path\n"
        "from edgekit.core.errors import EnvironmentFault\n"
        "from edgekit.core.files import write_atomic\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))\n"
        "try:\n    write_atomic(Path(sys.argv[1]), [bytes(60_000)] * 4)\n"
        "except EnvironmentFault as error:\n    assert 'full' in str(error), error\n"
        "else:\n    raise SystemExit('written')\n"
    )
    subprocess.run([sys.executable, "-c", script, tmp_path / "out"], check=True, timeout=60)
    assert names(tmp_path) == []


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentFault, match="does not exist"):
        write_atomic(tmp_path / "no" / "out", [b"x"])


def test_reading_names_what_is_wrong(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="no such file"):
        read_input(tmp_path / "missing")
    with pytest.raises(BadInput, match="a folder"):
        read_input(tmp_path)
    with pytest.raises(BadInput, match="too long"):
        read_input(tmp_path / ("x" * 5000))
    with pytest.raises(BadInput, match="null byte"):
        read_input(Path("a\0b"))
    with pytest.raises(BadInput, match="not a regular file"):
        read_input(Path("/dev/null"))
    (tmp_path / "big").write_bytes(b"12345")
    with pytest.raises(BadInput, match="larger than 4 bytes"):
        read_input(tmp_path / "big", limit=4)
    assert read_input(tmp_path / "big", limit=5) == b"12345"
