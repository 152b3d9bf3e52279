"""A rewrite that changes the result is found, named and left out."""

from collections.abc import Callable

import numpy as np
import onnx_ir as ir
import pytest
from numpy.typing import NDArray

import edgekit.build.rewrite as rewrite
from edgekit.build.rewrite import Pass, canonicalize
from edgekit.build.rewrite.matching import nodes, set_constant
from edgekit.build.rewrite.proof import Prover, difference

Make = Callable[..., ir.Model]
Weights = Callable[..., NDArray[np.float32]]
SMALL = "(float[N,2,4,4] x) => (float y) { h = Conv(x, w) y = Mul(h, c) }"


def _spoil(model: ir.Model) -> bool:
    """Weights grow by a thousandth, once."""
    for node in nodes(model, "Conv"):
        if "spoilt" not in node.metadata_props:
            node.metadata_props["spoilt"] = "yes"
            weight = node.inputs[1]
            assert weight is not None
            assert weight.const_value is not None
            set_constant(node, 1, "w", weight.const_value.numpy() * np.float32(1.001))
            return True
    return False


def test_a_pass_that_changes_the_result_is_left_out_and_named(
    graph: Make, weights: Weights, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = graph(SMALL, w=weights(3, 2, 1, 1), c=weights(3, 1, 1, seed=1))
    monkeypatch.setattr(rewrite, "PASSES", (*rewrite.PASSES, Pass("spoil", _spoil)))
    after, notes = canonicalize(before)
    assert len(notes) == 1
    assert "'spoil' was left out: output 'y' differs by" in notes[0]
    assert [node.op_type for node in after.graph] == ["Conv"]  # the others still did their work


@pytest.mark.parametrize("by", [1.001, -3.0])
def test_a_size_given_as_a_float_does_not_excuse_a_wrong_weight(graph: Make, weights: Weights, by: float) -> None:
    text = '(float[1,2,16,16] x) => (float y) { a = Resize<mode="nearest">(x, , scales) y = Conv(a, w) }'
    scales, w = np.array([1, 1, 2, 2], np.float32), weights(3, 2, 1, 1)
    prover = Prover(graph(text, scales=scales, w=w))
    assert prover.verdict(graph(text, scales=scales, w=w)).holds
    assert not prover.verdict(graph(text, scales=scales, w=w * np.float32(by))).holds


def test_a_size_that_is_computed_from_floats_does_not_excuse_a_wrong_weight(graph: Make, weights: Weights) -> None:
    text = (
        "(float[1,2,8,8] x) => (float y) { s = Mul(size, twice) i = Cast<to=7>(s)"
        " r = ConstantOfShape<value=float[1] {1}>(i) m = ReduceSum(r) a = Mul(x, m) y = Conv(a, w) }"
    )
    numbers = {"size": np.array([3], np.float32), "twice": np.array([2], np.float32)}
    w = weights(3, 2, 1, 1)
    prover = Prover(graph(text, w=w, **numbers))
    assert not prover.verdict(graph(text, w=w * np.float32(1.5), **numbers)).holds


def test_a_graph_that_no_longer_loads_does_not_hold(graph: Make, weights: Weights) -> None:
    before = graph(SMALL, w=weights(3, 2, 1, 1), c=weights(3, 1, 1, seed=1))
    after = graph(SMALL, w=weights(3, 2, 1, 1), c=weights(3, 1, 1, seed=1))
    next(nodes(after, "Conv")).op_type = "NoSuchOperator"
    assert Prover(before).verdict(after).difference == "it no longer loads"


def test_equal_models_hold_and_a_changed_weight_does_not(graph: Make, weights: Weights) -> None:
    before = graph(SMALL, w=weights(3, 2, 1, 1), c=weights(3, 1, 1, seed=1))
    prover = Prover(before)
    assert prover.verdict(before).holds
    assert prover.verdict(before).runs == 2
    other = graph(SMALL, w=weights(3, 2, 1, 1) * np.float32(1.01), c=weights(3, 1, 1, seed=1))
    assert not prover.verdict(other).holds


def test_a_network_that_blows_rounding_up_is_judged_by_how_much(graph: Make) -> None:
    text = "(float[1,64] x) => (float y) { a = Add(x, big) b = Sub(a, large) y = Mul(b, b) }"
    before = graph(text, big=np.float32(5e5), large=np.float32(5e5))
    rounded = graph(text, big=np.float32(5e5), large=np.float32(5e5) + np.float32(0.03))
    assert Prover(before).verdict(rounded).holds


def test_a_model_that_no_random_input_suits_is_said_to_be_unproved(graph: Make) -> None:
    before = graph("(string[2] x) => (string y) { y = Identity(x) }")
    assert canonicalize(before)[1] == ("rewrites were not proved: no random inputs suit the model",)


@pytest.mark.parametrize(
    ("got", "wanted", "dtype", "is_same"),
    [
        ([1, 2], [1, 2], "float32", True),
        ([1, 2], [1, 2.1], "float32", False),
        ([1, np.nan], [1, np.nan], "float32", True),
        ([1, np.nan], [1, 2], "float32", False),
        ([1, np.inf], [1, np.inf], "float32", True),
        ([1, -np.inf], [1, np.inf], "float32", False),
        ([[1]], [1], "float32", False),
        ([1, 2], [1, 2], "int64", True),
        ([1, 2], [1, 3], "int64", False),
        ([], [], "float32", True),
        ([True], [False], "bool", False),
    ],
)
def test_difference_is_of_values_and_shapes(got: list[float], wanted: list[float], dtype: str, is_same: bool) -> None:
    assert (difference(np.array(got, dtype), np.array(wanted, dtype)) < 1e-4) == is_same


def test_a_changed_type_is_a_difference() -> None:
    assert difference(np.ones(3, np.float32), np.ones(3, np.float64)) == float("inf")
