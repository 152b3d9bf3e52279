"""The device side stays small: what importing it loads, observed in fresh processes."""

import importlib.util
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

DEVICE_PACKAGES = ("edgekit.core", "edgekit.runtimes", "edgekit.firmware_configs", "edgekit.offload")
HOST_ONLY = {
    "onnx",
    "onnx_ir",
    "torch",
    "edgekit.build",
    "edgekit.compile",
    "edgekit.quantize",
    "sqlalchemy",
    "starlette",
}
ENGINES = {"onnxruntime", "openvino", "ai_edge_litert", "tflite_runtime"}


def modules_of(package: str) -> list[str]:
    spec = importlib.util.find_spec(package)
    assert spec is not None
    places = spec.submodule_search_locations
    assert places is not None
    return [package, *(found.name for found in pkgutil.walk_packages(places, f"{package}."))]


def loaded_by(statement: str) -> set[str]:
    """Names of all modules in a fresh interpreter after a statement, and of their packages."""
    script = f"import sys\n{statement}\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split())


@pytest.mark.parametrize("package", DEVICE_PACKAGES)
def test_a_device_package_loads_neither_host_modules_nor_engines(package: str) -> None:
    loaded = loaded_by("\n".join(f"import {name}" for name in modules_of(package)))
    assert not loaded & (HOST_ONLY | ENGINES)


def test_importing_edgekit_loads_no_host_module_and_no_engine() -> None:
    assert not loaded_by("import edgekit") & (HOST_ONLY | ENGINES | {"numpy"})


def test_every_module_of_the_command_line_loads_no_engine_and_no_host_library() -> None:
    loaded = loaded_by("\n".join(f"import {name}" for name in modules_of("edgekit.cli")))
    assert not loaded & (ENGINES | {"onnx", "onnx_ir", "torch"})


def test_the_layers_point_down() -> None:
    tool = Path(sys.executable).with_name("lint-imports")
    if not tool.exists() or not (Path(__file__).parents[1] / "pyproject.toml").exists():
        pytest.skip("import-linter is not installed")
    done = subprocess.run(
        [tool, "--no-cache"], cwd=Path(__file__).parents[1], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout
