"""A runtime of one's own in one file: polynomials of numpy arrays, described in JSON.

A file holds the inputs, and each output as a sum of terms: {"y": {"shape": …, "terms": {"x": 2.0}, "plus": 1.0}}.
A distribution offers it to edgekit by an entry point:

    [project.entry-points."edgekit.runtimes"]
    numpy = "numpy_runtime:RUNTIME"
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from edgekit.core.artifact import LoadableArtifact
from edgekit.core.errors import BadInput
from edgekit.runtimes.binding import Array, FileTensor, PortSession, checked_threads
from edgekit.runtimes.runtime import Runtime, Session


@dataclass(frozen=True, slots=True)
class Output:
    """One output: the sum of `terms` (input name to factor) and `plus`."""

    tensor: FileTensor
    terms: dict[str, float]
    plus: float


class NumpyRuntime:
    """The engine. `PortSession` checks inputs and maps names, axes and dtypes; only the arithmetic is left to do."""

    name: str = "numpy"

    def version(self) -> str | None:
        """numpy is always installed."""
        return np.__version__

    def load(self, artifact: LoadableArtifact, *, threads: int, cache: Path | None = None) -> Session:
        """Nothing is compiled, so there is nothing to cache."""
        checked_threads(threads)
        try:
            document = json.loads(artifact.content(".json"))
            inputs = {str(name): tensor(each) for name, each in document["inputs"].items()}
            outputs = [
                Output(tensor(each), {name: float(each["terms"][name]) for name in each["terms"]}, float(each["plus"]))
                for each in document["outputs"].values()
            ]
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise BadInput(f"{artifact.label} is no polynomial", repr(error), "write the file again") from error
        names = list(inputs)

        def engine(feeds: list[Array]) -> Sequence[Array]:
            arrays = dict(zip(names, feeds, strict=True))
            return [evaluated(each, arrays) for each in outputs]

        return PortSession(artifact, engine, list(inputs.values()), [each.tensor for each in outputs])


def tensor(described: dict[str, object]) -> FileTensor:
    """{"dtype": "float32", "shape": [1, null]}; null is a free size."""
    shape = described["shape"]
    if not isinstance(shape, list):
        raise TypeError("shape is no list")
    return FileTensor(np.dtype(str(described["dtype"])), tuple(None if size is None else int(size) for size in shape))


def evaluated(output: Output, arrays: dict[str, Array]) -> Array:
    """A new array: it stays valid after the next call."""
    dtype = output.tensor.dtype
    total: Array = np.asarray(output.plus, dtype)
    for name, factor in output.terms.items():
        total = np.add(total, np.multiply(arrays[name], np.asarray(factor, dtype)))
    return total


RUNTIME: Final[Runtime] = NumpyRuntime()
