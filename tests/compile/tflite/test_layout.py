"""Layout of whole graphs: right values when C = H = W, and no transpose that is not needed."""

from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from edgekit.compile.tflite.axes import as_is, channels_last, permutation, with_new, without
from edgekit.compile.tflite.dims import groups
from edgekit.compile.tflite.views import reshaped_axes

if TYPE_CHECKING:
    from tests.compile.tflite.conftest import Writer

RNG = np.random.default_rng(3)
W = (RNG.standard_normal((6, 6, 3, 3)) * 0.2).astype(np.float32)
X = {"x": RNG.standard_normal((1, 6, 6, 6)).astype(np.float32)}
Node = onnx.NodeProto
Attribute = int | float | str | list[int]


def node(op: str, reads: str, writes: str, **attributes: Attribute) -> Node:
    given: dict[str, Any] = {**attributes}
    return onnx.helper.make_node(op, reads.split(), writes.split(), **given)


def conv(reads: str, writes: str) -> Node:
    return node("Conv", f"{reads} w", writes, pads=[1, 1, 1, 1])


def i64(*values: int) -> NDArray[np.int64]:
    return np.array(values, np.int64)


GRAPHS: dict[str, tuple[list[Node], list[str], dict[str, NDArray[np.generic]], int]] = {
    "residual": ([conv("x", "a"), node("Relu", "a", "r"), conv("r", "c"), node("Add", "c r", "y")], ["y"], {}, 0),
    "squeeze and excite": (
        [
            conv("x", "a"),
            node("GlobalAveragePool", "a", "g"),
            node("Conv", "g s", "e"),
            node("Sigmoid", "e", "t"),
            node("Mul", "a t", "m"),
            conv("m", "y"),
        ],
        ["y"],
        {"s": W[:, :, :1, :1]},
        0,
    ),
    "detection head": (
        [
            conv("x", "a"),
            conv("a", "b"),
            node("Reshape", "a flat", "p"),
            node("Reshape", "b flat", "q"),
            node("Concat", "p q", "k", axis=2),
            node("Transpose", "k", "y", perm=[0, 2, 1]),
        ],
        ["y"],
        {"flat": i64(1, 6, 36)},
        0,
    ),
    "channel shuffle": (
        [
            conv("x", "a"),
            node("Reshape", "a split", "p"),
            node("Transpose", "p", "q", perm=[0, 2, 1, 3, 4]),
            node("Reshape", "q back", "s"),
            conv("s", "y"),
        ],
        ["y"],
        {"split": i64(1, 2, 3, 6, 6), "back": i64(1, 6, 6, 6)},
        1,
    ),
    "flatten order": (
        [conv("x", "a"), node("Flatten", "a", "f"), node("MatMul", "f d", "y")],
        ["y"],
        {"d": np.tile(W.reshape(36, 9), (6, 1))},
        1,
    ),
    "softmax over channels": ([conv("x", "a"), node("Softmax", "a", "y", axis=1)], ["y"], {}, 0),
    "softmax over width": ([conv("x", "a"), node("Softmax", "a", "s", axis=3), conv("s", "y")], ["y"], {}, 2),
    "text columns": (
        [
            conv("x", "a"),
            node("ReduceMean", "a rows", "m", keepdims=0),
            node("Transpose", "m", "t", perm=[0, 2, 1]),
            node("MatMul", "t d", "y"),
        ],
        ["y"],
        {"rows": i64(2), "d": W[0, :, :, 0]},
        0,
    ),
    "elementwise only": ([node("Add", "x b", "y")], ["y"], {"b": W[0, :, :1, :1]}, 0),
    "two outputs of one tensor": (
        [conv("x", "a"), node("Identity", "a", "y"), node("Relu", "a", "z")],
        ["y", "z", "a"],
        {},
        0,
    ),
    "per-width scale": (
        [conv("x", "a"), node("Mul", "a v", "m"), conv("m", "y")],
        ["y"],
        {"v": W[0, 0, 0].repeat(2)},
        0,
    ),
    "attention": (
        [
            node("Reshape", "x rows", "q"),
            node("Transpose", "q", "k", perm=[0, 2, 1]),
            node("MatMul", "q k", "s"),
            node("Softmax", "s", "p", axis=-1),
            node("MatMul", "p q", "y"),
        ],
        ["y"],
        {"rows": i64(1, 36, 6)},
        0,
    ),
}


@pytest.mark.parametrize("name", GRAPHS)
def test_graph_is_right_with_no_needless_transpose(writer: "Writer", name: str) -> None:
    nodes, outputs, constants, transposes = GRAPHS[name]
    used = {n for made in nodes for n in made.input}
    model = writer.graph(nodes, X, outputs, {k: a for k, a in {"w": W, **constants}.items() if k in used})
    want = writer.reference(model, X)
    emitted = writer.float32(model)
    for engine in ("xnnpack", "builtin"):
        ran = writer.litert(emitted, X, engine)
        for output in outputs:
            np.testing.assert_allclose(ran.outputs[output], want[output], rtol=0, atol=2e-5)
        assert Counter(ran.operators)["TRANSPOSE"] == transposes


def test_image_ports_are_channels_last_and_others_as_the_model(writer: "Writer") -> None:
    model = writer.graph(
        [conv("x", "a"), node("ReduceMean", "a axes", "y", keepdims=0)], X, ["a", "y"], {"w": W, "axes": i64(2)}
    )
    emitted = writer.float32(model)
    assert [p.axes for p in emitted.inputs] == [(0, 2, 3, 1)]
    assert [(p.name, p.axes) for p in emitted.outputs] == [("a", (0, 2, 3, 1)), ("y", None)]


