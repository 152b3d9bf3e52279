"""Shapes and values that the user binds, and the names of what stays free."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

from edgekit.build.importing import import_model
from edgekit.core.errors import Unsupported, UsageError


@pytest.fixture
def free(small: Callable[..., Path]) -> Path:
    """y = relu(a + b), a and b [N, C, 4], C known by name only; z reads s."""
    nodes = [
        helper.make_node("Add", ["a", "b"], ["h"], "add"),
        helper.make_node("Relu", ["h"], ["y"], "act"),
        helper.make_node("Mul", ["h", "s"], ["z"], "scale"),
    ]
    inputs = {"a": ("N", "C", 4), "b": ("N", "C", 4), "s": ()}
    return small(nodes, inputs=inputs, outputs=["y", "z"])


def test_free_axes_keep_their_names(free: Path) -> None:
    imported = import_model(free)
    assert [p.shape for p in imported.inputs] == [("N", "C", 4), ("N", "C", 4), ()]
    assert [p.shape for p in imported.outputs] == [("N", "C", 4)] * 2


@pytest.mark.parametrize("dims", [(None, 3, None), ("?", 3, "?"), (-1, 3, -1)])
def test_axes_without_names_get_their_own_and_equal_nothing(
    small: Callable[..., Path], dims: tuple[int | str | None, ...]
) -> None:
    path = small([helper.make_node("Relu", ["x"], ["y"])], inputs={"x": dims}, outputs=["y"])
    assert import_model(path).inputs[0].shape == ("x.0", 3, "x.2")


def test_bound_size_holds_wherever_its_name_stands(free: Path) -> None:
    imported = import_model(free, input_shapes={"a": (2, 3, 4)})
    assert [p.shape for p in imported.inputs] == [(2, 3, 4), (2, 3, 4), ()]
    assert imported.outputs[0].shape == (2, 3, 4)


@pytest.mark.parametrize(
    ("shapes", "why"),
    [
        ({"q": (1,)}, r"input 'q'.*no such input.*a \[N, C, 4\], b \[N, C, 4\], s \[\]"),
        ({"a": (2, 3)}, r"shape 2,3 of input 'a'.*3 axes.*\[N, C, 4\]"),
        ({"a": (2, 3, 5)}, r"has 4 at axis 2"),
        ({"a": (2, 3, 4), "b": (2, 5, 4)}, r"'C' at axis 1, which is 3 elsewhere"),
        ({"a": (0, 3, 4)}, r"at least 1"),
    ],
)
def test_shapes_that_do_not_fit_are_refused_by_name(free: Path, shapes: dict[str, Any], why: str) -> None:
    with pytest.raises(UsageError, match=why):
        import_model(free, input_shapes=shapes)


def test_fixed_input_leaves_the_inputs_and_keeps_the_result(free: Path, run_imported: Callable[..., list[Any]]) -> None:
    imported = import_model(free, fixed={"s": 2.5})
    assert [p.name for p in imported.inputs] == ["a", "b"]
    x = np.ones((1, 2, 4), np.float32)
    np.testing.assert_allclose(run_imported(imported, {"a": x, "b": x})[1], 5.0 * x)
    assert any("'s' is fixed to 2.5" in note for note in imported.notes)


def test_fixed_values_that_do_not_fit_are_refused(small: Callable[..., Path], free: Path) -> None:
    with pytest.raises(UsageError, match=r"'a'.*\[N, C, 4\] is free.*--input-shape a:"):
        import_model(free, fixed={"a": 1})
    nodes = [helper.make_node("Cast", ["k"], ["y"], to=TensorProto.FLOAT)]
    path = small(nodes, inputs={"k": ((1,), TensorProto.INT8)}, outputs=["y"])
    for value in (300, 1.5):
        with pytest.raises(UsageError, match=rf"'k'.*{value} is no value of int8"):
            import_model(path, fixed={"k": value})
    with pytest.raises(UsageError, match="no such input"):
        import_model(path, fixed={"sr": 16000})


def test_stale_shapes_of_the_exporter_give_way_to_the_binding(small: Callable[..., Path]) -> None:
    import onnx

    path = small([helper.make_node("Relu", ["x"], ["y"])], inputs={"x": ("N", 3)}, outputs=["y"])
    proto = onnx.load(path)
    proto.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", TensorProto.FLOAT, (1, 3)))
    onnx.save(proto, path)
    assert import_model(path).outputs[0].shape == ("N", 3)
    assert import_model(path, input_shapes={"x": (4, 3)}).outputs[0].shape == (4, 3)


def test_input_of_unknown_rank_asks_for_its_shape(small: Callable[..., Path]) -> None:
    import onnx

    path = small([helper.make_node("Relu", ["x"], ["y"])], inputs={"x": (1,)}, outputs=["y"])
    proto = onnx.load(path)
    proto.graph.input[0].type.tensor_type.ClearField("shape")
    onnx.save(proto, path)
    with pytest.raises(Unsupported, match=r"'x': its rank is not known.*--input-shape x:"):
        import_model(path)
    assert import_model(path, input_shapes={"x": (2, 5)}).outputs[0].shape == (2, 5)


def test_input_that_nothing_reads_is_marked_unused(small: Callable[..., Path]) -> None:
    path = small([helper.make_node("Relu", ["x"], ["y"])], inputs={"x": (2,), "idle": (1,)}, outputs=["y"])
    assert [p.unused for p in import_model(path).inputs] == [False, True]
