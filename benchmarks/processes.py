"""Commands as processes of their own: CPU time, wall time and peak memory of each with what it started."""

import os
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchmarks.world import ROOT


@dataclass(frozen=True, slots=True)
class Cost:
    """`peak_mib`: the largest resident set of the process or one of its children (getrusage(2))."""

    cpu_s: float
    wall_s: float
    peak_mib: float


class Failed(Exception):
    """A measured command ended with another code than 0."""


def cost(command: Sequence[str], environment: Mapping[str, str] | None = None) -> Cost:
    """Run it in the repository's root, with more in its environment. Raises `Failed` with the last line printed."""
    with tempfile.TemporaryFile() as output:
        start = time.perf_counter()
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            env={**os.environ, **(environment or {})},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
        _, status, usage = os.wait4(process.pid, 0)
        wall = time.perf_counter() - start
        process.returncode = os.waitstatus_to_exitcode(status)  # it has been waited for
        if process.returncode:
            output.seek(0)
            lines = output.read().decode("utf-8", "replace").strip().splitlines() or ["it printed nothing"]
            raise Failed(f"exit code {process.returncode}: {lines[-1]}")
    return Cost(usage.ru_utime + usage.ru_stime, wall, usage.ru_maxrss / 1024)
