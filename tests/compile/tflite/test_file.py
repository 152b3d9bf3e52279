"""The file itself: names, ports, versions, bytes; how 8-bit and float parts meet; what is refused."""

import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ai_edge_litert.schema_py_generated as schema
import numpy as np
import onnx
import onnx_ir as ir
import pytest
from ai_edge_litert.interpreter import Interpreter
from numpy.typing import NDArray

from edgekit.compile.target import Emitted
from edgekit.compile.tflite.target import TARGET
from edgekit.compile.tflite.versions import Signature, version
from edgekit.core.errors import RuntimeRefuses
from edgekit.quantize.quantized import QParams, QuantizedModel

if TYPE_CHECKING:
    from tests.compile.tflite.conftest import Writer

RNG = np.random.default_rng(5)
W = (RNG.standard_normal((6, 6, 3, 3)) * 0.2).astype(np.float32)
X = {"x": RNG.standard_normal((1, 6, 6, 6)).astype(np.float32)}
Node = onnx.NodeProto
Attribute = int | float | str | list[int]


def node(op: str, reads: str, writes: str, **attributes: Attribute) -> Node:
    given: dict[str, Any] = {**attributes}
    return onnx.helper.make_node(op, reads.split(), writes.split(), name=f"the {writes}", **given)


def conv(reads: str, writes: str) -> Node:
    return node("Conv", f"{reads} w", writes, pads=[1, 1, 1, 1])


def parsed(emitted: Emitted) -> schema.ModelT:
    return schema.ModelT.InitFromPackedBuf(emitted.files["model.tflite"], 0)


def operators(emitted: Emitted) -> list[str]:
    names = {v: k for k, v in vars(schema.BuiltinOperator).items() if isinstance(v, int)}
    model = parsed(emitted)
    return [names[model.operatorCodes[o.opcodeIndex].builtinCode] for o in model.subgraphs[0].operators]


def two_convs(writer: "Writer", clamp: str = "Relu") -> onnx.ModelProto:
    bounds = {"lo": np.asarray(-0.5, np.float32), "hi": np.asarray(0.7, np.float32)}
    middle = node("Clip", "a lo hi", "r") if clamp == "Clip" else node(clamp, "a", "r")
    return writer.graph(
        [conv("x", "a"), middle, conv("r", "y")], X, ["y"], {"w": W, **(bounds if clamp == "Clip" else {})}
    )


def test_names_signature_and_dates_are_the_models_own(writer: "Writer") -> None:
    model = parsed(writer.float32(two_convs(writer)))
    assert model.description == b"edgekit"
    graph, signature = model.subgraphs[0], model.signatureDefs[0]
    assert signature.signatureKey == b"serving_default"
    assert [(m.name, graph.tensors[m.tensorIndex].name) for m in (*signature.inputs, *signature.outputs)] == [
        (b"x", b"x"),
        (b"y", b"y"),
    ]
    names = [t.name for t in graph.tensors]
    assert len(set(names)) == len(names)


def test_equal_constants_share_one_buffer(writer: "Writer") -> None:
    emitted = writer.float32(two_convs(writer))
    assert len(emitted.files["model.tflite"]) < 1.5 * W.nbytes + 4000
    weights = [b for b in parsed(emitted).buffers if b.data is not None and len(b.data) == W.nbytes]
    assert len(weights) == 1


def test_buffers_are_aligned(writer: "Writer") -> None:
    data = writer.float32(two_convs(writer)).files["model.tflite"]
    held = np.ascontiguousarray(W.transpose(0, 2, 3, 1)).tobytes()
    assert data.index(held) % 16 == 0


def test_same_graph_gives_the_same_bytes_in_another_process(writer: "Writer", tmp_path: Path) -> None:
    model = two_convs(writer)
    onnx.save(model, tmp_path / "m.onnx")
    script = (
        "import sys, onnx_ir as ir; from edgekit.compile.tflite.target import TARGET;"
        "sys.stdout.buffer.write(TARGET.emit_float(ir.load(sys.argv[1])).files['model.tflite'])"
    )
    there = subprocess.run(
        [sys.executable, "-c", script, tmp_path / "m.onnx"],
        capture_output=True,
        check=True,
        env={"PYTHONHASHSEED": "77"},
    )
    assert there.stdout == writer.float32(model).files["model.tflite"]


def test_dead_nodes_leave_no_operator(writer: "Writer") -> None:
    model = writer.graph([conv("x", "y"), node("Exp", "x", "unused")], X, ["y"], {"w": W})
    assert operators(writer.float32(model)) == ["CONV_2D"]


