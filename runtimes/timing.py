"""Speed as a ratio: two or more callables timed in turn, in one run, with bounds."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

WARMUP: Final = 5
_RESAMPLES: Final = 2000


@dataclass(frozen=True, slots=True)
class Ratio:
    """base / other: above 1 means `other` is faster. `low`, `high`: 95 % bounds of the median. Times in ms."""

    base_ms: float
    other_ms: float
    speedup: float
    low: float
    high: float


def interleaved(
    calls: Sequence[Callable[[], object]], *, pairs: int = 40, budget_s: float = 6.0
) -> NDArray[np.float64]:
    """Seconds [round, call]: each round calls each once, in an order that changes from round to round.

    At least 11 rounds, at most `pairs`, within `budget_s` where that allows.
    """
    for call in calls:
        for _ in range(WARMUP):
            call()
    rounds: list[list[float]] = []
    end = time.perf_counter() + budget_s
    while len(rounds) < pairs and (len(rounds) < 11 or time.perf_counter() < end):
        row = [0.0] * len(calls)
        order = range(len(calls)) if len(rounds) % 2 == 0 else reversed(range(len(calls)))
        for i in order:
            start = time.perf_counter()
            calls[i]()
            row[i] = time.perf_counter() - start
        rounds.append(row)
    return np.asarray(rounds)


def ratio(base: NDArray[np.float64], other: NDArray[np.float64]) -> Ratio:
    """The paired ratio of two columns of `interleaved`; bounds by bootstrap of the median (fixed seed)."""
    quotients = base / other
    rng = np.random.default_rng(0)
    medians = np.median(rng.choice(quotients, (_RESAMPLES, len(quotients))), axis=1)
    low, high = np.percentile(medians, [2.5, 97.5])
    return Ratio(
        float(np.median(base) * 1e3),
        float(np.median(other) * 1e3),
        float(np.median(quotients)),
        float(low),
        float(high),
    )
