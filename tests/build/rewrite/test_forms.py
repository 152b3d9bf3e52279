"""Clips, views, transposes, shape chains and nodes that do nothing."""

from collections.abc import Callable

import numpy as np
import onnx_ir as ir
import pytest
from numpy.typing import NDArray

from edgekit.build.rewrite import canonicalize
from edgekit.quantize.canonical import CANONICAL_OPSET, constant, ints

Make = Callable[..., ir.Model]
Ops = Callable[[ir.Model], list[str]]
Weights = Callable[..., NDArray[np.float32]]
LARGEST = np.finfo(np.float32).max


def _numbers(**values: float) -> dict[str, np.float32]:
    return {name: np.float32(value) for name, value in values.items()}


@pytest.mark.parametrize(
    ("body", "values", "wanted"),
    [
        ("y = Clip(x, a)", {"a": 0}, ["Relu"]),
        ("y = Clip(x, a, b)", {"a": 0, "b": float(LARGEST)}, ["Relu"]),
        ("y = Max(x, a)", {"a": 0}, ["Relu"]),
        ("y = Max(a, x)", {"a": -1}, ["Clip"]),
        ("y = Min(x, a)", {"a": 1}, ["Clip"]),
        ("h = Max(x, a) y = Min(h, b)", {"a": -1, "b": 2}, ["Clip"]),
        ("h = Relu(x) y = Clip(h, a, b)", {"a": -1, "b": 6}, ["Clip"]),
        ("h = Clip(x, a, b) y = Relu(h)", {"a": -1, "b": 6}, ["Clip", "Relu"]),
        ("h = Clip(x, a, b) y = Clip(h, c)", {"a": -1, "b": 1, "c": 3}, ["Clip", "Clip"]),  # bounds that lie apart
        ("h = Clip(x, a, b) y = Neg(h)", {"a": -float("inf"), "b": float("inf")}, ["Neg"]),
    ],
)
def test_bounds_have_one_form(
    canonical: Make, ops: Ops, body: str, values: dict[str, float], wanted: list[str]
) -> None:
    assert ops(canonical(f"(float[3,4] x) => (float y) {{ {body} }}", **_numbers(**values))) == wanted


def test_bounds_of_one_element_become_scalars(canonical: Make) -> None:
    model = canonical("(float[3,4] x) => (float y) { y = Clip(x, a, b) }", a=np.float32(-1), b=np.array(1, np.float32))
    (clip,) = model.graph
    assert [getattr(constant(v), "shape", None) for v in clip.inputs[1:]] == [(), ()]


def test_an_upper_bound_alone_leaves_the_lower_out(canonical: Make) -> None:
    model = canonical("(float[3,4] x) => (float y) { y = Clip(x, a, b) }", **_numbers(a=-float(LARGEST), b=2))
    (clip,) = model.graph
    assert clip.inputs[1] is None
    assert constant(clip.inputs[2]) == 2


def test_computed_bounds_are_max_and_min(canonical: Make, ops: Ops) -> None:
    model = canonical("(float[3,4] x, float low, float high) => (float y) { h = Clip(x, low, high) y = Neg(h) }")
    assert ops(model) == ["Max", "Min", "Neg"]


def test_whole_numbers_keep_their_clip(canonical: Make, ops: Ops) -> None:
    model = canonical("(int32[3,4] x) => (int32 y) { y = Clip(x, a) }", a=np.int32(0))
    assert ops(model) == ["Clip"]


@pytest.mark.parametrize(
    ("inputs", "body", "wanted"),
    [
        ("float[N,3,4,4] x", "y = Reshape(x, s)", ["Flatten"]),
        ("float[N,3,4,4] x", "h = GlobalAveragePool(x) y = Squeeze(h, axes)", ["GlobalAveragePool", "Flatten"]),
        ("float[N,3,4,4] x", "y = ReduceMean<keepdims = 0>(x, axes)", ["GlobalAveragePool", "Flatten"]),
        ("float[N,3,4,4] x", "y = ReduceMean(x, axes)", ["GlobalAveragePool"]),
        ("float[2,3,4,4] x", "y = Flatten<axis = -3>(x)", ["Flatten"]),
    ],
)
def test_views_that_keep_the_first_axis_are_flatten(
    canonical: Make, ops: Ops, inputs: str, body: str, wanted: list[str]
) -> None:
    arrays = {"s": np.array([0, -1], np.int64), "axes": np.array([2, 3], np.int64)}
    used = {name: a for name, a in arrays.items() if f", {name})" in body}
    assert ops(canonical(f"({inputs}) => (float y) {{ {body} }}", **used)) == wanted


