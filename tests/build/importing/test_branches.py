"""An If that is decided by constants and known shapes is gone; one that data decides stays."""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from edgekit.build.importing import ImportedModel, import_model

I64 = TensorProto.INT64


def branch(name: str, nodes: Sequence[onnx.NodeProto], weights: dict[str, np.ndarray] | None = None) -> onnx.GraphProto:
    output = helper.make_tensor_value_info(nodes[-1].output[0], TensorProto.FLOAT, None)
    tensors = [numpy_helper.from_array(v, k) for k, v in (weights or {}).items()]
    return helper.make_graph(list(nodes), name, [], [output], tensors)


def choice(op_then: str, op_else: str, *, condition: str = "c", output: str = "y") -> onnx.NodeProto:
    return helper.make_node(
        "If",
        [condition],
        [output],
        f"if_{output}",
        then_branch=branch("then", [helper.make_node(op_then, ["x"], [f"{output}_t"])]),
        else_branch=branch("else", [helper.make_node(op_else, ["x"], [f"{output}_e"])]),
    )


def by_rate() -> list[onnx.NodeProto]:
    nested = helper.make_node(
        "If",
        ["is_3"],
        ["deep"],
        "inner",
        then_branch=branch("three", [helper.make_node("Add", ["h", "w"], ["t"])], {"w": np.ones(3, np.float32)}),
        else_branch=branch("not_three", [helper.make_node("Neg", ["h"], ["e"])]),
    )
    outer = branch(
        "outer", [helper.make_node("Exp", ["x"], ["h"]), nested, helper.make_node("Relu", ["deep"], ["out"])]
    )
    return [
        helper.make_node("Constant", [], ["rate"], value_int=16000),
        helper.make_node("Equal", ["sr", "rate"], ["c"]),
        helper.make_node("Shape", ["x"], ["shape"]),
        helper.make_node("Gather", ["shape", "one"], ["width"]),
        helper.make_node("Equal", ["width", "three"], ["is_3"]),
        helper.make_node(
            "If",
            ["c"],
            ["y"],
            "if",
            then_branch=outer,
            else_branch=branch("no", [helper.make_node("Abs", ["x"], ["n"])]),
        ),
    ]


@pytest.mark.parametrize("rate", [16000, 8000])
def test_fixed_input_and_known_shapes_decide_nested_branches(
    small: Callable[..., Path], equals_original: Callable[..., ImportedModel], rate: int
) -> None:
    weights = {"one": np.asarray(1, np.int64), "three": np.asarray(3, np.int64)}
    path = small(by_rate(), inputs={"x": (2, 3), "sr": ((), I64)}, outputs=["y"], weights=weights)
    x = np.random.default_rng(0).standard_normal((2, 3)).astype(np.float32)
    imported = equals_original(path, {"x": x}, fixed={"sr": rate})
    assert [n.op_type for n in imported.model.graph] == (["Exp", "Add", "Relu"] if rate == 16000 else ["Abs"])
    assert [p.name for p in imported.inputs] == ["x"]
    assert [p.name for p in imported.outputs] == ["y"]
    assert not any(p.unused for p in imported.inputs)


def test_branch_that_data_decides_stays(
    small: Callable[..., Path], equals_original: Callable[..., ImportedModel]
) -> None:
    weights = {"one": np.asarray(1, np.int64), "three": np.asarray(3, np.int64)}
    path = small(by_rate(), inputs={"x": (2, "W"), "sr": ((), I64)}, outputs=["y"], weights=weights)
    for rate in (16000, 8000):
        feeds = {"x": np.ones((2, 3), np.float32), "sr": np.asarray(rate, np.int64)}
        imported = equals_original(path, feeds)
    assert "If" in [n.op_type for n in imported.model.graph]


def test_branch_that_gives_an_outer_tensor_or_a_weight_keeps_the_name_of_the_output(
    small: Callable[..., Path], equals_original: Callable[..., ImportedModel]
) -> None:
    nodes = [
        helper.make_node("Constant", [], ["c"], value=numpy_helper.from_array(np.asarray(True))),
        choice("Identity", "Neg"),
        helper.make_node("Relu", ["y"], ["z"]),
    ]
    path = small(nodes, inputs={"x": (2,)}, outputs=["y", "z"])
    imported = equals_original(path, {"x": np.asarray([-1, 2], np.float32)})
    assert [p.name for p in imported.outputs] == ["y", "z"]


def test_input_read_only_by_the_branch_not_taken_is_unused(small: Callable[..., Path]) -> None:
    nodes = [
        helper.make_node(
            "If",
            ["c"],
            ["y"],
            "if",
            then_branch=branch("then", [helper.make_node("Relu", ["x"], ["t"])]),
            else_branch=branch("else", [helper.make_node("Neg", ["other"], ["e"])]),
        )
    ]
    inputs = {"x": (2,), "other": (2,), "c": ((), TensorProto.BOOL)}
    imported = import_model(small(nodes, inputs=inputs, outputs=["y"]), fixed={"c": 1})
    assert [(p.name, p.unused) for p in imported.inputs] == [("x", False), ("other", True)]
