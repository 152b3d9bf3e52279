"""Inputs on which every artifact is proved: real samples, and edges of what an input may hold.

Edge inputs are made from a name and the input's observed range, so that a device makes the same ones: they need no
space in a bundle.
"""

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from edgekit.core.artifact import Port
from edgekit.core.metrics import nrmse
from edgekit.quantize.observers import Interval

Array = NDArray[np.generic]
_PIXELS: Final = Interval(0.0, 255.0)
_NOTHING: Final = Interval(0.0, 0.0)
EDGES: Final = ("zeros", "lowest", "highest", "noise")


def edge_input(
    name: str, ports: Sequence[Port], shapes: Mapping[str, tuple[int, ...]], ranges: Mapping[str, Interval]
) -> dict[str, Array]:
    """One edge input. Integer inputs take the values of `ranges` too, or zeros where nothing was observed."""
    rng = np.random.default_rng(0)
    made: dict[str, Array] = {}
    for port in ports:
        shape, span = shapes[port.name], ranges.get(port.name, _PIXELS if port.dtype == "uint8" else _NOTHING)
        low, high = {
            "zeros": (0.0, 0.0),
            "lowest": (span.lo, span.lo),
            "highest": (span.hi, span.hi),
            "noise": (span.lo, span.hi),
        }[name]
        values = np.full(shape, low) if low == high else rng.uniform(low, high, shape)
        made[port.name] = np.asarray(values).astype(port.dtype)
    return made


def relative_errors(
    want: Mapping[str, Array], got: Mapping[str, Array], least: Mapping[str, float] | None = None
) -> dict[str, float]:
    """|got − want| / |want| per output (`metrics.nrmse`); infinite for another shape or values that are not finite.

    `least`: root mean square per output that stands in for a smaller one. An output that is nearly zero on some edge
    input is not wrong because the last bits of two engines differ.
    """
    sizes = least or {}
    return {name: nrmse(got[name], array, least=sizes.get(name, 0.0)) for name, array in want.items()}


def usual_sizes(outputs: Sequence[Mapping[str, Array]]) -> dict[str, float]:
    """The largest root mean square of each float output over these answers."""
    sizes: dict[str, float] = {}
    for answer in outputs:
        for name, array in answer.items():
            if array.dtype.kind == "f" and array.size:
                rms = float(np.sqrt((np.asarray(array, np.float64) ** 2).mean()))
                sizes[name] = max(sizes.get(name, 0.0), rms)
    return sizes
