"""How many threads may run here: CPU affinity and the cgroup's quota, not the number of CPUs of the machine."""

import math
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path, PurePosixPath


def usable_cpus(*, root: Path = Path("/"), affinity: int | None = None) -> int:
    """CPUs that this process may use without being throttled: at least 1, whole CPUs of a quota only.

    `root` is where /proc and /sys are looked up, `affinity` the number of CPUs allowed (None: asked of the system).
    """
    if affinity is None:
        affinity = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota = min(_quotas(root), default=math.inf)
    return max(1, min(affinity, int(quota)) if math.isfinite(quota) else affinity)


def _quotas(root: Path) -> Iterator[float]:
    """CPUs granted by each cgroup that this process is in, from its own up to the root of the mount.

    Linux kernel, admin-guide/cgroup-v2 (cpu.max) and scheduler/sched-bwc (cpu.cfs_quota_us). Inside a container the
    path may name a folder of the host: what is not there is passed over, the mount's root is always looked at.
    """
    for mount, path in _groups(root):
        place = PurePosixPath(path.lstrip("/"))
        for folder in {mount / parent for parent in (place, *place.parents)} | {mount}:
            with suppress(OSError, ValueError):
                yield _quota(folder)


def _groups(root: Path) -> Iterator[tuple[Path, str]]:
    """The mounts and paths of version 2 and of version 1's cpu controller."""
    base = root / "sys/fs/cgroup"
    with suppress(OSError):
        for line in (root / "proc/self/cgroup").read_text().splitlines():
            number, _, rest = line.partition(":")
            controllers, _, path = rest.partition(":")
            if number == "0" and not controllers:
                yield base, path
                yield base / "unified", path
            elif "cpu" in controllers.split(","):
                yield base / controllers, path
                yield base / "cpu", path


def _quota(folder: Path) -> float:
    """CPUs in one folder; OSError where it sets none, ValueError where its file reads otherwise."""
    with suppress(FileNotFoundError):
        quota, period = (folder / "cpu.max").read_text().split()
        return math.inf if quota == "max" else _share(quota, period)
    quota = (folder / "cpu.cfs_quota_us").read_text().strip()
    return math.inf if quota == "-1" else _share(quota, (folder / "cpu.cfs_period_us").read_text().strip())


def _share(quota: str, period: str) -> float:
    share = int(quota) / max(1, int(period))
    return share if share > 0 else math.inf
