"""Graphs that ONNX Runtime does not load end in a named error at import, before any rewriting."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

from edgekit.build.importing import import_model
from edgekit.core.errors import BadInput, RuntimeRefuses


def test_operator_without_a_kernel_is_refused_by_node(small: Callable[..., Path]) -> None:
    node = helper.make_node("ImageDecoder", ["x"], ["y"], "decode")
    inputs = {"x": ((10,), TensorProto.UINT8)}
    path = small([node], inputs=inputs, outputs=[("y", TensorProto.UINT8)], opset=20)
    with pytest.raises(RuntimeRefuses, match=r"onnxruntime cannot run 'decode' \(ImageDecoder\)"):
        import_model(path)


@pytest.mark.parametrize(
    ("op", "attributes", "opset", "words"),
    [
        ("MatMul", {}, 17, r"'node' \(MatMul\).*Incompatible dimensions"),
        ("Relu", {"foo": 3}, 17, r"'node' \(Relu\).*attribute 'foo', which opset 17 does not know"),
        ("Softmax", {"axis": 1.5}, 17, r"'node' \(Softmax\).*'axis' is a float"),
        ("Softmax", {"axis": 7}, 17, r"'node' \(Softmax\).*must be in"),
        ("Softmax", {"axis": 7}, 11, r"Flatten.*axis"),
    ],
)
def test_contradictory_graph_is_bad_input_in_one_line(
    small: Callable[..., Path], op: str, attributes: dict[str, Any], opset: int, words: str
) -> None:
    inputs = ["x", "w"] if op == "MatMul" else ["x"]
    node = helper.make_node(op, inputs, ["y"], "node", **attributes)
    path = small([node], inputs={"x": (2, 3)}, outputs=["y"], weights={"w": np.ones((4, 2), np.float32)}, opset=opset)
    with pytest.raises(BadInput, match=words) as error:
        import_model(path)
    assert "\n" not in str(error.value)


def test_types_that_do_not_meet_are_bad_input(small: Callable[..., Path]) -> None:
    node = helper.make_node("Add", ["x", "k"], ["y"], "add")
    path = small([node], inputs={"x": (3,), "k": ((3,), TensorProto.INT64)}, outputs=["y"])
    with pytest.raises(BadInput, match=r"'add' \(Add\).*float.*int64"):
        import_model(path)
