"""Runtime and Session: what every engine looks like from above, and nothing of any engine.

Adapters live beside this file, one per engine, are found by the entry-point group `edgekit.runtimes`, import their
engine lazily and map its exceptions to `EdgekitError`.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from edgekit.core.artifact import LoadableArtifact, Port

Arrays = dict[str, NDArray[np.generic]]


@runtime_checkable
class Session(Protocol):
    """A loaded artifact. Not thread-safe; one session per thread."""

    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]

    def __call__(self, inputs: Mapping[str, NDArray[np.generic]]) -> Arrays:
        """Arrays by the model's own names, in the model's axes; outputs stay valid after the next call.

        A missing or unknown name, a wrong dtype, rank or size raises `BadInput` naming the input and what it wants.
        An unused input may be left out.
        """
        ...


@runtime_checkable
class Runtime(Protocol):
    """One engine. `name` is its name in flags, JSON, tables and manifest."""

    name: str

    def version(self) -> str | None:
        """The installed engine's version, or None where it is not installed. Does not import the engine."""
        ...

    def load(self, artifact: LoadableArtifact, *, threads: int, cache: Path | None = None) -> Session:
        """A session with that many threads. `cache` is a folder for the engine's own compiled form.

        Raises `EnvironmentFault` where the engine is not installed, `Unsupported` where it refuses the file.
        """
        ...