def test_echoed_input_and_constant_output_have_tensors_of_their_own(writer: "Writer") -> None:
    nodes = [
        node("Identity", "x", "echo"),
        node("Identity", "labels", "classes"),
        conv("x", "y"),
        node("Identity", "y", "again"),
    ]
    model = writer.graph(nodes, X, ["echo", "classes", "y", "again"], {"w": W, "labels": np.array([7, 11], np.int64)})
    emitted = writer.float32(model)
    ran = writer.litert(emitted, X, "xnnpack")
    np.testing.assert_array_equal(ran.outputs["echo"], X["x"])
    np.testing.assert_array_equal(ran.outputs["classes"], [7, 11])
    np.testing.assert_array_equal(ran.outputs["again"], ran.outputs["y"])
    assert len({tuple(v.shape) for v in ran.outputs.values()}) == 2


@pytest.mark.parametrize(("clamp", "count"), [("Relu", 2), ("Clip", 4)])
def test_float_clamps_are_fused_where_the_file_has_a_code_for_them(writer: "Writer", clamp: str, count: int) -> None:
    assert len(operators(writer.float32(two_convs(writer, clamp)))) == count


@pytest.mark.parametrize("op", ["Add", "Sub", "Mul", "Div", "Concat", "MaxPool", "AveragePool", "Gemm", "MatMul"])
@pytest.mark.parametrize("clamp", ["Relu", "Clip"])
def test_every_fused_operator_clamps(writer: "Writer", op: str, clamp: str) -> None:
    """A kernel may reject, or silently ignore, a fused activation that the schema allows."""
    reads = {"Gemm": "x m", "MatMul": "x m", "MaxPool": "x", "AveragePool": "x"}.get(op, "x x2")
    attributes: dict[str, Any] = {"Concat": {"axis": 1}, "Gemm": {"transB": 1}}.get(op, {})
    attributes |= {"kernel_shape": [2, 2]} if op.endswith("Pool") else {}
    shape = (4, 6) if op in ("Gemm", "MatMul") else (1, 6, 6, 6)
    feeds = {n: RNG.standard_normal(shape).astype(np.float32) for n in reads.split() if n.startswith("x")}
    if op == "Div":
        feeds["x2"] = np.abs(feeds["x2"]) + np.float32(1)
    bounds = {"lo": np.asarray(-1, np.float32), "hi": np.asarray(1, np.float32)} if clamp == "Clip" else {}
    constants = bounds | ({"m": W[:, :, 0, 0]} if "m" in reads.split() else {})
    model = writer.graph(
        [node(op, reads, "a", **attributes), node(clamp, " ".join(["a", *bounds]), "y")], feeds, ["y"], constants
    )
    for emitted in (writer.float32(model), TARGET.emit_integer(writer.quantize(model, [feeds]))):
        for engine in ("xnnpack", "builtin"):
            got = writer.litert(emitted, feeds, engine).outputs["y"]
            np.testing.assert_allclose(got, writer.reference(model, feeds)["y"], atol=0.06)


@pytest.mark.parametrize("clamp", ["Relu", "Clip"])
def test_int8_clamps_cost_nothing_where_saturation_does_them(writer: "Writer", clamp: str) -> None:
    quantized = writer.quantize(two_convs(writer, clamp), [X])
    assert "a" not in quantized.activations
    assert operators(TARGET.emit_integer(quantized)) == ["QUANTIZE", "CONV_2D", "CONV_2D", "DEQUANTIZE"]


def test_int8_clamp_inside_the_range_is_written_out(writer: "Writer") -> None:
    quantized = writer.quantize(two_convs(writer, "Clip"), [X])
    wide = replace(quantized, activations={**quantized.activations, "r": QParams(2 / 255, 128)})
    emitted = TARGET.emit_integer(wide)
    assert Counter(operators(emitted)) == {"QUANTIZE": 1, "CONV_2D": 2, "MAXIMUM": 1, "MINIMUM": 1, "DEQUANTIZE": 1}


def test_float_node_between_integer_nodes_really_is_float(writer: "Writer") -> None:
    model = writer.graph([conv("x", "a"), node("Exp", "a", "e"), conv("e", "y")], X, ["y"], {"w": W})
    quantized = writer.quantize(model, [X], lambda n: n.op_type == "Conv")
    expected = ["QUANTIZE", "CONV_2D", "DEQUANTIZE", "EXP", "QUANTIZE", "CONV_2D", "DEQUANTIZE"]
    assert operators(TARGET.emit_integer(quantized)) == expected