@pytest.mark.parametrize(
    "chain",
    [
        "s = Shape(x) n = Gather(s, zero) u = Unsqueeze(n, first) t = Concat<axis = 0>(u, rest)",
        "s = Shape<start = 0, end = 1>(x) t = Concat<axis = 0>(s, rest)",
        "s = Shape(x) n = Slice(s, first, until) t = Concat<axis = 0>(n, rest)",
        "s = Shape(x) n = Gather(s, first) t = Concat<axis = 0>(n, rest)",
    ],
)
def test_a_reshape_to_sizes_of_its_input_has_a_constant_target(canonical: Make, ops: Ops, chain: str) -> None:
    arrays = {
        "zero": np.int64(0),
        "first": np.array([0], np.int64),
        "until": np.array([1], np.int64),
        "rest": np.array([-1], np.int64),
    }
    used = {name: a for name, a in arrays.items() if f"{name})" in chain or f"{name}," in chain}
    model = canonical(f"(float[N,3,4,4] x) => (float y) {{ {chain} y = Reshape(x, t) }}", **used)
    assert ops(model) == ["Flatten"]


def test_heads_are_split_and_joined_by_constant_targets(canonical: Make, ops: Ops) -> None:
    model = canonical(
        """(float[N,S,12] x) => (float y) {
            s = Shape(x) n = Gather(s, i) m = Gather(s, j)
            nn = Unsqueeze(n, a) mm = Unsqueeze(m, a)
            t = Concat<axis = 0>(nn, mm, heads, wide) h = Reshape(x, t)
            p = Transpose<perm = [0, 2, 1, 3]>(h) q = Relu(p) r = Transpose<perm = [0, 2, 1, 3]>(q)
            u = Concat<axis = 0>(nn, mm, all) y = Reshape(r, u) }""",
        i=np.int64(0),
        j=np.int64(1),
        a=np.array([0], np.int64),
        heads=np.array([3], np.int64),
        wide=np.array([4], np.int64),
        all=np.array([12], np.int64),
    )
    assert "Shape" not in ops(model)
    assert "Transpose" not in ops(model)


def test_a_shape_that_is_an_output_stays_computed(canonical: Make, ops: Ops) -> None:
    assert ops(canonical("(float[N,3] x) => (int64 y) { y = Shape(x) }")) == ["Shape"]


@pytest.mark.parametrize(
    ("body", "wanted"),
    [
        ("a = Transpose<perm = [0, 2, 3, 1]>(x) b = Transpose<perm = [0, 3, 1, 2]>(a) y = Neg(b)", ["Neg"]),
        (
            "a = Transpose<perm = [0, 2, 3, 1]>(x) b = Transpose<perm = [0, 2, 3, 1]>(a) y = Neg(b)",
            ["Transpose", "Neg"],
        ),
        (
            "a = Transpose<perm = [0, 2, 3, 1]>(x) b = Relu(a) c = Mul(b, k) y = Transpose<perm = [0, 3, 1, 2]>(c)",
            ["Relu", "Mul"],
        ),
        ("a = Transpose<perm = [0, 1, 2, 3]>(x) y = Neg(a)", ["Neg"]),
        (
            "a = Transpose<perm = [0, 2, 3, 1]>(x) b = Softmax(a) y = Transpose<perm = [0, 3, 1, 2]>(b)",
            ["Transpose", "Softmax", "Transpose"],
        ),
    ],
)
def test_transposes_that_cancel_go(canonical: Make, ops: Ops, body: str, wanted: list[str]) -> None:
    arrays = {"k": np.float32(2)} if ", k)" in body else {}
    assert ops(canonical(f"(float[N,2,3,4] x) => (float y) {{ {body} }}", **arrays)) == wanted


