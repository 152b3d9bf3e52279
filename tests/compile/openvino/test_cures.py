"""What OpenVINO gets wrong is written around, with the same values."""

from collections.abc import Sequence

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from onnx.helper import make_node

from edgekit.compile.onnxruntime.float_emission import emit_float as as_onnx
from edgekit.compile.openvino.checks import refusals
from edgekit.compile.openvino.float_emission import emit_float
from edgekit.core.errors import RuntimeRefuses
from edgekit.runtimes.registry import runtime

F32, I64 = TensorProto.FLOAT, TensorProto.INT64
Info = tuple[str, int, Sequence[int]]


def model(
    nodes: list[onnx.NodeProto], inputs: list[Info], outputs: list[Info], **constants: NDArray[np.generic]
) -> ir.Model:
    for number, node in enumerate(nodes):
        node.name = node.name or f"{node.op_type}_{number}"
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info(*each) for each in inputs],
        [helper.make_tensor_value_info(*each) for each in outputs],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    return ir.from_proto(onnx.shape_inference.infer_shapes(proto))


def agrees_with_onnxruntime(graph: ir.Model, seed: int = 0) -> None:
    rng = np.random.default_rng(seed)
    x = {
        str(v.name): rng.standard_normal([int(str(d)) for d in v.shape or ()]).astype(np.float32)
        for v in graph.graph.inputs
    }
    want = runtime("onnxruntime").load(as_onnx(graph).loadable("onnx"), threads=1)(x)
    got = runtime("openvino").load(emit_float(graph).loadable("ir"), threads=1)(x)
    for name, value in want.items():
        np.testing.assert_allclose(got[name].astype(np.float64), value.astype(np.float64), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("shape", "slope"),
    [
        ((1, 4, 4, 4), (4,)),
        ((1, 4, 4), (4,)),
        ((2, 4, 4), (4,)),
        ((1, 4, 4, 4, 4), (4,)),
        ((1, 4), (4,)),
        ((1, 4, 4, 4), (4, 1, 1)),
        ((1, 4, 4, 4), (1,)),
        ((1, 4, 5, 6), (6,)),
        ((1, 4, 4, 4), ()),
    ],
)
def test_a_slope_lies_along_the_axis_that_onnx_says(shape: tuple[int, ...], slope: tuple[int, ...]) -> None:
    values = np.asarray(np.random.default_rng(1).standard_normal(slope), np.float32)
    graph = model([make_node("PRelu", ["x", "s"], ["y"])], [("x", F32, shape)], [("y", F32, shape)], s=values)
    agrees_with_onnxruntime(graph)


def test_a_slope_behind_dequantize_is_lifted_as_well() -> None:
    nodes = [
        make_node("DequantizeLinear", ["q", "scale", "zero"], ["s"]),
        make_node("PRelu", ["x", "s"], ["y"]),
        make_node("Mul", ["x", "s"], ["z"]),  # another reader of the slope keeps its shape
    ]
    shape = (1, 4, 4, 4)
    constants: dict[str, NDArray[np.generic]] = {
        "q": np.array([100, 140, 20, 250], np.uint8),
        "scale": np.array(0.01, np.float32),
        "zero": np.array(128, np.uint8),
    }
    agrees_with_onnxruntime(model(nodes, [("x", F32, shape)], [("y", F32, shape), ("z", F32, shape)], **constants))


def attention(*, is_output: bool) -> ir.Model:
    """Self-attention whose result is read twice: by a residual, and as an output or by a Sigmoid."""
    rng = np.random.default_rng(2)
    nodes = [
        make_node("Mul", ["x", "gain"], ["o"]),
        make_node("MatMul", ["o", "wq"], ["q"]),
        make_node("MatMul", ["o", "wk"], ["k"]),
        make_node("MatMul", ["o", "wv"], ["v"]),
        make_node("Transpose", ["k"], ["kt"], perm=[0, 2, 1]),
        make_node("MatMul", ["q", "kt"], ["s"]),
        make_node("Mul", ["s", "root"], ["z"]),
        make_node("Softmax", ["z"], ["p"], axis=-1),
        make_node("MatMul", ["p", "v"], ["a" if is_output else "raw"]),
        make_node("Add", ["a" if is_output else "raw", "o"], ["y"]),
    ]
    if not is_output:
        nodes.insert(-1, make_node("Sigmoid", ["raw"], ["a"]))
    shape = (1, 10, 24)
    weights = {name: rng.standard_normal((24, 24)).astype(np.float32) * 0.3 for name in ("wq", "wk", "wv")}
    scalars = {"gain": np.ones(24, np.float32) * 2, "root": np.asarray(np.float32(24**-0.5))}
    return model(nodes, [("x", F32, shape)], [("a", F32, shape), ("y", F32, shape)], **weights, **scalars)


@pytest.mark.parametrize("is_output", [True, False])
def test_attention_whose_result_is_read_twice_compiles(is_output: bool) -> None:
    graph = attention(is_output=is_output)
    assert refusals(graph) == ()  # in a process of its own: without the cure it crashes
    agrees_with_onnxruntime(graph)


def test_int64_values_on_their_way_to_an_output_are_refused_by_name() -> None:
    nodes = [make_node("Add", ["stamp", "one"], ["later"]), make_node("Reshape", ["later", "shape"], ["next"])]
    one, shape = np.array([1], np.int64), np.array([1, 1], np.int64)
    graph = model(nodes, [("stamp", I64, [1])], [("next", I64, [1, 1])], one=one, shape=shape)
    (refusal,) = refusals(graph)
    assert refusal.node == "Reshape_1"
    for word in ("int64", "'stamp'", "'next'"):
        assert word in refusal.reason
    with pytest.raises(RuntimeRefuses, match="stamp"):
        emit_float(graph)


def test_int64_indices_are_taken() -> None:
    nodes = [make_node("Gather", ["table", "ids"], ["e"]), make_node("ArgMax", ["e"], ["best"], axis=-1, keepdims=0)]
    table = np.random.default_rng(0).standard_normal((9, 5)).astype(np.float32)
    graph = model(nodes, [("ids", I64, [1, 6])], [("e", F32, [1, 6, 5]), ("best", I64, [1, 6])], table=table)
    assert refusals(graph) == ()
    session = runtime("openvino").load(emit_float(graph).loadable("ir"), threads=1)
    ids = np.array([[0, 8, 3, -1, 2, 2]], np.int64)
    got = session({"ids": ids})
    np.testing.assert_array_equal(got["e"], table[ids])
    np.testing.assert_array_equal(got["best"], table[ids].argmax(-1))
    assert got["best"].dtype == np.int64


def test_an_operator_that_nothing_knows_is_named() -> None:
    graph = model([make_node("Reluu", ["x"], ["y"], "odd one")], [("x", F32, [1, 3])], [("y", F32, [1, 3])])
    (refusal,) = refusals(graph)
    assert (refusal.node, refusal.op) == ("odd one", "Reluu")


def test_text_is_refused_by_name() -> None:
    text: Info = ("words", TensorProto.STRING, [2])
    graph = model([make_node("Identity", ["words"], ["same"], "echo")], [text], [("same", TensorProto.STRING, [2])])
    (refusal,) = refusals(graph)
    assert refusal.node == "echo"
    assert "'words'" in refusal.reason
