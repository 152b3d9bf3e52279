from datetime import UTC

from edgekit.core.clock import Clock, SystemClock


def test_the_system_clock_moves_on_and_knows_its_zone() -> None:
    clock: Clock = SystemClock()
    first = clock.monotonic_ns()
    assert clock.monotonic_ns() >= first
    assert clock.utc().tzinfo is UTC
