"""IR files depend on the graph only, whatever the process did before."""

import hashlib
import subprocess
import sys

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import TensorProto, helper, numpy_helper

from edgekit.compile.openvino.float_emission import emit_float, ir_from_onnx
from edgekit.core.errors import RuntimeRefuses
from edgekit.runtimes.registry import runtime


def network() -> onnx.ModelProto:
    """Convolution, a branch (If) and a product, under names that need care."""
    rng = np.random.default_rng(3)

    def branch(name: str, op: str) -> onnx.GraphProto:
        value = helper.make_tensor_value_info(f"{name}_out", TensorProto.FLOAT, None)
        return helper.make_graph([helper.make_node(op, ["act,1"], [f"{name}_out"], f"{name}/{op}")], name, [], [value])

    nodes = [
        helper.make_node("Conv", ["images/輸入:0", "w", "b"], ["c"], "conv, first", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["act,1"], "relu"),
        helper.make_node("ReduceSum", ["act,1"], ["sum"], "sum", keepdims=0),
        helper.make_node("Greater", ["sum", "zero"], ["positive"], "greater"),
        helper.make_node(
            "If", ["positive"], ["chosen"], "if", then_branch=branch("then", "Sqrt"), else_branch=branch("else", "Neg")
        ),
        helper.make_node("GlobalAveragePool", ["chosen"], ["p"], "pool"),
        helper.make_node("Flatten", ["p"], ["f"], "flatten"),
        helper.make_node("Gemm", ["f", "fc"], ["out put;Ω"], "fc", transB=1),
    ]
    constants = {
        "w": rng.standard_normal((4, 3, 3, 3)),
        "b": rng.standard_normal(4),
        "fc": rng.standard_normal((5, 4)),
        "zero": np.zeros(()),
    }
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("images/輸入:0", TensorProto.FLOAT, ["n", 3, "h", 8])],
        [helper.make_tensor_value_info("out put;Ω", TensorProto.FLOAT, ["n", 5])],
        [numpy_helper.from_array(value.astype(np.float32), name) for name, value in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


IN_A_PROCESS = """
import hashlib, sys
import openvino
from edgekit.compile.openvino.float_emission import ir_from_onnx
content = sys.stdin.buffer.read()
for _ in range(int(sys.argv[1])):  # moves the counters behind OpenVINO's names
    openvino.Core().read_model(content, b"")
print(*(hashlib.sha256(each).hexdigest() for each in ir_from_onnx(content).values()))
"""


def test_the_same_graph_gives_the_same_bytes_in_any_process() -> None:
    content = network().SerializeToString()
    here = [hashlib.sha256(each).hexdigest() for each in ir_from_onnx(content).values()]
    for times in "0", "3":
        ended = subprocess.run(
            [sys.executable, "-c", IN_A_PROCESS, times], input=content, capture_output=True, check=True, timeout=120
        )
        assert ended.stdout.decode().split() == here
    assert [hashlib.sha256(each).hexdigest() for each in ir_from_onnx(content).values()] == here


def test_the_files_hold_no_path_and_no_note_of_the_conversion() -> None:
    xml = ir_from_onnx(network().SerializeToString())["model.xml"].decode()
    for word in ("/tmp", "fused_names", "Runtime_version", "conversion_parameters"):
        assert word not in xml


@pytest.mark.parametrize("sign", [1, -1])
def test_the_files_compute_the_graph(sign: int) -> None:
    model = ir.from_proto(network())
    from edgekit.compile.onnxruntime.float_emission import emit_float as as_onnx

    x = sign * np.random.default_rng(0).standard_normal((2, 3, 6, 8)).astype(np.float32)
    answers = []
    for name, emit in (("openvino", emit_float), ("onnxruntime", as_onnx)):
        session = runtime(name).load(emit(model).loadable(name), threads=1)
        answers.append(session({"images/輸入:0": x})["out put;Ω"].astype(np.float64))
    np.testing.assert_allclose(answers[0], answers[1], rtol=1e-4, atol=1e-5)


def test_weights_stay_float32() -> None:
    weights = ir_from_onnx(network().SerializeToString())["model.bin"]
    assert np.random.default_rng(3).standard_normal((4, 3, 3, 3)).astype(np.float32).tobytes() in weights


def test_an_operator_that_it_cannot_convert_is_named_with_its_node() -> None:
    proto = network()
    proto.graph.node[1].op_type = "Reluu"
    with pytest.raises(RuntimeRefuses, match=r"'relu' \(Reluu\)"):
        ir_from_onnx(proto.SerializeToString())
