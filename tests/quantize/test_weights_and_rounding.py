"""Invariants of weight scales, of the pair bound, and of rounding by output."""

from collections.abc import Callable

import numpy as np
import onnx_ir as ir
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from edgekit.quantize.correction import Corrections, quantize_linear, shrunk_mean
from edgekit.quantize.plan import relative_error
from edgekit.quantize.quantized import QParams
from edgekit.quantize.rounding import covariance, patches, round_by_output
from edgekit.quantize.simulate import real_weight
from edgekit.quantize.solver import Parameters
from edgekit.quantize.weights import (
    LIMIT,
    PAIR_LIMIT,
    WeightSet,
    from_rows,
    round_to_nearest,
    rows_of,
    weight_scales,
)

ROWS = arrays(np.float64, (2, 3, 9), elements=st.floats(-4, 4, width=32))
SETS: tuple[WeightSet, ...] = ("full", "saturation-safe")


def node(op: str, **attributes: object) -> ir.Node:
    """A node with two inputs, for its attributes only."""
    return ir.node(op, [ir.Value(name="x"), ir.Value(name="w")], attributes=attributes, name=op)  # type: ignore[arg-type]


def pair_sums(q: np.ndarray) -> float:
    """The largest sum of two weights of equal sign in any output channel."""
    top = np.sort(np.maximum(q, 0), axis=-1)[..., -2:].sum(-1).max()
    low = np.sort(np.maximum(-q, 0), axis=-1)[..., -2:].sum(-1).max()
    return float(max(top, low))


@given(ROWS)
def test_no_pair_of_safe_weights_passes_sixteen_bits(rows: np.ndarray) -> None:
    scales = weight_scales(rows, "saturation-safe")
    assert pair_sums(round_to_nearest(rows, scales, "saturation-safe")) <= PAIR_LIMIT


@settings(max_examples=30, deadline=None)
@given(ROWS, st.integers(0, 2**31))
def test_no_pair_passes_after_rounding_by_output_either(rows: np.ndarray, seed: int) -> None:
    x = np.random.default_rng(seed).normal(size=(2, 50, 9))
    cov = x.transpose(0, 2, 1) @ x / 50
    scales = weight_scales(rows, "saturation-safe")
    assert pair_sums(round_by_output(rows, scales, cov, "saturation-safe")) <= PAIR_LIMIT


@given(ROWS)
def test_safe_scales_are_never_coarser_than_seven_bits(rows: np.ndarray) -> None:
    largest = np.abs(rows).max(axis=2)
    assert (weight_scales(rows, "saturation-safe") <= np.maximum(largest / 64, 1e-12) * (1 + 1e-12)).all()


@given(ROWS)
def test_full_weights_use_the_whole_range(rows: np.ndarray) -> None:
    q = round_to_nearest(rows, weight_scales(rows, "full"), "full")
    moved = np.abs(rows).max(axis=2) > 1e-6
    assert (np.abs(q).max(axis=2)[moved] == LIMIT).all()


@pytest.mark.parametrize(
    ("op", "attributes", "shape"),
    [
        ("Conv", {}, (6, 4, 3, 3)),
        ("Conv", {"group": 2}, (6, 2, 3, 3)),
        ("Conv", {"group": 4}, (4, 1, 5)),
        ("ConvTranspose", {}, (6, 4, 3, 3)),
        ("ConvTranspose", {"group": 2}, (6, 4, 3, 3)),
        ("Gemm", {"transB": 1}, (5, 7)),
        ("MatMul", {}, (7, 5)),
    ],
)
def test_rows_come_back_in_the_initializers_shape(op: str, attributes: dict[str, int], shape: tuple[int, ...]) -> None:
    weight = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    subject = node(op, **attributes)
    assert np.array_equal(from_rows(subject, rows_of(subject, weight), shape), weight)


