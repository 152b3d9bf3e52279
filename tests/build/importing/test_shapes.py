"""What is known of shapes after import: free sizes keep their names through rewritten nodes, invented names go."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper

from edgekit.build.importing import ImportedModel, import_model
from edgekit.core.errors import Unsupported


@pytest.mark.parametrize("shape", [("N", 3, 4), ("N", 3, "W"), (2, 3, "W")])
def test_softmax_of_an_old_opset_keeps_the_names_of_free_sizes(
    small: Callable[..., Path], equals_original: Callable[..., ImportedModel], shape: tuple[int | str, ...]
) -> None:
    path = small([helper.make_node("Softmax", ["x"], ["y"], axis=1)], inputs={"x": shape}, outputs=["y"], opset=11)
    x = np.random.default_rng(0).standard_normal((2, 3, 4)).astype(np.float32)
    assert equals_original(path, {"x": x}).outputs[0].shape == shape


def test_size_that_only_the_data_decides_is_named_after_its_output(small: Callable[..., Path]) -> None:
    node = helper.make_node("NonZero", ["x"], ["found"])
    path = small([node], inputs={"x": (2, 3)}, outputs=[("found", TensorProto.INT64)])
    assert import_model(path).outputs[0].shape == (2, "found.1")


def test_input_that_is_an_output_too_keeps_its_shape_and_the_output_is_renamed_with_a_note(
    small: Callable[..., Path], equals_original: Callable[..., ImportedModel]
) -> None:
    path = small([helper.make_node("Relu", ["x"], ["y"])], inputs={"x": (2, 3)}, outputs=["y", "x"])
    imported = equals_original(path, {"x": np.ones((2, 3), np.float32)})
    assert [p.name for p in imported.inputs] == ["x"]
    assert [(p.name, p.shape) for p in imported.outputs] == [("y", (2, 3)), ("x_1", (2, 3))]
    assert any("output 'x' is named 'x_1'" in note for note in imported.notes)


def test_output_of_unknown_rank_is_refused_by_name(small: Callable[..., Path]) -> None:
    node = helper.make_node("ReduceSum", ["x", "axes"], ["y"])
    path = small([node], inputs={"x": (2, 3), "axes": ((1,), TensorProto.INT64)}, outputs=["y"])
    with pytest.raises(Unsupported, match=r"'y': its rank is not known.*declare the output"):
        import_model(path)
    assert import_model(path, fixed={"axes": 1}).outputs[0].shape == (2, 1)


def test_large_weights_are_not_copied_into_inference_and_come_back(small: Callable[..., Path]) -> None:
    weight = np.ones((512, 3), np.float32)
    path = small(
        [helper.make_node("Gemm", ["x", "w"], ["y"], transB=1)],
        inputs={"x": ("N", 3)},
        outputs=["y"],
        weights={"w": weight},
    )
    imported = import_model(path)
    assert [p.name for p in imported.inputs] == ["x"]
    assert imported.outputs[0].shape == ("N", 512)
    assert sum(v.const_value.size for v in imported.model.graph.initializers.values() if v.const_value) == weight.size
