"""`check_model`: each runtime's answer, the nodes by name, and nothing written."""

import json
import os
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from edgekit.build.checking import check_model
from edgekit.compile.targets import target_names
from edgekit.core.errors import BadInput, Unsupported, UsageError


def save(path: Path, nodes: list[onnx.NodeProto], weights: dict[str, np.ndarray] | None = None) -> Path:
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ("N", 3, 8, 8))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(v, k) for k, v in (weights or {}).items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path.write_bytes(model.SerializeToString())
    return path


@pytest.fixture
def network(tmp_path: Path) -> Path:
    """A convolution and a Relu that every runtime takes."""
    weights = {"w": np.ones((4, 3, 3, 3), np.float32)}
    nodes = [helper.make_node("Conv", ["x", "w"], ["h"], "conv"), helper.make_node("Relu", ["h"], ["y"])]
    return save(tmp_path / "model.onnx", nodes, weights)


@pytest.fixture
def branching(tmp_path: Path) -> Path:
    """An If, which ONNX Runtime takes and TFLite does not."""

    def branch(op: str) -> onnx.GraphProto:
        output = helper.make_tensor_value_info("out", TensorProto.FLOAT, None)
        return helper.make_graph([helper.make_node(op, ["x"], ["out"])], op, [], [output])

    nodes = [
        helper.make_node("ReduceMax", ["x"], ["m"], keepdims=0),
        helper.make_node("Cast", ["m"], ["c"], to=TensorProto.BOOL),
        helper.make_node("If", ["c"], ["y"], "choice", then_branch=branch("Relu"), else_branch=branch("Neg")),
    ]
    return save(tmp_path / "branching.onnx", nodes)


def test_every_runtime_answers_and_nodes_have_the_names_that_keep_float_takes(network: Path) -> None:
    before = sorted(os.listdir(network.parent))
    report = check_model(network)
    assert [v.runtime for v in report.verdicts] == list(target_names())
    assert all(v.takes_it for v in report.verdicts)
    assert report.operators == {"Conv": 1, "Relu": 1}
    assert [(n.op, n.is_quantizable) for n in report.nodes] == [("Conv", True), ("Relu", True)]
    assert report.nodes[0].name == "conv"
    assert all(n.name for n in report.nodes)
    assert [p.shape for p in report.inputs] == [("N", 3, 8, 8)]
    assert sorted(os.listdir(network.parent)) == before


def test_refusal_names_node_operator_reason_and_remedy(branching: Path) -> None:
    report = check_model(branching, ["onnxruntime", "litert"])
    taken, refused = report.verdicts
    assert taken.takes_it
    assert report.is_taken
    (refusal,) = refused.refusals
    assert (refusal.runtime, refusal.node, refusal.op) == ("litert", "choice", "If")
    assert refusal.reason
    assert refusal.remedy


def test_legacy_runtime_answers_under_its_own_name(branching: Path) -> None:
    report = check_model(branching, ["tflite-runtime"])
    assert not report.is_taken
    assert report.verdicts[0].refusals[0].runtime == "tflite-runtime"


def test_report_is_json(branching: Path) -> None:
    document = json.loads(json.dumps(check_model(branching).to_json(), allow_nan=False))
    assert document["runtimes"]["onnxruntime"] == {"takes": True, "refusals": []}
    assert document["runtimes"]["litert"]["refusals"][0]["node"] == "choice"
    assert document["inputs"][0] == {"name": "x", "dtype": "float32", "shape": ["N", 3, 8, 8], "unused": False}
    assert any("opset 17" in note for note in document["notes"])


def test_bindings_reach_the_import(network: Path) -> None:
    report = check_model(network, ["onnxruntime"], input_shapes={"x": (2, 3, 8, 8)})
    assert report.inputs[0].shape == (2, 3, 8, 8)
    assert report.outputs[0].shape == (2, 4, 6, 6)
    with pytest.raises(UsageError, match="input 'sr'"):
        check_model(network, fixed={"sr": 1})


def test_unknown_runtime_is_refused_before_the_model_is_read(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"--runtime tensorrt.*onnxruntime"):
        check_model(tmp_path / "missing.onnx", ["tensorrt"])
    with pytest.raises(BadInput, match="no such file"):
        check_model(tmp_path / "missing.onnx", ["litert"])


def test_unknown_operator_ends_the_check_by_name(tmp_path: Path) -> None:
    node = helper.make_node("FancyNMS", ["x"], ["y"], "/head/nms", domain="com.acme.ops")
    with pytest.raises(Unsupported, match=r"'/head/nms' \(FancyNMS\).*com\.acme\.ops"):
        check_model(save(tmp_path / "m.onnx", [node]))
