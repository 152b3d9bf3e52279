"""Streaming observers: what range a tensor takes, in memory that does not grow with the data.

Order and batching of the samples do not change the result: histograms have bins whose width is a power of two that
only doubles, with edges on its multiples, so that merging is exact.
"""

from dataclasses import dataclass, field
from typing import Final, Literal, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from edgekit.core.errors import UsageError

ObserverName = Literal["minmax", "percentile", "mse"]
BINS: Final = 2048


@dataclass(frozen=True, slots=True)
class Interval:
    """lo <= 0 <= hi; both finite."""

    lo: float
    hi: float

    def union(self, other: "Interval") -> "Interval":
        return Interval(min(self.lo, other.lo), max(self.hi, other.hi))


class Observer(Protocol):
    """Sees arrays of any shape; gives bounds."""

    def see(self, x: NDArray[np.generic]) -> None: ...
    def merged(self, other: Self) -> Self: ...
    def bounds(self) -> Interval: ...


@dataclass(slots=True)
class MinMax:
    """Smallest and largest value seen."""

    lo: float = 0.0
    hi: float = 0.0

    def see(self, x: NDArray[np.generic]) -> None:
        """Widen to the extremes of `x`."""
        if x.size:
            self.lo, self.hi = min(self.lo, float(x.min())), max(self.hi, float(x.max()))

    def merged(self, other: "MinMax") -> "MinMax":
        """As if one observer had seen both."""
        return MinMax(min(self.lo, other.lo), max(self.hi, other.hi))

    def bounds(self) -> Interval:
        """Zero included."""
        return Interval(self.lo, self.hi)


@dataclass(slots=True)
class Histogram:
    """Counts over [first, first + BINS) bins of width 2**exponent; the width doubles until everything fits.

    `merged` and `see` commute: the final exponent depends on the extremes only.
    """

    exponent: int = -40
    first: int = 0
    counts: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    extremes: MinMax = field(default_factory=MinMax)

    def see(self, x: NDArray[np.generic]) -> None:
        """Count the values of `x`."""
        if not x.size:
            return
        flat = np.asarray(x, np.float32).ravel()
        self.extremes.see(flat)
        self._fit(min(self.extremes.lo, 0.0), max(self.extremes.hi, 0.0))
        scaled = np.ldexp(flat, -self.exponent)  # exact, by a power of two, but for what becomes too small for float32
        scaled[(scaled == 0) & (flat < 0)] = -1
        index = np.floor(scaled).astype(np.int32) - self.first
        self.counts += np.bincount(index, minlength=len(self.counts))

    def merged(self, other: "Histogram") -> "Histogram":
        """As if one observer had seen both."""
        out = Histogram(
            min(self.exponent, other.exponent), 0, np.zeros(0, np.int64), self.extremes.merged(other.extremes)
        )
        out._fit(out.extremes.lo, out.extremes.hi)
        for part in (self, other):
            if len(part.counts):
                shift = out.exponent - part.exponent
                index = ((np.arange(len(part.counts)) + part.first) >> shift) - out.first
                np.add.at(out.counts, index, part.counts)
        return out

    def edges(self) -> NDArray[np.float64]:
        """BINS + 1 edges, or fewer."""
        return np.ldexp((np.arange(len(self.counts) + 1) + self.first).astype(np.float64), self.exponent)

    def _fit(self, lo: float, hi: float) -> None:
        exponent = self.exponent
        while np.floor(np.ldexp(hi, -exponent)) - np.floor(np.ldexp(lo, -exponent)) >= BINS:
            exponent += 1
        first, last = int(np.floor(np.ldexp(lo, -exponent))), int(np.floor(np.ldexp(hi, -exponent)))
        counts = np.zeros(last - first + 1, np.int64)
        if len(self.counts):
            index = ((np.arange(len(self.counts)) + self.first) >> (exponent - self.exponent)) - first
            np.add.at(counts, index, self.counts)
        self.exponent, self.first, self.counts = exponent, first, counts


@dataclass(slots=True)
class Percentile:
    """Cuts the rarest values: `share` of all values lies within the bounds on each side."""

    share: float = 0.9999
    histogram: Histogram = field(default_factory=Histogram)

    def see(self, x: NDArray[np.generic]) -> None:
        """Count the values of `x`."""
        self.histogram.see(x)

    def merged(self, other: "Percentile") -> "Percentile":
        """As if one observer had seen both."""
        return Percentile(self.share, self.histogram.merged(other.histogram))

    def bounds(self) -> Interval:
        """Never beyond the extremes seen."""
        counts, extremes = self.histogram.counts, self.histogram.extremes
        if not counts.sum():
            return extremes.bounds()
        below = np.cumsum(counts) / counts.sum()
        edges = self.histogram.edges()
        hi = float(edges[int(np.searchsorted(below, self.share)) + 1])
        lo = float(edges[int(np.searchsorted(below, 1 - self.share, side="right"))])
        return Interval(max(min(lo, 0.0), extremes.lo), min(max(hi, 0.0), extremes.hi))


@dataclass(slots=True)
class MeanSquare:
    """The bounds with the least mean squared error of 8-bit rounding and clipping, by histogram."""

    histogram: Histogram = field(default_factory=Histogram)

    def see(self, x: NDArray[np.generic]) -> None:
        """Count the values of `x`."""
        self.histogram.see(x)

    def merged(self, other: "MeanSquare") -> "MeanSquare":
        """As if one observer had seen both."""
        return MeanSquare(self.histogram.merged(other.histogram))

    def bounds(self) -> Interval:
        """The best of 40 shrunken ranges on each side; a rounding error is step²/12, a clipped one its distance²."""
        extremes = self.histogram.extremes
        edges = self.histogram.edges()
        if not len(self.histogram.counts):
            return extremes.bounds()
        centres, counts = (edges[:-1] + edges[1:]) / 2, self.histogram.counts / max(self.histogram.counts.sum(), 1)
        best = (np.inf, extremes.bounds())
        for f in np.linspace(0.5, 1, 41)[::-1]:
            lo, hi = extremes.lo * f, extremes.hi * f
            beyond = np.maximum(centres - hi, 0) + np.maximum(lo - centres, 0)
            error = float((counts * beyond**2).sum() + ((hi - lo) / 255) ** 2 / 12)
            if error < best[0]:
                best = (error, Interval(lo, hi))
        return best[1]


OBSERVERS: Final[dict[ObserverName, type[MinMax] | type[Percentile] | type[MeanSquare]]] = {
    "minmax": MinMax,
    "percentile": Percentile,
    "mse": MeanSquare,
}


def observer(name: str) -> Observer:
    """A fresh observer by its name on the command line."""
    if name not in OBSERVERS:
        raise UsageError(f"observer '{name}'", "there is none of this name", "use " + ", ".join(OBSERVERS))
    return OBSERVERS[name]()
