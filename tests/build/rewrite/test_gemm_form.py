"""Every Gemm has one form, or is its parts."""

from collections.abc import Callable
from itertools import product

import numpy as np
import onnx_ir as ir
import pytest
from numpy.typing import NDArray

from edgekit.quantize.canonical import constant

Make = Callable[..., ir.Model]
Ops = Callable[[ir.Model], list[str]]
Weights = Callable[..., NDArray[np.float32]]
M, K, N = 5, 3, 4
BIASES = {"": None, "scalar": (), "one": (1,), "row": (N,), "row of two axes": (1, N), "all one": (1, 1)}

FORMS = list(product((0, 1), (0, 1), (1.0, 0.5), (1.0, -2.0)))


def _text(trans_a: int, trans_b: int, alpha: float, beta: float, operands: str, inputs: str = "") -> str:
    a = f"float[{K},{M}] a" if trans_a else f"float[{M},{K}] a"
    attributes = f"transA = {trans_a}, transB = {trans_b}, alpha = {alpha}, beta = {beta}"
    return f"({a}{inputs}) => (float y) {{ y = Gemm<{attributes}>({operands}) }}"


@pytest.mark.parametrize(("trans_a", "trans_b", "alpha", "beta"), FORMS)
@pytest.mark.parametrize("bias", BIASES)
def test_constant_weights_come_transposed_and_scaled_with_a_flat_bias(
    canonical: Make, ops: Ops, weights: Weights, bias: str, trans_a: int, trans_b: int, alpha: float, beta: float
) -> None:
    shape = BIASES[bias]
    arrays = {"b": weights(N, K) if trans_b else weights(K, N)}
    if shape is not None:
        arrays["c"] = np.asarray(weights(*shape, seed=1))
    model = canonical(_text(trans_a, trans_b, alpha, beta, "a, b" if shape is None else "a, b, c"), **arrays)
    assert ops(model) == ["Transpose"] * trans_a + ["Gemm"]
    gemm = list(model.graph)[-1]
    assert {name: a.value for name, a in gemm.attributes.items()} == {"transB": 1}
    weight = constant(gemm.inputs[1])
    assert weight is not None
    assert weight.shape == (N, K)
    if shape is not None:
        flat = constant(gemm.inputs[2])
        assert flat is not None
        assert flat.shape == (N,)


@pytest.mark.parametrize("shape", [(M, 1), (M, N)])
def test_a_bias_that_differs_from_row_to_row_is_added_behind(
    canonical: Make, ops: Ops, weights: Weights, shape: tuple[int, ...]
) -> None:
    model = canonical(_text(0, 1, 1.0, 0.5, "a, b, c"), b=weights(N, K), c=weights(*shape, seed=1))
    assert ops(model) == ["Gemm", "Add"]


def test_a_computed_bias_is_scaled_and_added_behind(canonical: Make, ops: Ops, weights: Weights) -> None:
    model = canonical(_text(0, 0, 1.0, 0.5, "a, b, c", f", float[{N}] c"), b=weights(K, N))
    assert sorted(ops(model)) == ["Add", "Gemm", "Mul"]


@pytest.mark.parametrize(("trans_a", "trans_b", "alpha", "beta"), FORMS)
def test_computed_weights_make_it_a_product_of_its_parts(
    canonical: Make, ops: Ops, weights: Weights, trans_a: int, trans_b: int, alpha: float, beta: float
) -> None:
    b = f"float[{N},{K}] b" if trans_b else f"float[{K},{N}] b"
    model = canonical(_text(trans_a, trans_b, alpha, beta, "a, b, c", f", {b}"), c=weights(N))
    assert ops(model).count("Transpose") == trans_a + trans_b
    assert "Gemm" not in ops(model)
    assert "MatMul" in ops(model)
    assert ops(model)[-1] == "Add"
