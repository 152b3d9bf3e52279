from pathlib import Path

import pytest

from edgekit.core.threads import usable_cpus


def machine(root: Path, files: dict[str, str]) -> Path:
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return root


SELF = "proc/self/cgroup"
V2 = "sys/fs/cgroup"


@pytest.mark.parametrize(
    ("files", "cpus"),
    [
        ({}, 8),
        ({SELF: "0::/\n", f"{V2}/cpu.max": "max 100000\n"}, 8),
        ({SELF: "0::/\n", f"{V2}/cpu.max": "200000 100000\n"}, 2),
        ({SELF: "0::/\n", f"{V2}/cpu.max": "150000 100000\n"}, 1),
        ({SELF: "0::/\n", f"{V2}/cpu.max": "50000 100000\n"}, 1),
        ({SELF: "0::/\n", f"{V2}/cpu.max": "1600000 100000\n"}, 8),
        ({SELF: "0::/a/b\n", f"{V2}/a/b/cpu.max": "max 100000\n", f"{V2}/a/cpu.max": "300000 100000\n"}, 3),
        ({SELF: "0::/docker/1f\n", f"{V2}/cpu.max": "400000 100000\n"}, 4),
        ({SELF: "0::/../x\n", f"{V2}/cpu.max": "400000 100000\n"}, 4),
        ({SELF: "0::/\n", f"{V2}/cpu.max": "garbage\n"}, 8),
        ({SELF: "0::/\n", f"{V2}/cpu.max": "0 0\n"}, 8),
        ({SELF: "4:cpu,cpuacct:/\n", f"{V2}/cpu,cpuacct/cpu.cfs_quota_us": "-1\n"}, 8),
        (
            {
                SELF: "4:cpu,cpuacct:/job\n1:memory:/\n",
                f"{V2}/cpu,cpuacct/job/cpu.cfs_quota_us": "250000\n",
                f"{V2}/cpu,cpuacct/job/cpu.cfs_period_us": "100000\n",
            },
            2,
        ),
        (
            {
                SELF: "4:cpuacct,cpu:/deep/job\n0::/\n",
                f"{V2}/cpu/deep/cpu.cfs_quota_us": "300000\n",
                f"{V2}/cpu/deep/cpu.cfs_period_us": "100000\n",
            },
            3,
        ),
    ],
)
def test_quota_bounds_affinity(tmp_path: Path, files: dict[str, str], cpus: int) -> None:
    assert usable_cpus(root=machine(tmp_path, files), affinity=8) == cpus


def test_affinity_bounds_quota(tmp_path: Path) -> None:
    root = machine(tmp_path, {SELF: "0::/\n", f"{V2}/cpu.max": "400000 100000\n"})
    assert usable_cpus(root=root, affinity=1) == 1


def test_this_machine_has_at_least_one() -> None:
    assert usable_cpus() >= 1
