"""The targets by runtime name, imported when asked for: each pulls in its own engine's library."""

from importlib import import_module
from typing import Final, cast

from edgekit.compile.target import Target
from edgekit.core.errors import UsageError

_MODULES: Final = {
    "onnxruntime": "edgekit.compile.onnxruntime.target",
    "openvino": "edgekit.compile.openvino.target",
    "litert": "edgekit.compile.tflite.target",
}
SAME_FILE: Final = {"tflite-runtime": "litert"}
"""Runtimes that run another runtime's artifact."""


def target_names() -> tuple[str, ...]:
    """Runtimes that a build can write artifacts for, in the order of tables."""
    return tuple(_MODULES)


def target(name: str) -> Target:
    """The target of that runtime. Raises `UsageError` for an unknown name."""
    module = _MODULES.get(SAME_FILE.get(name, name))
    if module is None:
        raise UsageError(f"--runtime {name}", "no such target", "use one of " + ", ".join(_MODULES))
    return cast(Target, import_module(module).TARGET)
