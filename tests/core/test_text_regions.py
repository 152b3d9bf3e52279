import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray

from edgekit.core.text_regions import components, corners, smallest_rectangle


def flooded(mask: NDArray[np.bool_]) -> list[set[tuple[int, int]]]:
    """The 8-connected components, by flood fill."""
    left = {(int(y), int(x)) for y, x in zip(*np.nonzero(mask), strict=True)}
    found = []
    while left:
        front = [left.pop()]
        part = set(front)
        while front:
            y, x = front.pop()
            near = {(y + dy, x + dx) for dy in (-1, 0, 1) for dx in (-1, 0, 1)} & left
            left -= near
            part |= near
            front += near
        found.append(part)
    return found


@settings(max_examples=300, deadline=None)
@given(hnp.arrays(np.bool_, hnp.array_shapes(min_dims=2, max_dims=2, max_side=12)))
def test_components_are_those_of_a_flood_fill(mask: NDArray[np.bool_]) -> None:
    got = [{(int(y), x) for y, start, end in runs for x in range(start, end)} for runs in components(mask)]
    assert sorted(map(sorted, got)) == sorted(map(sorted, flooded(mask)))


def test_a_spiral_is_one_component() -> None:
    mask = np.zeros((41, 41), np.bool_)
    y, x, length = 20, 20, 2
    for turn in range(18):
        dy, dx = ((0, 1), (1, 0), (0, -1), (-1, 0))[turn % 4]
        for _ in range(length):
            mask[y, x] = True
            y, x = y + dy, x + dx
        length += 2 * (turn % 2)
        if not (0 <= y < 41 and 0 <= x < 41):
            break
    assert len(list(components(mask))) == len(flooded(mask))


@given(st.floats(-80, 80), st.floats(30, 60), st.floats(6, 15))
@settings(max_examples=60, deadline=None)
def test_a_turned_rectangle_is_found_within_a_pixel(angle: float, width: float, height: float) -> None:
    across = np.array([np.cos(np.radians(angle)), np.sin(np.radians(angle))])
    y, x = np.mgrid[0:100, 0:100] + 0.5
    offset = np.stack([x - 50, y - 50], axis=-1)
    inside = (abs(offset @ across) <= width / 2) & (abs(offset @ np.array([-across[1], across[0]])) <= height / 2)
    (runs,) = components(inside)
    centre, direction, wide, high = smallest_rectangle(runs)
    assert centre == pytest.approx((50, 50), abs=1)
    found = corners(centre, direction, wide, high)
    area = wide * high
    assert width * height * 0.8 <= area <= (width + 3) * (height + 3)
    assert abs(direction[0]) >= abs(direction[1]) - 1e-9
    assert direction[0] > 0
    sums, differences = found.sum(axis=1), found[:, 0] - found[:, 1]
    assert found[0, 0] < found[1, 0], "the first edge runs to the right"
    assert sums[2] > sums[0]
    assert differences[1] > differences[3]


def test_a_single_pixel_and_a_line_have_rectangles() -> None:
    (runs,) = components(np.array([[True]]))
    assert smallest_rectangle(runs)[2:] == (1.0, 1.0)
    (runs,) = components(np.ones((1, 7), np.bool_))
    assert smallest_rectangle(runs)[2:] == (7.0, 1.0)
