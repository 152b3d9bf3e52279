"""Finds an engine's Python package: its version without importing it, or the words that say how to install it."""

import importlib
from importlib import metadata
from types import ModuleType

from edgekit.core.errors import EnvironmentFault


def engine_version(distribution: str) -> str | None:
    """The installed version of a distribution, or None. Does not import it."""
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
