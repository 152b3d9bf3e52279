"""Timings on a shared machine: in turn, in quiet moments, and again where the rounds differ too much."""

import timeit
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from benchmarks.machine import wait_until_quiet
from benchmarks.world import World
from edgekit.core.preprocess import Preprocess
from edgekit.runtimes.runtime import Session
from edgekit.runtimes.timing import Ratio, interleaved, ratio

ATTEMPTS: Final = 3
STEADY: Final = 0.04  # quartiles of a call within 4 % of its median
WAIT_S: Final = 60.0
TURN_S: Final = 5e-3
Call = Callable[[], object]


@dataclass(frozen=True, slots=True)
class Timed:
    """Seconds per round of each call; all were called in turn. `busy`: share of the CPUs that others used before."""

    rounds: Mapping[str, NDArray[np.float64]]
    busy: float
    unsteadiness: float

    def ratio(self, base: str, other: str) -> Ratio:
        """How much faster `other` is, paired."""
        return ratio(self.rounds[base], self.rounds[other])

    def ms(self, name: str) -> float:
        """The median."""
        return float(np.median(self.rounds[name]) * 1e3)

    @property
    def note(self) -> str:
        """Whether the machine was quiet."""
        return f"CPUs {self.busy:.0%} busy, rounds ±{self.unsteadiness:.0%}"


def timed(world: World, calls: Mapping[str, Call]) -> Timed:
    """The steadiest of up to three attempts, each begun when the machine is quiet (or after a minute's wait)."""
    found: list[Timed] = []
    for _ in range(1 if world.is_quick else ATTEMPTS):
        busy = wait_until_quiet(0 if world.is_quick else WAIT_S)
        repeats = [_repeats(each) for each in calls.values()]
        turns = [_turn(each, count) for each, count in zip(calls.values(), repeats, strict=True)]
        seconds = interleaved(turns, pairs=20 if world.is_quick else 80, budget_s=20) / repeats
        low, middle, high = np.percentile(seconds, [25, 50, 75], axis=0)
        found.append(Timed(dict(zip(calls, seconds.T, strict=True)), busy, float(((high - low) / middle / 2).max())))
        if found[-1].unsteadiness <= STEADY:
            break
    return min(found, key=lambda each: each.unsteadiness)


def _repeats(call: Call) -> int:
    """Calls in a row that last long enough to time: one of half a millisecond is at the mercy of a single interrupt."""
    return max(1, round(TURN_S / min(timeit.repeat(call, number=1, repeat=5))))


def _turn(call: Call, count: int) -> Call:
    def turn() -> None:
        for _ in range(count):
            call()

    return turn


def call(session: Session, preprocess: Preprocess) -> Call:
    """One call on a photo's worth of noise."""
    shape = preprocess.tensor_shape(480, 640)
    inputs = {session.inputs[0].name: np.random.default_rng(0).random(shape, np.float32)}
    return lambda: session(inputs)