def test_float_readers_of_a_float_tensor_do_not_see_its_rounding(writer: "Writer") -> None:
    model = writer.graph([conv("x", "a"), node("Exp", "x", "y")], X, ["a", "y"], {"w": W})
    quantized = writer.quantize(model, [X], lambda n: n.op_type == "Conv")
    ran = writer.litert(TARGET.emit_integer(quantized), X, "builtin")
    np.testing.assert_allclose(ran.outputs["y"], np.exp(X["x"]), rtol=1e-5)


def test_integer_node_without_hint_gives_float_from_its_rounded_weights(writer: "Writer") -> None:
    model = writer.graph([conv("x", "y")], X, ["y"], {"w": W})
    quantized = replace(writer.quantize(model, [X]), output_hint={})
    emitted = TARGET.emit_integer(quantized)
    assert operators(emitted) == ["QUANTIZE", "DEQUANTIZE", "CONV_2D"]
    want = writer.reference(model, X)["y"]
    np.testing.assert_allclose(writer.litert(emitted, X, "builtin").outputs["y"], want, atol=0.05)


def fixed(scale: float, zero: int) -> Callable[[QuantizedModel], QuantizedModel]:
    return lambda q: replace(q, activations={**q.activations, "y": QParams(scale, zero)})


@pytest.mark.parametrize(
    ("op", "change", "extra"),
    [
        ("Sigmoid", fixed(1 / 256, 0), 0),
        ("Sigmoid", fixed(1 / 200, 3), 1),
        ("Tanh", fixed(1 / 128, 128), 0),
        ("Tanh", fixed(1 / 120, 120), 1),
        ("Softmax", fixed(1 / 256, 0), 0),
        ("Softmax", fixed(1 / 255, 0), 1),
    ],
)
def test_other_parameters_than_the_kernels_own_are_reached_by_rounding_again(
    writer: "Writer", op: str, change: Callable[[QuantizedModel], QuantizedModel], extra: int
) -> None:
    model = writer.graph([node(op, "x", "y")], X, ["y"], {})
    quantized = change(writer.quantize(model, [X]))
    emitted = TARGET.emit_integer(quantized)
    assert operators(emitted).count("QUANTIZE") == 1 + extra
    want, q = writer.reference(model, X)["y"], quantized.activations["y"]
    got = writer.litert(emitted, X, "builtin").outputs["y"]
    np.testing.assert_allclose(got, q.dequantize(q.quantize(want)), atol=2.5 * q.scale + 0.01)


def test_weights_are_per_channel_along_the_files_own_axis(writer: "Writer") -> None:
    depthwise = node("Conv", "x d", "a", group=6)
    nodes = [depthwise, conv("a", "b"), node("Flatten", "b", "f"), node("Gemm", "f g", "y", transB=1)]
    model = writer.graph(nodes, X, ["y"], {"w": W, "d": W[:, :1], "g": RNG.standard_normal((5, 96)).astype(np.float32)})
    graph = parsed(TARGET.emit_integer(writer.quantize(model, [X]))).subgraphs[0]
    scaled = [
        t
        for t in graph.tensors
        if t.quantization is not None and t.quantization.scale is not None and len(t.quantization.scale) > 1
    ]
    weights = [
        (t.shape.tolist(), t.quantization.quantizedDimension) for t in scaled if t.type == schema.TensorType.INT8
    ]
    assert weights == [([1, 3, 3, 6], 3), ([6, 3, 3, 6], 0), ([5, 96], 0)]
    assert all(not t.quantization.zeroPoint.any() for t in scaled)


def test_int8_operators_have_the_versions_that_introduced_them(writer: "Writer") -> None:
    model = parsed(TARGET.emit_integer(writer.quantize(two_convs(writer), [X])))
    assert {(c.builtinCode, c.version) for c in model.operatorCodes} == {
        (schema.BuiltinOperator.QUANTIZE, 1),
        (schema.BuiltinOperator.CONV_2D, 3),
        (schema.BuiltinOperator.DEQUANTIZE, 2),
    }


@pytest.mark.parametrize(
    ("op", "dtypes", "ranks", "expected"),
    [
        ("ADD", ["float32"] * 2, [4, 4], 1),
        ("ADD", ["int64"] * 2, [1, 1], 4),
        ("TRANSPOSE", ["float32", "int32"], [5, 1], 4),
        ("FULLY_CONNECTED", ["int8"] * 2, [2, 2], 6),
        ("SPLIT", ["int32", "int8"], [0, 4], 2),
        ("CAST", ["float16"], [2], 5),
        ("BROADCAST_TO", ["float32", "int32"], [2, 1], 2),
        ("TILE", ["int8", "int32"], [2, 1], 3),
    ],
)
def test_version_is_the_lowest_that_serves(op: str, dtypes: list[str], ranks: list[int], expected: int) -> None:
    assert version(op, Signature(dtypes, ranks, dtypes[-1], None, False, False, False, False)) == expected


