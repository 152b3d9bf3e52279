"""Constants per output channel go into linear nodes, and nowhere else."""

from collections.abc import Callable

import numpy as np
import onnx_ir as ir
import pytest
from numpy.typing import NDArray

from edgekit.quantize.canonical import constant

Make = Callable[..., ir.Model]
Ops = Callable[[ir.Model], list[str]]
Weights = Callable[..., NDArray[np.float32]]

LINEAR = {
    "Conv": ("float[N,4,6,6] x", "h = Conv(x, w)", (6, 4, 3, 3), (6, 1, 1)),
    "grouped Conv": ("float[N,4,6,6] x", "h = Conv<group = 2>(x, w)", (6, 2, 3, 3), (1, 6, 1, 1)),
    "Conv with bias": ("float[N,4,6,6] x", "h = Conv(x, w, b)", (6, 4, 3, 3), (6, 1, 1)),
    "ConvTranspose": ("float[N,4,6,6] x", "h = ConvTranspose<strides = [2, 2]>(x, w)", (4, 6, 3, 3), (6, 1, 1)),
    "grouped ConvTranspose": ("float[N,4,6,6] x", "h = ConvTranspose<group = 2>(x, w)", (4, 3, 3, 3), (6, 1, 1)),
    "Gemm": ("float[N,4] x", "h = Gemm<transB = 1>(x, w, b)", (6, 4), (6,)),
    "Gemm without bias": ("float[N,4] x", "h = Gemm<transB = 1>(x, w)", (6, 4), (1, 6)),
    "Conv in one dimension": ("float[N,4,9] x", "h = Conv(x, w)", (6, 4, 3), (6, 1)),
}
ELEMENTWISE = ("y = Mul(h, c)", "y = Mul(c, h)", "y = Div(h, c)", "y = Add(h, c)", "y = Sub(h, c)", "y = Sub(c, h)")


@pytest.mark.parametrize("tail", ELEMENTWISE)
@pytest.mark.parametrize("kind", LINEAR)
def test_a_constant_per_channel_behind_a_linear_node_goes_into_it(
    canonical: Make, ops: Ops, weights: Weights, kind: str, tail: str
) -> None:
    inputs, node, shape, channels = LINEAR[kind]
    model = canonical(
        f"({inputs}) => (float y) {{ {node} {tail} }}",
        w=weights(*shape),
        b=weights(6, seed=1),
        c=weights(*channels, seed=2),
    )
    assert ops(model) == [kind.split()[1 if kind.startswith("grouped") else 0]]


@pytest.mark.parametrize("tail", ELEMENTWISE)
@pytest.mark.parametrize("constant", [(), (1,), (1, 1, 1)])
def test_a_single_number_behind_a_convolution_goes_into_it(
    canonical: Make, ops: Ops, weights: Weights, constant: tuple[int, ...], tail: str
) -> None:
    model = canonical(
        f"(float[1,2,4,4] x) => (float y) {{ h = Conv(x, w) {tail} }}",
        w=weights(3, 2, 1, 1),
        c=weights(*constant, seed=1) + np.float32(2),
    )
    assert ops(model) == ["Conv"]


@pytest.mark.parametrize(
    ("shape", "why"),
    [((6,), "runs along the width"), ((1, 1, 1, 1, 1), "adds an axis"), ((5, 1, 1, 1), "repeats the batch")],
)
def test_a_constant_that_is_none_per_channel_stays(
    canonical: Make, ops: Ops, weights: Weights, shape: tuple[int, ...], why: str
) -> None:
    model = canonical(
        "(float[1,4,6,6] x) => (float y) { h = Conv(x, w) y = Mul(h, c) }",
        w=weights(6, 4, 1, 1),
        c=weights(*shape, seed=1),
    )
    assert ops(model) == ["Conv", "Mul"], why


def test_a_linear_node_with_another_reader_keeps_its_weight(canonical: Make, ops: Ops, weights: Weights) -> None:
    model = canonical(
        "(float[1,2,4,4] x) => (float y, float z) { h = Conv(x, w) y = Mul(h, c) z = Relu(h) }",
        w=weights(3, 2, 1, 1),
        c=weights(3, 1, 1, seed=1),
    )
    assert sorted(ops(model)) == ["Conv", "Mul", "Relu"]


def test_a_linear_node_that_is_an_output_keeps_its_weight(canonical: Make, ops: Ops, weights: Weights) -> None:
    model = canonical(
        "(float[1,2,4,4] x) => (float h, float y) { h = Conv(x, w) y = Mul(h, c) }",
        w=weights(3, 2, 1, 1),
        c=weights(3, 1, 1, seed=1),
    )
    assert ops(model) == ["Conv", "Mul"]


def test_a_weight_that_two_nodes_share_is_scaled_for_one_only(canonical: Make, ops: Ops, weights: Weights) -> None:
    model = canonical(
        "(float[1,2,4,4] x) => (float y, float z) { h = Conv(x, w) y = Mul(h, c) z = Conv<strides = [2, 2]>(x, w) }",
        w=weights(3, 2, 1, 1),
        c=weights(3, 1, 1, seed=1),
    )
    assert ops(model) == ["Conv", "Conv"]


