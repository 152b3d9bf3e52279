"""Finds an engine's Python package: its version without importing it, or the words that say how to install it."""

import importlib
import importlib.util
from pathlib import Path
from types import ModuleType

from edgekit.core.errors import EnvironmentFault


def engine_version(package: str, distribution: str) -> str | None:
    """The version of the distribution that provides a top-level package, or None. Does not import the package.

    Read from the name of its `.dist-info` folder: importing `importlib.metadata` takes longer than some engines do.
    A distribution of another flavour ("onnxruntime-openvino") counts as well.
    """
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        return None
    site = Path(spec.origin).parent.parent
    word = distribution.replace("-", "_")
    for pattern in (f"{word}-*.dist-info", f"{word}_*-*.dist-info"):
        for folder in sorted(site.glob(pattern)):
            return folder.name.removesuffix(".dist-info").partition("-")[2]
    return _version_from_metadata(distribution)


def _version_from_metadata(distribution: str) -> str | None:
    from importlib import metadata

    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


def engine_module(module: str, *, runtime: str, extra: str) -> ModuleType:
    """Imports an engine. Raises `EnvironmentFault` with the pip command where it is missing or broken."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise EnvironmentFault(
            f"the runtime '{runtime}' cannot be used", str(error), f"pip install 'edgekit-sdk[{extra}]'"
        ) from error
