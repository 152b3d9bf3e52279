"""The integer share is what the engine does, not what the file looks like."""

import importlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from onnx.helper import make_node

from edgekit.compile.integer_share import IntegerShare, Work, convolution_macs, product_macs, transposed_macs
from edgekit.compile.onnxruntime.float_emission import ports_of
from edgekit.compile.openvino.float_emission import ir_from_onnx
from edgekit.compile.target import Emitted
from edgekit.compile.targets import target, target_names

COUNTERS = {"onnxruntime": "onnxruntime", "openvino": "openvino", "litert": "tflite"}
X = np.random.default_rng(5).standard_normal((1, 8, 16, 16)).astype(np.float32)
MACS = {"conv": 16 * 256 * 8 * 9, "deep": 16 * 256 * 9, "fc": 16 * 10}


def count(name: str, emitted: Emitted, x: NDArray[np.float32] = X) -> IntegerShare:
    counter = importlib.import_module(f"edgekit.compile.{COUNTERS[name]}.integer_share")
    found: IntegerShare = counter.integer_share(emitted.loadable("counted"), {"x": x})
    return found


def network() -> onnx.ModelProto:
    """A convolution, a depthwise one and a product; sizes that no engine pads."""
    rng = np.random.default_rng(1)
    nodes = [
        make_node(
            "Conv", ["x", "w1", "b1"], ["c1"], "conv", pads=[1] * 4, kernel_shape=[3, 3], strides=[1, 1], group=1
        ),
        make_node("Relu", ["c1"], ["r1"], "relu"),
        make_node(
            "Conv", ["r1", "w2", "b1"], ["c2"], "deep", pads=[1] * 4, kernel_shape=[3, 3], strides=[1, 1], group=16
        ),
        make_node("Relu", ["c2"], ["r2"], "relu2"),
        make_node("GlobalAveragePool", ["r2"], ["p"], "pool"),
        make_node("Flatten", ["p"], ["f"], "flatten"),
        make_node("Gemm", ["f", "w3", "b3"], ["y"], "fc", transB=1),
    ]
    weights = {"w1": (16, 8, 3, 3), "w2": (16, 1, 3, 3), "b1": (16,), "w3": (10, 16), "b3": (10,)}
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 8, 16, 16])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 10])],
        [
            numpy_helper.from_array(rng.standard_normal(shape).astype(np.float32), name)
            for name, shape in weights.items()
        ],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    return onnx.shape_inference.infer_shapes(proto)


def quantized(folder: Path, operators: Sequence[str]) -> Emitted:
    """ORT's own `quantize_static`: pairs where ORT fuses them."""
    from onnxruntime.quantization import CalibrationDataReader, QuantType, quantize_static

    class Samples(CalibrationDataReader):  # type: ignore[misc]  # the engine has no types
        def __init__(self) -> None:
            self.left = iter([{"x": X}, {"x": -X}])

        def get_next(self) -> dict[str, NDArray[np.float32]] | None:
            return next(self.left, None)

    onnx.save(network(), folder / "float.onnx")
    quantize_static(
        folder / "float.onnx",
        folder / "int8.onnx",
        Samples(),
        op_types_to_quantize=list(operators),
        per_channel=True,
        activation_type=QuantType.QUInt8,
        weight_type=QuantType.QInt8,
    )
    inputs, outputs = ports_of(ir.from_proto(network()))
    return Emitted({"model.onnx": (folder / "int8.onnx").read_bytes()}, inputs, outputs)


def misplaced() -> Emitted:
    """Inputs go through pairs, weights and results do not: valid QDQ that ORT cannot fuse, and runs in float."""
    proto = network()
    graph = proto.graph
    scale, zero = "scale", "zero"
    for name, value in ((scale, np.array(0.05, np.float32)), (zero, np.array(128, np.uint8))):
        graph.initializer.append(numpy_helper.from_array(value, name))
    nodes = []
    for node in graph.node:
        if node.op_type == "Conv":
            source = node.input[0]
            nodes.append(make_node("QuantizeLinear", [source, scale, zero], [f"{source}/q"], f"{node.name}/q"))
            nodes.append(
                make_node("DequantizeLinear", [f"{source}/q", scale, zero], [f"{source}/dq"], f"{node.name}/dq")
            )
            node.input[0] = f"{source}/dq"
        nodes.append(node)
    kept = [onnx.NodeProto.FromString(node.SerializeToString()) for node in nodes]
    del graph.node[:]
    graph.node.extend(kept)
    inputs, outputs = ports_of(ir.from_proto(proto))
    return Emitted({"model.onnx": proto.SerializeToString()}, inputs, outputs)


