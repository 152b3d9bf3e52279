"""The control groups that bind this process: where their files are, in version 1 and 2, in a container or not."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path, PurePosixPath


def values(root: Path, controller: str, *names: str) -> Iterator[tuple[str, ...]]:
    """The contents of those files in each folder that has them all, from the process's own group up to the root.

    `root` is where /proc and /sys are looked up (Linux kernel, admin-guide/cgroup-v2 and cgroup-v1). Inside a container
    the group's path may name a folder of the host: what is not there is passed over, the mount's root always looked at.
    """
    for mount, path in _groups(root, controller):
        place = PurePosixPath(path.lstrip("/"))
        for folder in dict.fromkeys([*(mount / each for each in (place, *place.parents)), mount]):
            with suppress(OSError, UnicodeDecodeError):
                yield tuple((folder / name).read_text().strip() for name in names)


def _groups(root: Path, controller: str) -> Iterator[tuple[Path, str]]:
    """Mounts and paths of version 2 and of version 1's controller."""
    base = root / "sys/fs/cgroup"
    with suppress(OSError):
        for line in (root / "proc/self/cgroup").read_text().splitlines():
            number, _, rest = line.partition(":")
            controllers, _, path = rest.partition(":")
            if number == "0" and not controllers:
                yield base, path
                yield base / "unified", path
            elif controller in controllers.split(","):
                yield base / controllers, path
                yield base / controller, path
