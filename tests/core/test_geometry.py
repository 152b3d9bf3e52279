import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgekit.core.errors import BadInput
from edgekit.core.geometry import (
    CentreCrop,
    Exact,
    FitHeight,
    Letterbox,
    Placement,
    ShortSide,
    ShortSideAtLeast,
    fit,
    geometry_of,
)


def test_each_step_places_as_its_source_does() -> None:
    assert ShortSide(256).place(375, 500) == Placement.whole(256, 341)  # torchvision: int(256 * 500 / 375)
    assert ShortSide(256).place(256, 301) == Placement.whole(256, 301)
    assert ShortSideAtLeast(736, 32).place(600, 800) == Placement.whole(736, 992)
    assert ShortSideAtLeast(736, 32).place(1000, 2000) == Placement.whole(992, 1984)
    assert Letterbox(416, 416).place(277, 416) == Placement(277, 416, 416, 416)
    assert Letterbox(416, 416).place(480, 640) == Placement(312, 416, 416, 416)
    assert Letterbox(100, 100, "centre").place(10, 20) == Placement(50, 100, 100, 100, 25, 0)
    assert FitHeight(48).place(29, 377) == Placement.whole(48, 624)
    assert FitHeight(48, 192).place(29, 377) == Placement.whole(48, 192)
    assert CentreCrop(224, 224).place(256, 341) == Placement(256, 341, 224, 224, -16, -58)
    assert CentreCrop(4, 4).place(2, 2) == Placement(2, 2, 4, 4, 1, 1)


@given(st.integers(1, 5000), st.integers(1, 5000), st.integers(1, 700), st.integers(1, 700))
def test_a_letterbox_fills_one_side_exactly_and_fits(height: int, width: int, high: int, wide: int) -> None:
    placed = Letterbox(high, wide).place(height, width)
    assert 1 <= placed.height <= high
    assert 1 <= placed.width <= wide
    assert placed.height == high or placed.width == wide


steps = st.lists(
    st.sampled_from(
        [
            ShortSide(50),
            Exact(40, 60),
            Letterbox(64, 32),
            Letterbox(64, 32, "centre"),
            CentreCrop(30, 30),
            FitHeight(24),
        ]
    ),
    min_size=1,
    max_size=3,
).map(tuple)


@given(steps, st.integers(20, 90), st.integers(20, 90), st.floats(0, 1), st.floats(0, 1))
def test_a_point_goes_to_the_frame_and_back(
    chain: tuple[ShortSide, ...], height: int, width: int, down: float, across: float
) -> None:
    geometry = geometry_of(chain, height, width)
    y, x = down * height, across * width
    framed = np.array([x * geometry.scale[1] + geometry.offset[1], y * geometry.scale[0] + geometry.offset[0]])
    np.testing.assert_allclose(geometry.to_source(framed), [x, y], atol=1e-3)


@pytest.mark.parametrize(
    "chain", [(Letterbox(80, 64, "centre"),), (ShortSide(100), CentreCrop(90, 90)), (Exact(90, 20),)]
)
def test_pixels_go_where_the_geometry_says(chain: tuple[Letterbox, ...]) -> None:
    """A bright block in the source lies where its mapped box is in the frame."""
    source = np.zeros((60, 120, 3), np.uint8)
    source[20:40, 40:80] = 255
    framed = fit(source, chain)
    geometry = geometry_of(chain, 60, 120)
    assert framed.shape[:2] == geometry.frame
    ys, xs = np.nonzero(framed[:, :, 0] > 180)  # above the fill
    found = np.array([[xs.min(), ys.min(), xs.max() + 1, ys.max() + 1]], np.float32)
    np.testing.assert_allclose(geometry.boxes_to_source(found), [[40, 20, 80, 40]], atol=4)


def test_boxes_are_clipped_to_the_picture() -> None:
    geometry = geometry_of((Letterbox(100, 100),), 50, 100)
    assert geometry.boxes_to_source(np.array([[-5.0, -5.0, 150.0, 99.0]])).tolist() == [[0, 0, 100, 50]]


def test_a_frame_of_no_pixels_or_too_many_is_refused() -> None:
    with pytest.raises(BadInput, match="would make it"):
        geometry_of((ShortSide(256),), 1, 1_000_000)
    with pytest.raises(BadInput, match="would make it"):
        geometry_of((Exact(65_000, 65_000),), 4, 4)
