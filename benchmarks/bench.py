"""What a benchmark is: a named function that yields figures, each with the bar that it must meet.

A new benchmark is a new file in `named/` with one decorated function; nothing else has to be told. It measures and
yields; it neither prints, nor writes, nor judges: the runner does.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Final, Literal

from benchmarks.world import Missing, World

Better = Literal["lower", "higher"]
NAMED: Final = Path(__file__).parent / "named"


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured number. `name` is a path ("lite0/litert/kl") that stays the same from run to run.

    `bar`: what it must reach, in the direction of `better`; None: shown and watched only. `low`, `high`: its spread
    (95 % bounds, or least and most). `unit`: see `baseline.NOISE`. `note`: what a reader must know besides.
    """

    name: str
    value: float
    unit: str
    better: Better
    bar: float | None = None
    low: float | None = None
    high: float | None = None
    note: str = ""

    @property
    def is_met(self) -> bool | None:
        """Whether it reaches its bar; None where there is none. A figure that is not a number reaches nothing."""
        if self.bar is None:
            return None
        return self.value <= self.bar if self.better == "lower" else self.value >= self.bar


@dataclass(frozen=True, slots=True)
class Skipped:
    """A figure that was not measured, and why."""

    name: str
    why: str


Outcome = Figure | Skipped
Measure = Callable[[World], Iterator[Outcome]]


@dataclass(frozen=True, slots=True)
class Benchmark:
    """A registered benchmark. `about`: its docstring's first line."""

    name: str
    about: str
    threads: int
    measure: Measure

    def outcomes(self, world: World) -> Iterator[Outcome]:
        """Its figures; what is missing on this machine ends it by name instead of failing it."""
        try:
            yield from self.measure(world)
        except Missing as missing:
            yield Skipped(self.name, str(missing))


_FOUND: Final[dict[str, Benchmark]] = {}


def bench(*, threads: int = 1) -> Callable[[Measure], Measure]:
    """Register a function under its own name. `threads`: that its timed calls use."""

    def register(measure: Measure) -> Measure:
        name = measure.__name__
        about = (measure.__doc__ or "").strip().partition("\n")[0]
        if name in _FOUND or not about:
            raise ValueError(f"benchmark '{name}' needs a name of its own and a docstring")
        _FOUND[name] = Benchmark(name, about, threads, measure)
        return measure

    return register


def benchmarks() -> dict[str, Benchmark]:
    """All of them by name, in the order of their names."""
    for module in iter_modules([str(NAMED)]):
        import_module(f"benchmarks.named.{module.name}")
    return dict(sorted(_FOUND.items()))
