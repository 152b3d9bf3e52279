"""edgekit: from a trained network to verified INT8 on edge devices."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from edgekit.build.options import BuildOptions as BuildOptions
    from edgekit.build.pipeline import BuildResult as BuildResult
    from edgekit.build.pipeline import build as build
    from edgekit.core.errors import EdgekitError as EdgekitError
    from edgekit.runtimes.model import Model as Model
    from edgekit.runtimes.model import load as load

__version__ = "0.1.0"
__all__ = ["BuildOptions", "BuildResult", "EdgekitError", "Model", "__version__", "build", "load"]

_HOMES = {
    "BuildOptions": "edgekit.build.options",
    "BuildResult": "edgekit.build.pipeline",
    "EdgekitError": "edgekit.core.errors",
    "Model": "edgekit.runtimes.model",
    "load": "edgekit.runtimes.model",
}


def __getattr__(name: str) -> object:
    """Public names are imported when first used: `import edgekit` stays instant, a device never loads the host side."""
    from importlib import import_module

    if name == "build":
        return import_module("edgekit.build")  # a callable module
    if name not in _HOMES:
        raise AttributeError(f"module 'edgekit' has no attribute '{name}'")
    return getattr(import_module(_HOMES[name]), name)