@pytest.mark.parametrize("name", target_names())
def test_a_float_model_has_none_and_every_engine_counts_the_same(name: str) -> None:
    counted = count(name, target(name).emit_float(ir.from_proto(network())))
    assert counted.share == 0
    assert counted.macs_total == sum(MACS.values())
    assert [macs for _, _, macs in counted.float_nodes] == sorted(MACS.values(), reverse=True)


def test_what_ort_fuses_is_integer(tmp_path: Path) -> None:
    emitted = quantized(tmp_path, ["Conv", "Gemm", "Relu", "GlobalAveragePool", "Flatten"])
    assert count("onnxruntime", emitted).share == 1
    as_ir = Emitted(ir_from_onnx(emitted.files["model.onnx"]), emitted.inputs, emitted.outputs)
    assert count("openvino", as_ir).share == 1


def test_what_stays_float_is_named(tmp_path: Path) -> None:
    counted = count("onnxruntime", quantized(tmp_path, ["Conv"]))
    assert counted.macs_integer == MACS["conv"] + MACS["deep"]
    ((_, op, macs),) = counted.float_nodes
    assert (op, macs) == ("Gemm", MACS["fc"])


def test_pairs_where_ort_cannot_fuse_them_are_found_out() -> None:
    assert count("onnxruntime", misplaced()).share < 0.1


def test_an_8_bit_tflite_file_is_integer() -> None:
    shared = Path(__file__).parents[3] / "shared/data/models/mobilenet_v1_0.25_128_quant.tflite"
    if not shared.exists():
        pytest.skip("the shared models are not here")
    from edgekit.compile.tflite.integer_share import integer_share
    from edgekit.core.artifact import LoadableArtifact, Port

    x, y = Port("input", "uint8", (1, 128, 128, 3)), Port("output", "uint8", (1, 1001))
    counted = integer_share(
        LoadableArtifact({"model.tflite": shared.read_bytes()}, (x,), (y,)),
        {"input": np.zeros(x.shape, np.uint8)},  # type: ignore[arg-type]
    )
    assert counted.share == 1
    assert 13_000_000 < counted.macs_total < 15_000_000  # 14 million by the paper of MobileNets, table 9


def test_a_model_without_products_counts_nothing() -> None:
    counted = IntegerShare.of([])
    assert (counted.macs_total, counted.share, counted.float_nodes) == (0, 0.0, ())


def test_float_nodes_come_largest_first() -> None:
    counted = IntegerShare.of([Work("a", "Conv", 1, False), Work("b", "Conv", 6, True), Work("c", "Gemm", 3, False)])
    assert counted == IntegerShare(10, 6, (("c", "Gemm", 3), ("a", "Conv", 1)))
    assert counted.share == 0.6


@pytest.mark.parametrize(
    ("a", "b", "output", "macs"),
    [
        ((2, 3), (3, 5), (2, 5), 30),
        ((2, 3), (5, 3), (2, 5), 30),
        ((3, 2), (3, 5), (2, 5), 30),
        ((4, 2, 3), (3, 5), (4, 2, 5), 120),
        ((4, 2, 3), (4, 3, 5), (4, 2, 5), 120),
        ((3,), (3, 5), (5,), 15),
        ((2, 3), (3,), (2,), 6),
    ],
)
def test_products_are_counted_whichever_side_is_transposed(
    a: tuple[int, ...], b: tuple[int, ...], output: tuple[int, ...], macs: int
) -> None:
    assert product_macs(a, b, output) == macs


def test_grouped_convolutions_are_counted_in_both_forms() -> None:
    assert (
        convolution_macs((1, 16, 4, 4), (16, 2, 3, 3))
        == convolution_macs((1, 16, 4, 4), (4, 4, 2, 3, 3))
        == 16 * 16 * 18
    )
    assert transposed_macs((1, 8, 4, 4), (8, 4, 3, 3)) == transposed_macs((1, 8, 4, 4), (2, 4, 4, 3, 3)) == 8 * 16 * 36