@pytest.mark.parametrize("weights", SETS)
def test_rounding_by_output_beats_plain_rounding_in_its_own_metric(weights: WeightSet) -> None:
    rng = np.random.default_rng(5)
    rows = rng.normal(size=(1, 16, 32))
    mixed = rng.normal(size=(400, 8)) @ rng.normal(size=(8, 32)) + 0.1 * rng.normal(size=(400, 32))
    cov = np.cov(mixed.T)[None]
    scales = weight_scales(rows, weights)

    def error(q: np.ndarray) -> float:
        e = rows - q * scales[..., None]
        return float(np.einsum("grk,gkl,grl->", e, cov, e))

    assert error(round_by_output(rows, scales, cov, weights)) < 0.7 * error(round_to_nearest(rows, scales, weights))


def test_full_shrinkage_is_plain_rounding() -> None:
    rng = np.random.default_rng(6)
    rows, x = rng.normal(size=(2, 4, 9)), rng.normal(size=(2, 30, 9))
    scales = weight_scales(rows, "full")
    got = round_by_output(rows, scales, x.transpose(0, 2, 1) @ x, "full", shrinkage=1.0)
    assert np.array_equal(got, round_to_nearest(rows, scales, "full"))


@pytest.mark.parametrize(
    ("attributes", "weight_shape", "input_shape"),
    [
        ({}, (4, 3, 3, 3), (1, 3, 8, 8)),
        ({"strides": [2, 2], "pads": [0, 1, 1, 0]}, (4, 3, 3, 3), (2, 3, 9, 8)),
        ({"dilations": [2, 1], "pads": [2, 1, 2, 1]}, (4, 3, 3, 3), (1, 3, 8, 8)),
        ({"group": 3, "pads": [1, 1, 1, 1]}, (6, 1, 3, 3), (1, 3, 6, 6)),
        ({"strides": [2], "pads": [1, 0]}, (4, 3, 3), (1, 3, 11)),
    ],
)
def test_patches_times_rows_is_the_convolution(
    attributes: dict[str, object], weight_shape: tuple[int, ...], input_shape: tuple[int, ...]
) -> None:
    import onnxruntime
    from onnx import TensorProto, helper

    rng = np.random.default_rng(7)
    w, x = rng.normal(size=weight_shape).astype(np.float32), rng.normal(size=input_shape).astype(np.float32)
    graph = helper.make_graph(
        [helper.make_node("Conv", ["x", "w"], ["y"], **attributes)],  # type: ignore[arg-type]
        "g",
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, a.shape) for n, a in (("x", x), ("w", w))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
    )
    content = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10).SerializeToString()
    want = onnxruntime.InferenceSession(content).run(None, {"x": x, "w": w})[0]
    subject = node("Conv", **attributes)
    rows = np.asarray(rows_of(subject, w), np.float64)
    made = np.einsum("pgk,grk->pgr", patches(subject, x, weight_shape, 0).astype(np.float64), rows)
    flat = np.moveaxis(want, 1, -1).reshape(-1, weight_shape[0])
    np.testing.assert_allclose(made.reshape(len(made), -1), flat, atol=1e-4)


def test_covariance_is_centred() -> None:
    x = np.random.default_rng(8).normal(3, 1, size=(200, 5)).astype(np.float32)
    got = covariance(node("Gemm", transB=1), [x], (4, 5))
    np.testing.assert_allclose(got[0], np.cov(x.T, bias=True), atol=1e-3)


def test_a_correction_that_samples_do_not_agree_on_is_left_out() -> None:
    agreed, noise = np.full(8, 0.5), np.array([1, -1, 1, -1, 1, -1, 1, -0.9])
    got = shrunk_mean(np.stack([agreed, noise], axis=1))
    assert got[0] == pytest.approx(0.5)
    assert got[1] == 0


