"""What a target has: architecture, instruction set, cores, memory, runtimes, power. A value; the known ones are TOML.

The files are in `firmware_configs/`, with their JSON schema. `detect_host` describes this machine without importing an
engine. What follows from a profile is decided here once: which weights are right on it.
"""

import os
import platform
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Final, Literal, cast

from edgekit.core import cgroup
from edgekit.core.errors import BadInput, UsageError
from edgekit.core.manifest import ANY_CPU, SATURATION_SAFE, VNNI, Precision
from edgekit.core.record import Plain, from_plain, to_plain
from edgekit.core.threads import usable_cpus
from edgekit.core.toml import dump_toml, parse_toml, read_toml

Arch = Literal["x86-64", "aarch64", "armv7"]
Power = Literal["mains", "battery"]
WeightRange = Literal["full", "saturation-safe"]

PROFILES: Final = ("x86-64", "x86-64-vnni", "raspberry-pi-5", "armv7-legacy")
HOST: Final = "host"

DISTRIBUTIONS: Final = {
    "onnxruntime": "onnxruntime",
    "openvino": "openvino",
    "litert": "ai-edge-litert",
    "tflite-runtime": "tflite-runtime",
}
FEATURES: Final = (
    *("avx2", "fma", "avx512f", "avx512bw", "avx_vnni", "avx512_vnni", "amx_int8"),
    *("neon", "asimd", "asimddp", "i8mm", "sve"),
)
_DOT_PRODUCTS: Final = frozenset(("avx_vnni", "avx512_vnni"))
_EXACT_RUNTIMES: Final = frozenset(("litert", "tflite-runtime"))  # XNNPACK adds u8 x s8 products in 32 bits everywhere
_MACHINES: Final[dict[str, Arch]] = {
    **dict.fromkeys(("x86_64", "amd64"), "x86-64"),
    **dict.fromkeys(("aarch64", "arm64"), "aarch64"),
    **dict.fromkeys(("armv7l", "armv8l", "armv6l", "armhf"), "armv7"),
}
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9-]{0,63}\Z")
_VERSION: Final = re.compile(r"[0-9][0-9A-Za-z.+_-]{0,63}\Z")


@dataclass(frozen=True, slots=True)
class DeviceProfile:
    """One kind of device. `runtimes` maps a runtime's name to its version there (of a family: the oldest to expect).

    `isa` holds the CPU features that matter to an engine, in the kernel's words (see `FEATURES`).
    """

    name: str
    arch: Arch
    cores: int
    memory_mb: int
    isa: tuple[str, ...] = ()
    runtimes: Mapping[str, str] = field(default_factory=dict)
    power: Power = "mains"
    description: str = ""

    def __post_init__(self) -> None:
        where = f"profile '{self.name[:64]}'"
        if not _NAME.match(self.name):
            raise BadInput(where, "not a profile name", "use lower-case letters, digits and dashes")
        if self.cores < 1 or self.memory_mb < 1:
            raise BadInput(where, f"{self.cores} cores, {self.memory_mb} MB", "give what the device has")
        strange = [word for word in self.isa if word not in FEATURES]
        if strange:
            raise BadInput(where, f"unknown CPU feature '{strange[0]}'", f"of {', '.join(FEATURES)}")
        for name, version in self.runtimes.items():
            if not _VERSION.match(version):
                raise BadInput(where, f"'{version}' is no version of {name}", "give it as 1.20.0")

    @property
    def has_vnni(self) -> bool:
        """Whether an x86 CPU multiplies and adds 8-bit pairs in 32 bits."""
        return bool(_DOT_PRODUCTS & set(self.isa))

    @property
    def saturates(self) -> bool:
        """Whether u8 x s8 products of neighbours are added in 16 bits: every x86 CPU without VNNI."""
        return self.arch == "x86-64" and not self.has_vnni

    def weights_for(self, runtime: str) -> WeightRange:
        """Which integer weights are right in a runtime on this device.

        A runtime that is not known to add in 32 bits is taken to saturate where the CPU does.
        """
        return "saturation-safe" if self.saturates and runtime not in _EXACT_RUNTIMES else "full"

    def isa_of(self, runtime: str, precision: Precision) -> str:
        """The `ArtifactEntry.isa` of an artifact built for this profile."""
        if precision != "int8" or runtime in _EXACT_RUNTIMES:
            return ANY_CPU
        return VNNI if self.weights_for(runtime) == "full" else SATURATION_SAFE

    def suits(self, isa: str) -> bool:
        """Whether an artifact with that `isa` gives right numbers on this device; an unknown word does not."""
        return isa in {ANY_CPU, SATURATION_SAFE} or (isa == VNNI and not self.saturates)

    def to_toml(self) -> str:
        """TOML text that `from_toml` reads back to an equal value."""
        return dump_toml(cast(dict[str, Plain], to_plain(self)))

    @classmethod
    def from_toml(cls, text: str, *, where: str = "profile") -> "DeviceProfile":
        """From TOML text. Raises `BadInput`."""
        return from_plain(cls, parse_toml(text, where=where), where=where)


