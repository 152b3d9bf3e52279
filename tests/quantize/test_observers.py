"""Observers: order and batching do not matter, bounds hold what they promise."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from edgekit.core.errors import UsageError
from edgekit.core.presets import PRESETS, preset
from edgekit.quantize.observers import OBSERVERS, Histogram, Interval, observer
from edgekit.quantize.pixels import pixel_params
from edgekit.quantize.solver import params_for

VALUES = arrays(np.float32, st.integers(1, 60), elements=st.floats(-1e4, 1e4, width=32))


@given(st.lists(VALUES, min_size=1, max_size=5), st.randoms())
@pytest.mark.parametrize("name", list(OBSERVERS))
def test_order_and_batching_do_not_change_the_bounds(name: str, parts: list[np.ndarray], random: object) -> None:
    one, many = observer(name), observer(name)
    one.see(np.concatenate(parts))
    for part in reversed(parts):
        many.see(part)
    assert one.bounds() == many.bounds()


@given(VALUES, VALUES)
@example(np.array([-1e-45], np.float32), np.array([1512.0, -536.0], np.float32))
def test_merging_histograms_is_exact(a: np.ndarray, b: np.ndarray) -> None:
    left, right, whole = Histogram(), Histogram(), Histogram()
    left.see(a)
    right.see(b)
    whole.see(np.concatenate([a, b]))
    merged = left.merged(right)
    assert (merged.exponent, merged.first) == (whole.exponent, whole.first)
    assert np.array_equal(merged.counts, whole.counts)


@given(VALUES)
@pytest.mark.parametrize("name", list(OBSERVERS))
def test_bounds_hold_zero_and_stay_within_the_extremes(name: str, values: np.ndarray) -> None:
    seen = observer(name)
    seen.see(values)
    bounds = seen.bounds()
    assert min(values.min(), 0) <= bounds.lo <= 0 <= bounds.hi <= max(values.max(), 0)


def test_percentile_leaves_out_the_rarest_values() -> None:
    seen = observer("percentile")
    seen.see(np.concatenate([np.linspace(0, 1, 100_000), [1000.0]]).astype(np.float32))
    assert seen.bounds().hi < 2


def test_an_unknown_observer_is_named() -> None:
    with pytest.raises(UsageError, match="entropy"):
        observer("entropy")


@given(st.floats(-1e6, 0), st.floats(0, 1e6))
def test_parameters_cover_the_interval_to_half_a_step_and_keep_zero(lo: float, hi: float) -> None:
    params = params_for(Interval(lo, hi))
    assert params.dequantize(params.quantize(np.zeros(1, np.float32)))[0] == 0
    assert params.lo <= lo + 0.51 * params.scale
    assert params.hi >= hi - 0.51 * params.scale


@pytest.mark.parametrize("name", [name for name in PRESETS if name != "raw"])
def test_no_pixel_of_a_preset_falls_on_a_rounding_tie(name: str) -> None:
    preprocess = preset(name)
    levels = preprocess.denormalise_range()
    params = pixel_params(levels, () if preprocess.pad is None else (preprocess.pad.value,))
    exact = levels.astype(np.float64) / params.scale + params.zero_point
    assert np.abs(exact - np.floor(exact) - 0.5).min() > 1e-3
    assert exact.min() >= -0.5
    assert exact.max() <= 255.5