HARD_INPUTS: dict[str, Callable[[np.random.Generator], np.ndarray]] = {
    "far from zero": lambda rng: 1e4 + rng.normal(size=(300, 24)) * 1e-3,
    "huge": lambda rng: rng.normal(size=(300, 24)) * 1e20,
    "tiny": lambda rng: rng.normal(size=(300, 24)) * 1e-25,
    "constant": lambda rng: np.full((300, 24), 777.7),
    "zero": lambda rng: np.zeros((300, 24)),
    "of uneven columns": lambda rng: rng.normal(size=(300, 24)) * np.logspace(-8, 8, 24),
    "of one direction": lambda rng: rng.normal(size=(300, 1)) * rng.normal(size=(1, 24)) * 1e3 + 1e6,
    "a single row": lambda rng: rng.normal(size=(1, 24)),
    "no row at all": lambda rng: np.zeros((0, 24)),
}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("weights", SETS)
@pytest.mark.parametrize("name", list(HARD_INPUTS))
def test_inputs_that_hardly_say_anything_still_give_near_weights(name: str, weights: WeightSet) -> None:
    rng = np.random.default_rng(9)
    x = HARD_INPUTS[name](rng).astype(np.float32)
    rows = rng.normal(size=(1, 6, 24))
    scales = weight_scales(rows, weights)
    q = round_by_output(rows, scales, covariance(node("Gemm", transB=1), [x, x], (6, 24)), weights)
    assert np.isfinite(q).all()
    assert np.abs(q - rows / scales[..., None]).max() < 12


@pytest.mark.parametrize("granularity", ["channel", "tensor"])
@pytest.mark.parametrize(
    ("op", "attributes", "weight_shape", "input_shape"),
    [
        ("Conv", {}, (6, 4, 3, 3), (1, 4, 8, 8)),
        ("Conv", {"group": 4}, (8, 1, 3, 3), (1, 4, 8, 8)),
        ("Conv", {"group": 2}, (6, 2, 3), (1, 4, 9)),
        ("ConvTranspose", {}, (4, 5, 2, 2), (1, 4, 8, 8)),
        ("ConvTranspose", {"group": 2}, (4, 3, 2, 2), (1, 4, 8, 8)),
        ("Gemm", {"transB": 1}, (6, 7), (5, 7)),
        ("MatMul", {}, (7, 6), (2, 5, 7)),
    ],
)
def test_no_pair_of_any_operator_passes_sixteen_bits(
    op: str, attributes: dict[str, int], weight_shape: tuple[int, ...], input_shape: tuple[int, ...], granularity: str
) -> None:
    rng = np.random.default_rng(12)
    weight = np.abs(rng.standard_cauchy(weight_shape)).astype(np.float32)  # of one sign, a few far larger
    x, w = ir.Value(name="x", type=ir.TensorType(ir.DataType.FLOAT)), ir.Value(name="w", const_value=ir.tensor(weight))
    subject = ir.node(op, [x, w], attributes=attributes, name="n")
    subject.outputs[0].name = "y"
    subject.outputs[0].dtype = w.dtype = ir.DataType.FLOAT
    model = ir.Model(ir.Graph([x], subject.outputs, nodes=[subject], initializers=[w], name="g"), ir_version=10)
    samples = [{"x": rng.normal(size=input_shape).astype(np.float32)} for _ in range(3)]
    made = quantize_linear(
        model,
        frozenset({"n"}),
        Parameters({"x": QParams(0.05, 128)}, {}, frozenset()),
        weights="saturation-safe",
        granularity=granularity,
        corrections=Corrections(round_by_output=True, bias=False),
        samples=samples,
        channel_means={},
        threads=1,
    )
    q = made.weights["n"]
    assert pair_sums(np.asarray(rows_of(subject, q.values), np.float64)) <= PAIR_LIMIT
    assert (made.weights["n"].axis is None) is (granularity == "tensor")
    np.testing.assert_allclose(real_weight(subject, q), weight, atol=float(q.scales.max()) * 40)


def test_a_result_of_another_shape_or_not_finite_is_infinitely_wrong() -> None:
    want = [{"y": np.ones((2, 3), np.float32)}]
    assert relative_error(want, want) == 0
    assert relative_error(want, [{"y": np.ones((1, 3), np.float32)}]) == np.inf
    assert relative_error(want, [{"y": np.full((2, 3), np.nan, np.float32)}]) == np.inf
    assert relative_error([{"y": np.zeros(3, np.int64)}], [{"y": np.ones(3, np.int64)}]) == 0
