"""Activations are recognised by what they compute, in whatever way they are written."""

from collections.abc import Callable

import numpy as np
import onnx_ir as ir
import pytest

Make = Callable[..., ir.Model]
Ops = Callable[[ir.Model], list[str]]

CONSTANTS = {
    "zero": 0.0,
    "one": 1.0,
    "two": 2.0,
    "three": 3.0,
    "six": 6.0,
    "half": 0.5,
    "sixth": 1 / 6,
    "root2": np.sqrt(2.0),
    "inverse_root2": 1 / np.sqrt(2.0),
    "root_2_pi": np.sqrt(2 / np.pi),
    "cubic": 0.044715,
}
HARD_SWISH = {
    "x * (clip(x + 3, 0, 6) / 6)": "a = Add(x, three) b = Clip(a, zero, six) c = Div(b, six) y = Mul(x, c)",
    "(x * clip(x + 3, 0, 6)) / 6": "a = Add(x, three) b = Clip(a, zero, six) c = Mul(x, b) y = Div(c, six)",
    "a product for the division": "a = Add(three, x) b = Clip(a, zero, six) c = Mul(b, sixth) y = Mul(c, x)",
    "relu and min for the clip": "a = Add(x, three) r = Relu(a) b = Min(r, six) c = Mul(x, b) y = Mul(c, sixth)",
    "min of max": "a = Add(x, three) r = Max(a, zero) b = Min(r, six) c = Mul(x, b) y = Mul(c, sixth)",
    "a division first": "a = Add(x, three) b = Clip(a, zero, six) c = Div(x, six) y = Mul(c, b)",
    "HardSigmoid": "a = HardSigmoid<alpha = 0.16666667>(x) y = Mul(a, x)",
}
GELU = {
    "0.5 x (1 + erf)": "a = Div(x, root2) b = Erf(a) c = Add(b, one) d = Mul(x, c) y = Mul(d, half)",
    "(0.5 x) (1 + erf)": "a = Mul(x, inverse_root2) b = Erf(a) c = Add(one, b) d = Mul(half, x) y = Mul(d, c)",
    "x (0.5 (1 + erf))": "a = Div(x, root2) b = Erf(a) c = Add(b, one) d = Mul(c, half) y = Mul(x, d)",
    "x (1 + erf) / 2": "a = Div(x, root2) b = Erf(a) c = Add(b, one) d = Mul(x, c) y = Div(d, two)",
}
TANH = "e = Mul(d, root_2_pi) t = Tanh(e) f = Add(t, one) g = Mul(x, f) y = Mul(g, half)"
TANH_GELU = {
    "a power": f"a = Pow(x, three) b = Mul(a, cubic) d = Add(x, b) {TANH}",
    "products": f"a = Mul(x, x) b = Mul(a, x) c = Mul(cubic, b) d = Add(x, c) {TANH}",
    "x (1 + c x x)": f"a = Mul(x, x) b = Mul(a, cubic) c = Add(b, one) d = Mul(x, c) {TANH}",
}


def _canonical(make: Make, body: str, **more: float) -> ir.Model:
    values = {**CONSTANTS, **more}
    used = {name: np.float32(v) for name, v in values.items() if name in body.replace("(", " ").replace(",", " ")}
    return make(f"(float[2,300] x) => (float y) {{ {body} }}", **used)


@pytest.mark.parametrize("form", HARD_SWISH)
def test_hard_swish_is_one_node(canonical: Make, ops: Ops, form: str) -> None:
    assert ops(_canonical(canonical, HARD_SWISH[form])) == ["HardSwish"]


@pytest.mark.parametrize("form", GELU)
def test_gelu_is_one_node(canonical: Make, ops: Ops, form: str) -> None:
    model = _canonical(canonical, GELU[form])
    assert ops(model) == ["Gelu"]
    assert "approximate" not in next(iter(model.graph)).attributes


@pytest.mark.parametrize("form", TANH_GELU)
def test_gelu_with_tanh_says_so(canonical: Make, ops: Ops, form: str) -> None:
    model = _canonical(canonical, TANH_GELU[form])
    assert ops(model) == ["Gelu"]
    assert next(iter(model.graph)).attributes["approximate"].as_string() == "tanh"


