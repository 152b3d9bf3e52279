"""Files read and written so that a failure has a name and never leaves half a file."""

import errno
import os
import stat
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, Final

from edgekit.core.errors import BadInput, EnvironmentFault

_FULL: Final = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


def read_input(path: Path, *, limit: int | None = None) -> bytes:
    """The content of a file that a user named.

    Raises `BadInput` where it is missing, a folder, or larger than `limit` bytes; `EnvironmentFault` where it cannot be
    read.
    """
    try:
        with open_input(path) as file:
            if limit is None:
                return file.read()
            raw = file.read(limit + 1)
    except OSError as error:
        raise input_fault(path, error) from error
    if len(raw) > limit:
        raise BadInput(str(path), f"larger than {limit} bytes", "give the file it should be")
    return raw


def open_input(path: Path) -> BinaryIO:
    """A file that a user named, open for reading; a pipe or device might never end and is refused. Raises as above."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)  # a pipe without a writer must not block
    except OSError as error:
        raise input_fault(path, error) from error
    except ValueError as error:  # a NUL in the name
        raise BadInput(repr(str(path))[:80], str(error), "check the path") from error
    kind = os.fstat(handle).st_mode
    if not stat.S_ISREG(kind):
        os.close(handle)
        if stat.S_ISDIR(kind):
            raise input_fault(path, IsADirectoryError())
        raise BadInput(str(path), "not a regular file", "copy it to a file first")
    return os.fdopen(handle, "rb")


def input_fault(path: Path, error: OSError) -> BadInput | EnvironmentFault:
    """The named error for a file that could not be opened or read."""
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return BadInput(str(path), "no such file", "check the path")
    if isinstance(error, IsADirectoryError):
        return BadInput(str(path), "a folder, where a file is wanted", "name the file in it")
    if error.errno == errno.ENAMETOOLONG:
        return BadInput(str(path)[:80] + "...", "the name is too long", "check the path")
    return EnvironmentFault(str(path), f"cannot be read: {error.strerror or error}", "check rights and the disk")


def write_atomic(path: Path, chunks: Iterable[bytes | memoryview]) -> None:
    """Write a file whole or not at all: beside its place, flushed to the disk, then renamed over it.

    Raises `EnvironmentFault` where the disk is full, the folder is missing or may not be written to. An interrupt or
    any other exception leaves the old file as it was.
    """
    import tempfile  # slow to import, and a device seldom writes

    path = Path(path)
    try:
        handle, name = tempfile.mkstemp(prefix=f".{path.name[:40]}.", suffix=".part", dir=path.parent)
    except OSError as error:
        raise _write_fault(path, error) from error
    try:
        with os.fdopen(handle, "wb") as file:
            for chunk in chunks:
                file.write(chunk)
            file.flush()
            os.fchmod(file.fileno(), 0o666 & ~_umask())  # mkstemp gives 0600; a bundle is read by other users
            os.fsync(file.fileno())
        os.replace(name, path)
        _sync_folder(path.parent)
    except OSError as error:
        raise _write_fault(path, error) from error
    finally:
        with suppress(OSError):
            os.unlink(name)


def _write_fault(path: Path, error: OSError) -> EnvironmentFault:
    if error.errno in _FULL:
        return EnvironmentFault(str(path), f"the disk is full ({error.strerror})", "free space, or write elsewhere")
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return EnvironmentFault(str(path), f"the folder {path.parent} does not exist", "create it")
    return EnvironmentFault(str(path), f"cannot be written: {error.strerror or error}", "check rights and the disk")


def _umask() -> int:
    """The process's umask, read without changing it where /proc allows (changing it would race with other threads)."""
    with suppress(OSError, ValueError, StopIteration), open("/proc/self/status") as status:
        return int(next(line for line in status if line.startswith("Umask:")).split()[1], 8)
    return 0o022


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno != errno.EINVAL:  # some network file systems have no fsync of folders
            raise
    finally:
        os.close(handle)
