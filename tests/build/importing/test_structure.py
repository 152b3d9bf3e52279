"""The form of the graph after import: names, functions, constants, outputs, branches."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from edgekit.build.importing import import_model
from edgekit.build.importing.structure import all_graphs, all_nodes
from edgekit.core.errors import BadInput, Unsupported

X = np.asarray([[0.5, -1.0, 2.0]], np.float32)


def test_nodes_without_names_get_the_same_ones_each_time_and_given_ones_stay(small: Callable[..., Path]) -> None:
    nodes = [
        helper.make_node("Relu", ["x"], ["a"]),
        helper.make_node("Relu", ["a"], ["b"], "Relu_0"),
        helper.make_node("Exp", ["b"], ["c"], "same"),
        helper.make_node("Exp", ["c"], ["y"], "same"),
    ]
    path = small(nodes, inputs={"x": (1, 3)}, outputs=["y"])
    names = [[n.name for n in import_model(path).model.graph] for _ in range(2)]
    assert names[0] == names[1]
    assert "Relu_0" in names[0]
    assert len(set(names[0])) == len(names[0])


def test_output_that_is_an_input_or_a_weight_keeps_its_name_and_value(
    small: Callable[..., Path], equals_original: Callable[..., object]
) -> None:
    nodes = [
        helper.make_node("Relu", ["x"], ["y"], "act"),
        helper.make_node("Constant", [], ["k"], "const", value_floats=[1.0, 2.0]),
    ]
    path = small(
        nodes,
        inputs={"x": (1, 3)},
        outputs=["y", "w", "k"],
        weights={"w": np.asarray([3, 4], np.float32)},
    )
    imported = equals_original(path, {"x": X})
    model = imported.model  # type: ignore[attr-defined]
    assert [v.name for v in model.graph.outputs] == ["y", "w", "k"]
    for value in model.graph.outputs:
        assert value.producer() is not None
    assert not any(n.op_type == "Constant" for n in all_nodes(model))


def test_weights_listed_as_inputs_are_no_inputs(
    small: Callable[..., Path], equals_original: Callable[..., object]
) -> None:
    path = small(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        inputs={"w": (3, 2), "x": (1, 3)},
        outputs=["y"],
        weights={"w": np.ones((3, 2), np.float32)},
        opset=11,
        ir_version=3,
    )
    imported = equals_original(path, {"x": X})
    assert [p.name for p in imported.inputs] == ["x"]  # type: ignore[attr-defined]


def test_functions_of_an_older_opset_are_inlined_with_their_own_meaning(
    small: Callable[..., Path], equals_original: Callable[..., object]
) -> None:
    body = [helper.make_node("Softmax", ["a"], ["b"]), helper.make_node("Softmax", ["b"], ["c"], axis=1)]
    function = helper.make_function("acme", "Twice", ["a"], ["c"], body, [helper.make_opsetid("", 17)])
    nodes = [
        helper.make_node("Twice", ["x"], ["h"], "first", domain="acme"),
        helper.make_node("Twice", ["h"], ["y"], "second", domain="acme"),
    ]
    path = small(nodes, inputs={"x": (2, 3, 4)}, outputs=["y"], functions=[function], domains=["acme"], opset=17)
    x = np.random.default_rng(1).standard_normal((2, 3, 4)).astype(np.float32)
    imported = equals_original(path, {"x": x})
    model = imported.model  # type: ignore[attr-defined]
    assert [n.op_type for n in model.graph] == ["Softmax"] * 4
    assert len({n.name for n in model.graph}) == 4
    old = helper.make_function("acme", "Twice", ["a"], ["c"], body, [helper.make_opsetid("", 11)])
    mixed = small(nodes, inputs={"x": (2, 3, 4)}, outputs=["y"], functions=[old], domains=["acme"], opset=17, name="m")
    assert "Flatten" in [n.op_type for n in import_model(mixed).model.graph]  # Softmax of opset 11: on a matrix


def test_functions_that_call_each_other_in_a_circle_are_refused(small: Callable[..., Path]) -> None:
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("acme", 1)]
    calls = {"A": "B", "B": "A"}
    functions = [
        helper.make_function("acme", a, ["i"], ["o"], [helper.make_node(b, ["i"], ["o"], domain="acme")], imports)
        for a, b in calls.items()
    ]
    nodes = [helper.make_node("A", ["x"], ["y"], domain="acme")]
    path = small(nodes, inputs={"x": (2,)}, outputs=["y"], functions=functions, domains=["acme"])
    with pytest.raises(BadInput, match="cannot be inlined"):
        import_model(path)


def test_branches_keep_their_captures_and_get_names_of_their_own(
    small: Callable[..., Path], equals_original: Callable[..., object]
) -> None:
    def branch(op: str) -> object:
        nodes = [helper.make_node(op, ["h", "k"], ["t"]), helper.make_node("Relu", ["t"], ["out"])]
        return helper.make_graph(nodes, op, [], [helper.make_tensor_value_info("out", TensorProto.FLOAT, None)])

    nodes = [
        helper.make_node("Constant", [], ["k"], value_float=2.0),
        helper.make_node("Exp", ["x"], ["h"]),
        helper.make_node("ReduceSum", ["x"], ["s"], keepdims=0),
        helper.make_node("Greater", ["s", "k"], ["c"]),
        helper.make_node("If", ["c"], ["y"], then_branch=branch("Add"), else_branch=branch("Sub")),
    ]
    path = small(nodes, inputs={"x": (1, 3)}, outputs=["y"])
    for factor in (1, 5):
        imported = equals_original(path, {"x": factor * X})
    model = imported.model  # type: ignore[attr-defined]
    names = [v.name for g in all_graphs(model) for n in g for v in n.outputs]
    assert len(set(names)) == len(names)


def test_branch_that_gives_an_outer_tensor_is_kept(
    small: Callable[..., Path], equals_original: Callable[..., object]
) -> None:
    def branch(name: str, nodes: list[onnx.NodeProto]) -> onnx.GraphProto:
        return helper.make_graph(nodes, name, [], [helper.make_tensor_value_info(name, TensorProto.FLOAT, None)])

    nodes = [
        helper.make_node("ReduceSum", ["x"], ["s"], keepdims=0),
        helper.make_node("Cast", ["s"], ["c"], to=TensorProto.BOOL),
        helper.make_node(
            "If",
            ["c"],
            ["y"],
            then_branch=branch("p", [helper.make_node("Identity", ["x"], ["p"])]),
            else_branch=branch("q", [helper.make_node("Neg", ["x"], ["q"])]),
        ),
    ]
    equals_original(small(nodes, inputs={"x": (1, 3)}, outputs=["y"]), {"x": X})


def test_nodes_out_of_order_are_sorted(small: Callable[..., Path]) -> None:
    nodes = [helper.make_node("Relu", ["a"], ["y"], "late"), helper.make_node("Exp", ["x"], ["a"], "early")]
    imported = import_model(small(nodes, inputs={"x": (1, 3)}, outputs=["y"]))
    assert [n.name for n in imported.model.graph] == ["early", "late"]


@pytest.mark.parametrize(
    ("nodes", "why"),
    [
        ([("Relu", ["ghost"], ["y"])], "'ghost', which nothing gives"),
        ([("Relu", ["x"], ["a"])], "output 'y' is given by nothing"),
        ([("Relu", ["x"], ["y"]), ("Exp", ["x"], ["y"])], "'y' is defined twice"),
        ([("Add", ["x", "b"], ["a"]), ("Relu", ["a"], ["b"]), ("Exp", ["b"], ["y"])], "circle"),
        ([("Conv", ["x"], ["y"])], "has 1 inputs"),
        ([("Concat", ["x"], ["y"])], "lacks the attribute 'axis'"),
    ],
)
def test_damaged_graphs_are_refused_with_the_reason(
    small: Callable[..., Path], nodes: list[tuple[str, list[str], list[str]]], why: str
) -> None:
    made = [helper.make_node(*parts, "node") for parts in nodes]
    with pytest.raises(BadInput, match=why):
        import_model(small(made, inputs={"x": (1, 3)}, outputs=["y"]))


def test_unknown_operator_is_refused_by_operator_domain_and_node(small: Callable[..., Path]) -> None:
    for domain, op, words in (
        ("com.acme", "Fancy", r"'head' \(Fancy\).*domain 'com\.acme'"),
        ("com.microsoft", "FusedConv", r"'head' \(FusedConv\).*domain 'com\.microsoft'"),
        ("", "NoSuchThing", r"'head' \(NoSuchThing\).*domain 'ai\.onnx' does not exist at opset 17"),
        ("", "Upsample", r"'head' \(Upsample\).*removed"),
    ):
        node = helper.make_node(op, ["x", "x"], ["y"], "head", domain=domain)
        path = small([node], inputs={"x": (2,)}, outputs=["y"], domains=[domain] if domain else [])
        with pytest.raises(Unsupported, match=words):
            import_model(path)


def test_unknown_operator_inside_a_branch_is_found(small: Callable[..., Path]) -> None:
    inner = helper.make_node("Fancy", ["x"], ["b"], "deep", domain="com.acme")
    branch = helper.make_graph([inner], "b", [], [helper.make_tensor_value_info("b", TensorProto.FLOAT, None)])
    node = helper.make_node("If", ["c"], ["y"], "if", then_branch=branch, else_branch=branch)
    inputs = {"x": (2,), "c": ((), TensorProto.BOOL)}
    with pytest.raises(Unsupported, match=r"'deep' \(Fancy\)"):
        import_model(small([node], inputs=inputs, outputs=["y"], domains=["com.acme"]))


@pytest.mark.parametrize("opset", [9, 13, 14, 17])
def test_batch_normalization_in_training_is_refused(small: Callable[..., Path], opset: int) -> None:
    outputs = ["y", "m", "v", "sm", "sv"] if opset < 14 else ["y", "m", "v"]
    attributes: dict[str, Any] = {} if opset < 14 else {"training_mode": 1}
    node = helper.make_node("BatchNormalization", ["x", *["w"] * 4], outputs, "/bn1", **attributes)
    path = small([node], inputs={"x": (1, 3)}, outputs=["y"], weights={"w": np.ones(3, np.float32)}, opset=opset)
    with pytest.raises(Unsupported, match=r"'/bn1' \(BatchNormalization\).*training"):
        import_model(path)


def test_dropout_goes_and_in_training_is_refused(
    small: Callable[..., Path], equals_original: Callable[..., object]
) -> None:
    weights = {"r": np.asarray(0.5, np.float32), "t": np.asarray(True)}
    tail = helper.make_node("Relu", ["d"], ["y"])
    dropout = helper.make_node("Dropout", ["x", "r"], ["d"], "drop")
    imported = equals_original(small([dropout, tail], inputs={"x": (1, 3)}, outputs=["y"], weights=weights), {"x": X})
    assert [n.op_type for n in imported.model.graph] == ["Relu"]  # type: ignore[attr-defined]
    training = helper.make_node("Dropout", ["x", "r", "t"], ["d"], "drop")
    with pytest.raises(Unsupported, match=r"'drop' \(Dropout\).*training"):
        import_model(small([training, tail], inputs={"x": (1, 3)}, outputs=["y"], weights=weights))
    masked = helper.make_node("Dropout", ["x", "r"], ["y", "mask"], "drop")
    with pytest.raises(Unsupported, match=r"'drop' \(Dropout\).*training"):
        import_model(small([masked], inputs={"x": (1, 3)}, outputs=["y", ("mask", TensorProto.BOOL)], weights=weights))