def test_a_scale_behind_matmul_and_its_bias_goes_into_both(canonical: Make, ops: Ops, weights: Weights) -> None:
    model = canonical(
        "(float[N,5,4] x) => (float y) { h = MatMul(x, w) i = Add(b, h) y = Mul(i, c) }",
        w=weights(4, 6),
        b=weights(6, seed=1),
        c=weights(6, seed=2),
    )
    assert ops(model) == ["MatMul", "Add"]


def test_matmul_and_its_bias_stay_two_nodes(canonical: Make, ops: Ops, weights: Weights) -> None:
    model = canonical(
        "(float[N,4] x) => (float y) { h = MatMul(x, w) y = Add(h, b) }", w=weights(4, 6), b=weights(6, seed=1)
    )
    assert ops(model) == ["MatMul", "Add"]


@pytest.mark.parametrize(
    "tail", ["y = Add(b, h)", "y = Sub(h, b)", "y = Sub(b, h)", "y = Add(h, row)", "y = Sub(one, h)"]
)
def test_what_is_added_behind_matmul_is_one_value_per_channel(
    canonical: Make, ops: Ops, weights: Weights, tail: str
) -> None:
    arrays = {"b": weights(6, seed=1), "row": weights(1, 6, seed=2), "one": np.float32(1)}
    used = {
        name: a
        for name, a in arrays.items()
        if name in tail[4:].replace("(", " ").replace(",", " ").replace(")", " ").split()
    }
    model = canonical(f"(float[N,4] x) => (float y) {{ h = MatMul(x, w) {tail} }}", w=weights(4, 6), **used)
    assert ops(model) == ["MatMul", "Add"]
    (bias,) = [array for value in list(model.graph)[1].inputs if (array := constant(value)) is not None]
    assert bias.shape == (6,)


def test_a_weight_that_would_leave_float32_keeps_its_scale(canonical: Make, ops: Ops) -> None:
    model = canonical(
        "(float[1,2] x) => (float y) { h = Gemm<transB = 1>(x, w) i = Mul(h, c) y = Clip(i, lo, hi) }",
        w=np.array([[1, 1e38], [1, 1]], np.float32),
        c=np.array([100, 1], np.float32),
        lo=np.float32(-1),
        hi=np.float32(1),
    )
    assert ops(model) == ["Gemm", "Mul", "Clip"]


def test_a_division_by_zero_stays(canonical: Make, ops: Ops, weights: Weights) -> None:
    model = canonical(
        "(float[1,2,4,4] x) => (float y) { h = Conv(x, w) i = Div(h, c) y = Clip(i, lo, hi) }",
        w=weights(2, 2, 1, 1),
        c=np.array([1, 0], np.float32).reshape(2, 1, 1),
        lo=np.float32(-1),
        hi=np.float32(1),
    )
    assert ops(model) == ["Conv", "Div", "Clip"]


BATCH_NORM = "BatchNormalization<epsilon = 0.01>"


def _statistics(weights: Weights, channels: int) -> dict[str, NDArray[np.float32]]:
    return {
        "scale": weights(channels, seed=3),
        "bias": weights(channels, seed=4),
        "mean": weights(channels, seed=5),
        "var": np.abs(weights(channels, seed=6)) + np.float32(0.1),
    }


@pytest.mark.parametrize("kind", LINEAR)
def test_batch_normalization_behind_a_linear_node_goes_into_it(
    canonical: Make, ops: Ops, weights: Weights, kind: str
) -> None:
    inputs, node, shape, _ = LINEAR[kind]
    model = canonical(
        f"({inputs}) => (float y) {{ {node} y = {BATCH_NORM}(h, scale, bias, mean, var) }}",
        w=weights(*shape),
        b=weights(6, seed=1),
        **_statistics(weights, 6),
    )
    assert len(ops(model)) == 1


def test_batch_normalization_of_an_input_is_mul_and_add(canonical: Make, ops: Ops, weights: Weights) -> None:
    model = canonical(
        f"(float[N,3,H,W] x) => (float y) {{ y = {BATCH_NORM}(x, scale, bias, mean, var) }}", **_statistics(weights, 3)
    )
    assert ops(model) == ["Mul", "Add"]


def test_two_nodes_behind_each_other_both_go(canonical: Make, ops: Ops, weights: Weights) -> None:
    model = canonical(
        f"(float[1,2,4,4] x) => (float y) {{ h = Conv(x, w) i = {BATCH_NORM}(h, scale, bias, mean, var) "
        "j = Mul(i, c) k = Add(j, d) y = Relu(k) }",
        w=weights(3, 2, 1, 1),
        c=weights(3, 1, 1, seed=1),
        d=weights(3, 1, 1, seed=2),
        **_statistics(weights, 3),
    )
    assert ops(model) == ["Conv", "Relu"]