def test_merged_transposes_compose_in_order(canonical: Make) -> None:
    model = canonical(
        "(float[2,3,4] x) => (float y) { a = Transpose<perm = [1, 2, 0]>(x) y = Transpose<perm = [0, 2, 1]>(a) }"
    )
    (node,) = model.graph
    assert ints(node, "perm") == (1, 0, 2)


@pytest.mark.parametrize(
    "body",
    [
        "a = Identity(x) y = Neg(a)",
        "a = Cast<to = 1>(x) y = Neg(a)",
        "a = Reshape(x, same) y = Neg(a)",
        "a = Unsqueeze(x, one) b = Squeeze(a, one) y = Neg(b)",
        "a = Slice(x, zeros, ends) y = Neg(a)",
        "a = Pad(x, none) y = Neg(a)",
        "a = Concat<axis = 0>(x) y = Neg(a)",
        "a = Expand(x, same) y = Neg(a)",
        "a = Reshape(x, flat) b = Reshape(a, same) y = Neg(b)",
        "a = Sum(x) y = Neg(a)",
    ],
)
def test_nodes_that_do_nothing_go(canonical: Make, ops: Ops, body: str) -> None:
    arrays = {
        "same": np.array([3, 4], np.int64),
        "flat": np.array([12], np.int64),
        "one": np.array([1], np.int64),
        "zeros": np.array([0, 0], np.int64),
        "ends": np.array([3, 9], np.int64),
        "none": np.zeros(4, np.int64),
    }
    used = {name: a for name, a in arrays.items() if f"{name})" in body or f"{name}," in body}
    assert ops(canonical(f"(float[3,4] x) => (float y) {{ {body} }}", **used)) == ["Neg"]


ITS_OWN = np.array([1, 2, 6, 6], np.int64)
CROPPED = np.array([0, 0, 0.2, 0.2, 1, 1, 0.8, 0.8], np.float32)


@pytest.mark.parametrize(
    ("shape", "resize", "arrays", "goes"),
    [
        ("1,2,6,6", 'Resize<mode="linear">(x, , , to)', {"to": ITS_OWN}, True),
        (
            "1,2,6,6",
            'Resize<mode="cubic", coordinate_transformation_mode="align_corners">(x, , , to)',
            {"to": ITS_OWN},
            True,
        ),
        ("N,2,H,W", 'Resize<mode="nearest">(x, , by)', {"by": np.ones(4, np.float32)}, True),
        ("N,2,H,W", 'Resize<mode="nearest">(x, , , to)', {"to": ITS_OWN}, False),  # 6 is not what H is
        ("1,2,6,6", 'Resize<mode="linear">(x, , by)', {"by": np.array([1, 1, 1.1, 1.1], np.float32)}, False),
        (
            "1,2,6,6",
            'Resize<mode="linear", coordinate_transformation_mode="tf_crop_and_resize">(x, crop, , to)',
            {"crop": CROPPED, "to": ITS_OWN},
            False,
        ),
    ],
)
def test_a_resize_to_the_size_that_is_there_goes_and_any_other_stays(
    canonical: Make, ops: Ops, shape: str, resize: str, arrays: dict[str, NDArray[np.generic]], goes: bool
) -> None:
    found = ops(canonical(f"(float[{shape}] x) => (float y) {{ a = {resize} y = Neg(a) }}", **arrays))
    assert found == (["Neg"] if goes else ["Resize", "Neg"])


def test_an_echoed_input_comes_through_an_identity(canonical: Make, ops: Ops) -> None:
    model = canonical("(float[3] x) => (float y, float z) { y = Identity(x) z = Relu(x) }")
    assert sorted(ops(model)) == ["Identity", "Relu"]


def test_an_output_given_twice_has_both_names(canonical: Make) -> None:
    model = canonical("(float[3] x) => (float y, float z) { y = Relu(x) z = Identity(y) }")
    assert [value.name for value in model.graph.outputs] == ["y", "z"]