@pytest.mark.parametrize(
    ("body", "alpha", "beta"),
    [
        ("a = Add(x, three) b = Clip(a, zero, six) y = Div(b, six)", 1 / 6, 0.5),
        ("a = Add(x, three) b = Clip(a, zero, six) y = Mul(b, sixth)", 1 / 6, 0.5),
        ("a = Mul(x, half) b = Add(a, half) y = Clip(b, zero, one)", 0.5, 0.5),
        ("a = Div(x, six) b = Add(a, half) y = Clip(b, zero, one)", 1 / 6, 0.5),
    ],
)
def test_hard_sigmoid_is_one_node_with_its_slope(
    canonical: Make, ops: Ops, body: str, alpha: float, beta: float
) -> None:
    model = _canonical(canonical, body)
    assert ops(model) == ["HardSigmoid"]
    found = next(iter(model.graph)).attributes
    assert found["alpha"].as_float() == pytest.approx(alpha, rel=1e-6)
    assert "beta" not in found or found["beta"].as_float() == pytest.approx(beta, rel=1e-6)


@pytest.mark.parametrize(
    "body",
    [
        "a = Add(x, two) b = Clip(a, zero, six) c = Mul(x, b) y = Div(c, six)",
        "a = Div(x, two) b = Erf(a) c = Add(b, one) d = Mul(x, c) y = Mul(d, half)",
        "a = Sigmoid(x) y = Mul(a, x)",
        "y = Clip(x, zero, six)",
    ],
)
def test_what_only_looks_alike_stays(canonical: Make, ops: Ops, body: str) -> None:
    assert not {"HardSwish", "Gelu", "HardSigmoid"} & set(ops(_canonical(canonical, body)))


def test_a_part_that_others_read_is_kept_for_them(canonical: Make, ops: Ops) -> None:
    body = "a = Add(x, three) b = Clip(a, zero, six) c = Mul(x, b) y = Div(c, six) z = Relu(c)"
    model = canonical(
        f"(float[2,30] x) => (float y, float z) {{ {body} }}",
        three=np.float32(3),
        zero=np.float32(0),
        six=np.float32(6),
    )
    assert "HardSwish" not in ops(model)


def test_an_activation_of_a_convolution_is_found_before_its_constant_goes_into_the_weight(
    canonical: Make, ops: Ops
) -> None:
    model = canonical(
        "(float[1,2,4,4] x) => (float y) { h = Conv(x, w) a = Add(h, three) b = Clip(a, zero, six) y = Div(b, six) }",
        w=np.random.default_rng(0).standard_normal((3, 2, 1, 1)).astype(np.float32),
        three=np.float32(3),
        zero=np.float32(0),
        six=np.float32(6),
    )
    assert ops(model) == ["Conv", "HardSigmoid"]


NORM = "m = ReduceMean(x, axes) d = Sub(x, m) "
LAYER_NORM = {
    "a power and a quotient": "s = Pow(d, two) v = ReduceMean(s, axes) e = Add(v, eps) r = Sqrt(e) n = Div(d, r)",
    "a product": "s = Mul(d, d) v = ReduceMean(s, axes) e = Add(eps, v) r = Sqrt(e) n = Div(d, r)",
    "a reciprocal": "s = Mul(d, d) v = ReduceMean(s, axes) e = Add(v, eps) r = Sqrt(e) i = Reciprocal(r) n = Mul(d, i)",
    "one over it": "s = Pow(d, two) v = ReduceMean(s, axes) e = Add(v, eps) r = Sqrt(e) i = Div(one, r) n = Mul(i, d)",
}
TAILS = {"nothing": "y = Identity(n)", "scale": "y = Mul(n, g)", "scale and bias": "t = Mul(g, n) y = Add(t, b)"}


@pytest.mark.parametrize("axes", [[-1], [2], [1, 2]])
@pytest.mark.parametrize("tail", TAILS)
@pytest.mark.parametrize("form", LAYER_NORM)
def test_layer_normalization_is_one_node(canonical: Make, ops: Ops, form: str, tail: str, axes: list[int]) -> None:
    rng = np.random.default_rng(0)
    body = NORM + LAYER_NORM[form] + " " + TAILS[tail]
    arrays = {
        "axes": np.array(axes, np.int64),
        "eps": np.float32(1e-5),
        "two": np.float32(2),
        "one": np.float32(1),
        "g": rng.standard_normal(8).astype(np.float32),
        "b": rng.standard_normal(8).astype(np.float32),
    }
    used = {
        name: a
        for name, a in arrays.items()
        if name in body.replace("(", " ").replace(",", " ").replace(")", " ").split()
    }
    model = canonical(f"(float[N,4,8] x) => (float y) {{ {body} }}", **used)
    assert ops(model) == ["LayerNormalization"]


def test_a_normalization_over_other_axes_stays(canonical: Make, ops: Ops) -> None:
    body = NORM + LAYER_NORM["a product"] + " y = Identity(n)"
    model = canonical(f"(float[2,4,8] x) => (float y) {{ {body} }}", axes=np.array([1], np.int64), eps=np.float32(1e-5))
    assert "LayerNormalization" not in ops(model)