def load_profile(name: str) -> DeviceProfile:
    """A profile by its name (`PROFILES`), this machine's ("host"), or one from a TOML file (a path that ends in .toml).

    Raises `UsageError` for an unknown name, `BadInput` for a file that is none.
    """
    if name == HOST:
        return detect_host()
    if name in PROFILES:
        text = files("edgekit.firmware_configs").joinpath(f"{name}.toml").read_text("utf-8")
        return DeviceProfile.from_toml(text, where=f"profile '{name}'")
    if name.endswith(".toml"):
        return from_plain(DeviceProfile, read_toml(Path(name)), where=name)
    known = ", ".join((HOST, *PROFILES))
    raise UsageError(f"device '{name}'", "no profile has that name", f"one of {known}, or a TOML file")


def detect_host(*, root: Path = Path("/"), machine: str | None = None) -> DeviceProfile:
    """This machine, named "host": what a process may use of it, by affinity and cgroup.

    `root` is where /proc and /sys are looked up, `machine` the kernel's name of the architecture (None: asked of the
    system). Engines are found by their distributions and not imported. Raises `BadInput` for an architecture that no
    profile can have.
    """
    machine = machine or platform.machine()
    arch = _MACHINES.get(machine.lower())
    if arch is None:
        raise BadInput("this machine", f"architecture '{machine}' is not known", f"one of {', '.join(_MACHINES)}")
    if arch == "aarch64" and sys.maxsize < 1 << 32:  # a 32-bit system on a 64-bit kernel
        arch = "armv7"
    found = _cpu_features(root)
    return DeviceProfile(
        name=HOST,
        arch=arch,
        cores=usable_cpus(root=root),
        memory_mb=_memory_mb(root),
        isa=tuple(word for word in FEATURES if word in found),
        runtimes=dict(_installed()),
        power="battery" if _has_battery(root) else "mains",
        description=_model_name(root),
    )


def _cpu_lines(root: Path) -> Iterator[tuple[str, str]]:
    with suppress(OSError):
        for line in (root / "proc/cpuinfo").read_text(errors="replace").splitlines():
            key, colon, value = line.partition(":")
            if colon:
                yield key.strip(), value.strip()


def _cpu_features(root: Path) -> set[str]:
    """Features that every core has: big and little cores may differ."""
    cores = [set(value.split()) for key, value in _cpu_lines(root) if key in {"flags", "Features"}]
    return set.intersection(*cores) if cores else set()


def _model_name(root: Path) -> str:
    with suppress(OSError):
        return (root / "proc/device-tree/model").read_text(errors="replace").strip("\0 \n")[:120]
    return next((value[:120] for key, value in _cpu_lines(root) if key == "model name"), "")


def _memory_mb(root: Path) -> int:
    limits = [_total_memory(root)]
    for file in ("memory.max", "memory.limit_in_bytes"):  # version 2, version 1
        limits += [int(word) for (word,) in cgroup.values(root, "memory", file) if word.isdecimal()]
    return max(1, min(limits) >> 20)


def _total_memory(root: Path) -> int:
    with suppress(OSError, ValueError, IndexError):
        for line in (root / "proc/meminfo").read_text().splitlines():
            if line.startswith("MemTotal:"):
                return int(line.split()[1]) << 10
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _installed() -> Iterator[tuple[str, str]]:
    from importlib import metadata  # slow to import, and only wanted here

    for runtime, distribution in DISTRIBUTIONS.items():
        with suppress(metadata.PackageNotFoundError):
            yield runtime, metadata.version(distribution)


def _has_battery(root: Path) -> bool:
    """A system battery; those of a mouse or a headset have the scope Device."""
    for folder in sorted((root / "sys/class/power_supply").glob("*")):
        with suppress(OSError):
            scope = folder / "scope"
            is_device = scope.exists() and scope.read_text().strip() == "Device"
            if (folder / "type").read_text().strip() == "Battery" and not is_device:
                return True
    return False