@pytest.mark.parametrize(("op", "last"), [("HardSwish", "HardSwish"), ("Gelu", "Gelu"), ("Mish", "Mul")])
def test_an_operator_that_the_engine_expands_keeps_its_name(graph: Make, op: str, last: str) -> None:
    before = graph(f"(float[1,4] x) => (float y) {{ a = {op}(x) b = {op}(a) y = Sigmoid(b) }}")
    for node, name in zip(before.graph, ("one", "two", "end"), strict=True):
        node.name = name
    after, _ = canonicalize(before)
    kept = {node.name: node.op_type for node in after.graph}
    assert (kept["one"], kept["two"], kept["end"]) == (last, last, "Sigmoid")
    assert len(kept) == len(after.graph)


def test_an_output_keeps_its_name_when_its_node_goes(canonical: Make, ops: Ops, weights: Weights) -> None:
    model = canonical(
        "(float[1,2,3,3] x) => (float out) { h = Conv(x, w) out = Add(h, b) }",
        w=weights(2, 2, 1, 1),
        b=weights(2, 1, 1),
    )
    assert ops(model) == ["Conv"]
    assert model.graph.outputs[0].name == "out"


def test_large_constants_are_not_made(graph: Make) -> None:
    before = graph(
        "(float[1,1] x) => (float y) { big = ConstantOfShape(shape) y = Mul(big, x) }",
        shape=np.array([4096, 4096], np.int64),
    )
    after, _ = canonicalize(before)
    assert sum(v.const_value.nbytes for v in after.graph.initializers.values() if v.const_value is not None) < 1024


def test_the_graph_that_was_given_is_not_changed(graph: Make, weights: Weights) -> None:
    before = graph(
        "(float[1,2,4,4] x) => (float y) { h = Conv(x, w) i = Mul(h, c) y = Identity(i) }",
        w=weights(2, 2, 1, 1),
        c=weights(2, 1, 1),
    )
    raw = ir.to_proto(before).SerializeToString(deterministic=True)
    canonicalize(before)
    assert ir.to_proto(before).SerializeToString(deterministic=True) == raw


@pytest.mark.parametrize("guard", ["Max(m, low)", "Clip(m, low)"])
def test_the_guard_of_an_attention_mask_against_infinity_stays(canonical: Make, ops: Ops, guard: str) -> None:
    model = canonical(
        f"(float[2,4] x) => (float y) {{ m = Sub(x, infinity) g = {guard} y = Softmax(g) }}",
        infinity=np.array([np.inf, np.inf, np.inf, np.inf], np.float32),
        low=np.float32(-LARGEST),
    )
    assert ops(model) == ["Sub", guard[: guard.index("(")], "Softmax"]


def test_a_large_weight_that_is_turned_is_folded(canonical: Make, ops: Ops, weights: Weights) -> None:
    model = canonical(
        "(float[1,600] x) => (float y) { t = Transpose<perm = [1, 0]>(w) y = MatMul(x, t) }", w=weights(700, 600)
    )
    assert ops(model) == ["MatMul"]


def test_a_constant_that_the_engine_leaves_computed_brings_no_domain_of_its_own(graph: Make, ops: Ops) -> None:
    integers, scale = np.ones((3, 2, 1, 1), np.int8), np.float32(0.1)
    before = graph("(float[1,2,4,4] x) => (float y) { w = DequantizeLinear(q, s) y = Conv(x, w) }", q=integers, s=scale)
    after, _ = canonicalize(before)
    assert ops(after) == ["DequantizeLinear", "Conv"]
    assert after.graph.opset_imports == {"": CANONICAL_OPSET}


def test_attributes_are_in_the_order_of_their_names(canonical: Make, weights: Weights) -> None:
    model = canonical(
        "(float[1,2,6,6] x) => (float y) { y = Conv<strides = [2, 2], pads = [1, 1, 1, 1], group = 1>(x, w) }",
        w=weights(3, 2, 3, 3),
    )
    names = list(model.graph[0].attributes)
    assert names == sorted(names)


def test_what_becomes_constant_by_a_known_size_is_folded(canonical: Make, ops: Ops) -> None:
    model = canonical(
        "(float[N,3,4,4] x) => (float y) { s = Shape<start = 1, end = 2>(x) e = Expand(one, s) k = Mul(e, e) "
        "u = Unsqueeze(k, axes) y = Mul(x, u) }",
        one=np.array([2], np.float32),
        axes=np.array([1, 2], np.int64),
    )
    assert ops(model) == ["Mul"]