def test_free_sizes_are_kept_in_the_signature_and_follow_a_resize(writer: "Writer") -> None:
    model = writer.graph([conv("x", "y")], {"x": ("N", 6, "H", 6)}, ["y"], {"w": W})
    emitted = writer.float32(model)
    tensor = parsed(emitted).subgraphs[0].tensors[0]
    assert tensor.shapeSignature.tolist() == [-1, -1, 6, 6]
    assert tensor.shape.tolist() == [1, 32, 6, 6]
    assert emitted.inputs[0].shape == ("N", 6, "H", 6)
    for shape in ((1, 6, 3, 6), (3, 6, 11, 6)):
        feeds = {"x": RNG.standard_normal(shape).astype(np.float32)}
        got = writer.litert(emitted, feeds, "xnnpack").outputs["y"]
        np.testing.assert_allclose(got, writer.reference(model, feeds)["y"], atol=1e-5)


@pytest.mark.parametrize(("kernel", "size"), [(3, 32), (40, 64)])
def test_file_with_free_sizes_loads_as_it_is(writer: "Writer", kernel: int, size: int) -> None:
    """Engines plan memory at once: a window larger than a size of 1 would make the file useless before any resize."""
    model = writer.graph(
        [node("MaxPool", "x", "y", kernel_shape=[kernel, kernel])], {"x": ("N", 6, "H", 6 * kernel)}, ["y"], {}
    )
    interpreter = Interpreter(model_content=writer.float32(model).files["model.tflite"])
    interpreter.allocate_tensors()
    assert interpreter.get_input_details()[0]["shape"].tolist() == [1, size, 6 * kernel, 6]


REFUSED: list[tuple[str, Node, dict[str, object], dict[str, NDArray[np.generic]], str]] = [
    ("rank", node("Conv", "v w3", "y"), {"v": (1, 2, 4, 4, 4)}, {"w3": np.ones((2, 2, 3, 3, 3), np.float32)}, "5 axes"),
    ("computed weight", node("Conv", "x k", "y"), {"k": (6, 6, 3, 3)}, {}, "'k'"),
    ("dilated pool", node("MaxPool", "x", "y", kernel_shape=[2, 2], dilations=[2, 2]), {}, {}, "dilated"),
    ("pool indices", node("MaxPool", "x", "y i", kernel_shape=[2, 2]), {}, {}, "output 'i'"),
    ("cubic", node("Resize", "x  s", "y", mode="cubic"), {}, {"s": np.array([1, 1, 2, 2], np.float32)}, "cubic"),
    ("wrap", node("Pad", "x p", "y", mode="wrap"), {}, {"p": np.array([0, 0, 1, 1, 0, 0, 1, 1], np.int64)}, "wrap"),
    ("unknown operator", node("Einsum", "x x", "y", equation="abcd,abcd->abcd"), {}, {}, "Einsum"),
    ("double", node("Abs", "v", "y"), {"v": np.zeros(3)}, {}, "float64"),
]


@pytest.mark.parametrize("row", REFUSED, ids=[r[0] for r in REFUSED])
def test_refusal_names_node_operator_and_reason(
    writer: "Writer", row: tuple[str, Node, dict[str, object], dict[str, NDArray[np.generic]], str]
) -> None:
    _, refused, inputs, constants, word = row
    if refused.op_type == "Resize":
        del refused.input[:]
        refused.input.extend(["x", "", "s"])
    reads: dict[str, Any] = {n: X["x"] for n in refused.input if n == "x"} | inputs
    model = writer.graph([refused], reads, list(refused.output), constants)
    (found,) = TARGET.refusals(ir.from_proto(model))
    assert (found.runtime, found.node, found.op) == ("litert", refused.name, refused.op_type)
    assert word in found.reason
    assert found.remedy
    with pytest.raises(RuntimeRefuses, match=refused.op_type):
        writer.float32(model)


def test_input_of_a_type_that_no_file_holds_is_refused_by_name(writer: "Writer") -> None:
    model = writer.graph([conv("x", "y")], X, ["y"], {"w": W})
    model.graph.input.append(onnx.helper.make_tensor_value_info("labels", onnx.TensorProto.STRING, [2]))
    (found,) = TARGET.refusals(ir.from_proto(model))
    assert (found.node, found.op) == ("labels", "input")


def test_table_of_operators_is_the_compilers_own() -> None:
    rows = TARGET.supported_operators()
    assert len({op for op, _, _ in rows}) >= 85
    assert ("ConvTranspose", "yes") in {(op, int8) for op, _, int8 in rows}
