"""Time as an argument: what reads a clock takes one, so that tests and replays bring their own."""

import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """A source of time. Intervals come from `monotonic_ns` only: the wall clock of a device may jump."""

    def monotonic_ns(self) -> int:
        """Nanoseconds since an arbitrary start; never goes back."""
        ...

    def utc(self) -> datetime:
        """The wall clock, aware, in UTC; may jump."""
        ...


@dataclass(frozen=True, slots=True)
class SystemClock:
    """The clock of this machine."""

    def monotonic_ns(self) -> int:
        return time.monotonic_ns()

    def utc(self) -> datetime:
        return datetime.now(UTC)