OPERATORS = ("Conv", "Relu", "Add", "Mul", "Concat", "Transpose", "Softmax", "ReduceMax", "Reshape", "Slice")


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    steps=st.lists(st.tuples(st.sampled_from(OPERATORS), st.integers(0, 9), st.integers(0, 9)), min_size=2, max_size=9)
)
def test_random_graphs_of_equal_sizes_are_right(writer: "Writer", steps: list[tuple[str, int, int]]) -> None:
    """All tensors are 1 x 6 x 6 x 6: only values can tell a wrong order."""
    values, nodes = ["x"], []
    constants: dict[str, NDArray[np.generic]] = {"w": W, "shape": i64(1, 6, 6, 6), "flat": i64(1, 36, 6)}
    for i, (op, a, b) in enumerate(steps):
        left, right, made = values[a % len(values)], values[b % len(values)], f"v{i}"
        nodes += _step(op, left, right, made, b)
        values.append(made)
    used = {n for made_node in nodes for n in made_node.input}
    constants |= {"first": i64(0), "half": i64(3), "end": i64(6), "one": i64(1), "axis": i64(1)}
    model = writer.graph(
        nodes,
        X,
        [values[-1], values[-2]] if values[-2] != "x" else [values[-1]],
        {k: c for k, c in constants.items() if k in used},
    )
    want = writer.reference(model, X)
    ran = writer.litert(writer.float32(model), X, "builtin")
    for name, y in want.items():
        np.testing.assert_allclose(ran.outputs[name], y, rtol=0, atol=1e-4 * max(1.0, float(np.abs(y).max())))


def test_reshape_of_a_reshape_is_one_reshape(writer: "Writer") -> None:
    """LiteRT 2.3 lets ADD write over a tensor at the other end of a chain of reshapes that is still to be read."""
    names = [("x", "f0"), ("f0", "v0"), ("v0", "f1"), ("f1", "v1")]
    nodes = [node("Reshape", f"{a} {'flat' if b[0] == 'f' else 'shape'}", b) for a, b in names]
    nodes += [node("Add", "x v1", "v2"), node("Add", "v0 v2", "y")]
    model = writer.graph(nodes, X, ["y"], {"flat": i64(1, 36, 6), "shape": i64(1, 6, 6, 6)})
    ran = writer.litert(writer.float32(model), X, "builtin")
    np.testing.assert_allclose(ran.outputs["y"], 3 * X["x"], rtol=1e-6)
    assert ran.operators == ["ADD", "ADD"]


def _step(op: str, left: str, right: str, made: str, pick: int) -> list[Node]:
    perm = [[0, 2, 3, 1], [0, 3, 1, 2], [0, 1, 3, 2], [0, 3, 2, 1]][pick % 4]
    axis = 1 + pick % 3
    match op:
        case "Conv":
            return [conv(left, made)]
        case "Add" | "Mul":
            return [node(op, f"{left} {right}", made)]
        case "Transpose":
            return [node(op, left, made, perm=perm)]
        case "Softmax":
            return [node(op, left, made, axis=axis)]
        case "Reshape":
            return [node(op, f"{left} flat", f"{made}f"), node(op, f"{made}f shape", made)]
        case "ReduceMax":
            return [node(op, f"{left} axis", f"{made}m", keepdims=1), node("Sub", f"{left} {made}m", made)]
        case "Slice" | "Concat":
            halves = [
                node("Slice", f"{v} {s} {e} axis", f"{made}{s}")
                for v, s, e in ((left, "first", "half"), (right, "half", "end"))
            ]
            return [*halves, node("Concat", f"{made}half {made}first", made, axis=1)]
        case _:
            return [node(op, left, made)]


@given(st.permutations(range(4)), st.permutations(range(4)))
def test_permutation_turns_one_order_into_the_other(held: list[int], wanted: list[int]) -> None:
    x = np.arange(120).reshape(2, 3, 4, 5)
    perm = permutation(tuple(held), tuple(wanted))
    np.testing.assert_array_equal(x.transpose(held).transpose(perm), x.transpose(wanted))


@given(st.permutations(range(5)), st.sets(st.integers(0, 4), max_size=3))
def test_new_axes_can_be_taken_out_again(order: list[int], new: set[int]) -> None:
    left = without(tuple(order), sorted(new))
    assert without(with_new(left, sorted(new)), sorted(new)) == left


@given(st.lists(st.sampled_from([1, 2, 3, 4, 6]), min_size=1, max_size=5))
def test_reshape_in_another_order_gives_the_same_values(shape: list[int]) -> None:
    x = np.arange(int(np.prod(shape))).reshape(shape)
    flat = [int(np.prod(shape[:2])), *shape[2:]]
    frame = channels_last(len(shape))
    axes = reshaped_axes(tuple(shape), tuple(flat), frame)
    if axes is not None:
        held = x.transpose(frame).reshape([flat[a] for a in axes])
        np.testing.assert_array_equal(held, x.reshape(flat).transpose(axes))
    assert reshaped_axes(tuple(shape), tuple(flat), as_is(len(shape))) == as_is(len(flat))
    assert groups(tuple(shape), tuple(flat)) is not None
