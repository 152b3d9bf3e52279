"""How many threads may run here: CPU affinity and the cgroup's quota, not the number of CPUs of the machine."""

import math
import os
from collections.abc import Iterator
from pathlib import Path

from edgekit.core import cgroup


def usable_cpus(*, root: Path = Path("/"), affinity: int | None = None) -> int:
    """CPUs that this process may use without being throttled: at least 1, whole CPUs of a quota only.

    `root` is where /proc and /sys are looked up, `affinity` the number of CPUs allowed (None: asked of the system).
    """
    if affinity is None:
        affinity = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota = min(_quotas(root), default=math.inf)
    return max(1, min(affinity, int(quota)) if math.isfinite(quota) else affinity)


def _quotas(root: Path) -> Iterator[float]:
    """CPUs granted by each group: "max 100000" or "150000 100000" in version 2, -1 or a number in version 1."""
    for (line,) in cgroup.values(root, "cpu", "cpu.max"):
        quota, _, period = line.partition(" ")
        yield _share(quota, period)
    for quota, period in cgroup.values(root, "cpu", "cpu.cfs_quota_us", "cpu.cfs_period_us"):
        yield _share(quota, period)


def _share(quota: str, period: str) -> float:
    """CPUs; no limit where the words are no positive numbers ("max", "-1")."""
    if not (quota.isdecimal() and period.isdecimal() and int(quota) and int(period)):
        return math.inf
    return int(quota) / int(period)
