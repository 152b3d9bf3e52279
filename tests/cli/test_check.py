"""`edgekit check` as a user meets it: text, JSON, exit codes."""

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from edgekit.cli.main import main


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A Conv, and an If that TFLite has no operator for, with a free batch."""

    def branch(op: str) -> onnx.GraphProto:
        output = helper.make_tensor_value_info("out", TensorProto.FLOAT, None)
        return helper.make_graph([helper.make_node(op, ["h"], ["out"])], op, [], [output])

    nodes = [
        helper.make_node("Conv", ["x", "w"], ["h"]),
        helper.make_node("Cast", ["k"], ["c"], to=TensorProto.BOOL),
        helper.make_node("If", ["c"], ["y"], "choice", then_branch=branch("Relu"), else_branch=branch("Neg")),
    ]
    inputs = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, ("N", 3, 8, 8)),
        helper.make_tensor_value_info("k", TensorProto.INT64, ()),
    ]
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    weight = numpy_helper.from_array(np.ones((4, 3, 3, 3), np.float32), "w")
    graph = helper.make_graph(nodes, "g", inputs, [output], [weight])
    path = tmp_path / "model.onnx"
    imports = [helper.make_opsetid("", 13)]
    path.write_bytes(helper.make_model(graph, opset_imports=imports, ir_version=8).SerializeToString())
    return path


def test_one_runtime_that_takes_it_is_enough(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", str(model)]) == 0
    text = capsys.readouterr().out
    assert "in  x  float32 [N, 3, 8, 8]" in text
    assert "refused: litert cannot run 'choice' (If)" in text
    assert "note: opset 13 is brought to 21" in text


def test_no_runtime_that_takes_it_is_exit_code_5(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", str(model), "--runtime", "litert"]) == 5
    assert "'choice' (If)" in capsys.readouterr().out


def test_json_holds_each_refusal(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", str(model), "--device", "raspberry-pi-5", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["device"] == "raspberry-pi-5"
    assert set(document["runtimes"]) == {"onnxruntime", "litert"}
    (refusal,) = document["runtimes"]["litert"]["refusals"]
    assert {"runtime", "node", "op", "reason", "remedy"} == set(refusal)


def test_shapes_and_values_are_bound(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--input-shape", "x:2,3,8,8", "--fix", "k=1", "--runtime", "onnxruntime", "--json"]
    assert main(["check", str(model), *arguments]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [(p["name"], p["shape"]) for p in document["inputs"]] == [("x", [2, 3, 8, 8])]


def test_nodes_are_listed_by_name(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", str(model), "--nodes"]) == 0
    assert "choice" in capsys.readouterr().out.split("quantizable")[1]


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["missing.onnx"], 4, "no such file"),
        (["MODEL", "--input-shape", "q:1"], 2, "input 'q'"),
        (["MODEL", "--runtime", "tensorrt"], 2, "tensorrt"),
        (["MODEL", "--device", "toaster"], 2, "toaster"),
    ],
)
def test_errors_are_one_line_and_a_remedy(
    model: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, words: str
) -> None:
    assert main(["check", *(str(model) if a == "MODEL" else a for a in arguments)]) == code
    streams = capsys.readouterr()
    assert streams.out == ""
    assert words in streams.err
    assert len(streams.err.strip().splitlines()) == 2
