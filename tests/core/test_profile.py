import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from edgekit.core.errors import BadInput, UsageError
from edgekit.core.manifest import ANY_CPU, SATURATION_SAFE, VNNI
from edgekit.core.profile import PROFILES, DeviceProfile, detect_host, load_profile

X86 = (
    "processor\t: 0\nmodel name\t: Some CPU\nflags\t\t: fpu avx2 fma avx512f {}\n\n"
    "processor\t: 1\nflags\t\t: fpu avx2 fma avx512f {}\n"
)
ARM = "processor\t: 0\nFeatures\t: fp asimd asimddp\n\nprocessor\t: 1\nFeatures\t: fp asimd\n"


def machine(root: Path, files: Mapping[str, str]) -> Path:
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return root


@pytest.mark.parametrize(
    ("name", "weights"),
    [
        (
            "x86-64",
            {"onnxruntime": "saturation-safe", "openvino": "saturation-safe", "litert": "full", "x": "saturation-safe"},
        ),
        ("x86-64-vnni", {"onnxruntime": "full", "openvino": "full", "litert": "full", "x": "full"}),
        ("raspberry-pi-5", {"onnxruntime": "full", "openvino": "full", "litert": "full"}),
        ("armv7-legacy", {"tflite-runtime": "full"}),
    ],
)
def test_weights_follow_from_cpu_and_runtime(name: str, weights: Mapping[str, str]) -> None:
    profile = load_profile(name)
    assert {runtime: profile.weights_for(runtime) for runtime in weights} == weights


def test_what_was_built_for_a_profile_suits_it() -> None:
    for name in PROFILES:
        profile = load_profile(name)
        for runtime in profile.runtimes:
            for precision in ("int8", "fp16", "fp32"):
                assert profile.suits(profile.isa_of(runtime, precision))
    assert load_profile("x86-64").isa_of("onnxruntime", "int8") == SATURATION_SAFE
    assert load_profile("x86-64-vnni").isa_of("onnxruntime", "int8") == VNNI
    assert load_profile("x86-64-vnni").isa_of("litert", "int8") == ANY_CPU
    assert load_profile("x86-64-vnni").isa_of("onnxruntime", "fp32") == ANY_CPU
    assert not load_profile("x86-64").suits(VNNI)
    assert load_profile("raspberry-pi-5").suits(VNNI)
    assert not load_profile("raspberry-pi-5").suits("some-newer-word")


@pytest.mark.parametrize(("flag", "saturates"), [("", True), ("avx512_vnni", False), ("avx_vnni", False)])
def test_vnni_is_read_from_the_flags(tmp_path: Path, flag: str, saturates: bool) -> None:
    root = machine(tmp_path, {"proc/cpuinfo": X86.format(flag, flag), "proc/meminfo": "MemTotal:  2097152 kB\n"})
    host = detect_host(root=root, machine="x86_64")
    assert host.saturates is saturates
    assert (host.name, host.arch, host.memory_mb, host.description) == ("host", "x86-64", 2048, "Some CPU")


def test_only_what_every_core_has_counts(tmp_path: Path) -> None:
    mixed = machine(tmp_path / "x", {"proc/cpuinfo": X86.format("avx_vnni", "")})
    assert detect_host(root=mixed, machine="x86_64").saturates
    board = machine(tmp_path / "a", {"proc/cpuinfo": ARM, "proc/device-tree/model": "Some Board Rev 1\0"})
    host = detect_host(root=board, machine="aarch64")
    assert (host.isa, host.saturates, host.description) == (("asimd",), False, "Some Board Rev 1")


def test_memory_is_bounded_by_the_group(tmp_path: Path) -> None:
    files = {"proc/meminfo": "MemTotal:  2097152 kB\n", "proc/self/cgroup": "0::/\n"}
    root = machine(tmp_path, {**files, "sys/fs/cgroup/memory.max": f"{512 << 20}\n"})
    assert detect_host(root=root, machine="x86_64").memory_mb == 512
    machine(tmp_path, {"sys/fs/cgroup/memory.max": "max\n"})
    assert detect_host(root=root, machine="x86_64").memory_mb == 2048
    v1 = {"proc/self/cgroup": "4:memory:/\n", "sys/fs/cgroup/memory/memory.limit_in_bytes": f"{256 << 20}\n"}
    assert detect_host(root=machine(tmp_path / "v1", {**files, **v1}), machine="x86_64").memory_mb == 256


def test_a_battery_is_seen_and_that_of_a_mouse_is_not(tmp_path: Path) -> None:
    supply = "sys/class/power_supply"
    root = machine(
        tmp_path, {f"{supply}/m/type": "Battery\n", f"{supply}/m/scope": "Device\n", f"{supply}/a/type": "Mains\n"}
    )
    assert detect_host(root=root, machine="x86_64").power == "mains"
    machine(tmp_path, {f"{supply}/b/type": "Battery\n"})
    assert detect_host(root=root, machine="x86_64").power == "battery"


def test_an_unknown_machine_is_refused_by_name() -> None:
    with pytest.raises(BadInput, match="'riscv64' is not known"):
        detect_host(machine="riscv64")


def test_detection_imports_no_engine() -> None:
    script = (
        "import sys; from edgekit.core.profile import detect_host; print(detect_host().to_toml())\n"
        "assert not {'onnxruntime', 'openvino', 'ai_edge_litert', 'onnx', 'torch'} & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True, timeout=60)
    assert DeviceProfile.from_toml(done.stdout).name == "host"


def test_a_profile_comes_from_a_name_or_a_file(tmp_path: Path) -> None:
    assert load_profile("host") == detect_host()
    path = tmp_path / "board.toml"
    path.write_text(load_profile("raspberry-pi-5").to_toml())
    assert load_profile(str(path)) == load_profile("raspberry-pi-5")
    with pytest.raises(UsageError, match="one of host, x86-64, x86-64-vnni, raspberry-pi-5, armv7-legacy"):
        load_profile("raspberry-pi-4")
    with pytest.raises(BadInput, match="no such file"):
        load_profile(str(tmp_path / "missing.toml"))
