"""Versions of the libraries that a build's numbers come from."""

from importlib import metadata
from typing import Final

TOOLS: Final = ("numpy", "onnx", "onnx-ir", "onnxruntime", "openvino", "ai-edge-litert")


def tool_versions() -> dict[str, str]:
    """Versions of what the numbers were made with."""
    found = {}
    for name in TOOLS:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found
