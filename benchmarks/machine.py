"""The circumstances of a measurement: CPU, versions, commit, and how busy the machine was with other things."""

import os
import subprocess
import time
from importlib import metadata
from pathlib import Path
from typing import Final

from benchmarks.world import CODE, ROOT
from edgekit.core.profile import DeviceProfile
from edgekit.runtimes.bench import cpu_name

DISTRIBUTIONS: Final = ("edgekit-sdk", "numpy", "onnx", "onnx-ir", "onnxruntime", "openvino", "ai-edge-litert")
_QUIET_SHARE: Final = 0.1
_PROBE_S: Final = 1.0


def cpu_class(host: DeviceProfile) -> str:
    """What figures depend on most: "VNNI" and "no VNNI" on x86, else the architecture."""
    if host.arch != "x86-64":
        return host.arch
    return "VNNI" if host.has_vnni else "no VNNI"


def cpu_model() -> str:
    """The processor's name."""
    return cpu_name()


def commit() -> str:
    """The short hash of the checkout, with + where its code was edited since; "unknown" outside a checkout."""
    try:
        head = _git("rev-parse", "--short", "HEAD")
        edited = _git("status", "--porcelain", "--untracked-files=no", "--", *CODE)
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return head + ("+" if edited else "")


def _git(*words: str) -> str:
    done = subprocess.run(["git", *words], cwd=ROOT, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def versions() -> dict[str, str]:
    """Of what the figures were made with."""
    found = {}
    for name in DISTRIBUTIONS:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def load_average() -> float:
    """Over the last minute."""
    return round(os.getloadavg()[0], 2)


def wait_until_quiet(limit_s: float) -> float:
    """Wait until the CPUs are nearly idle, at most `limit_s`; returns the busy share (0..1) that was seen last.

    A timing that shares its core with other work says nothing; the share goes into the figure's note.
    """
    end = time.monotonic() + limit_s
    while True:
        share = _busy_share()
        if share <= _QUIET_SHARE or time.monotonic() >= end:
            return share


def _busy_share() -> float:
    before = _jiffies()
    time.sleep(_PROBE_S)
    idle, total = (after - was for after, was in zip(_jiffies(), before, strict=True))
    return 1 - idle / total if total else 0.0


def _jiffies() -> tuple[int, int]:
    """Idle and total time of all CPUs (Linux: proc(5), /proc/stat); zeros elsewhere."""
    try:
        fields = [int(word) for word in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    except (OSError, ValueError):
        return 0, 0
    return fields[3] + fields[4], sum(fields)
