"""Models whose floats are not float32: changed inside, kept at the ports, refused where nothing fits."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import TensorProto, helper, numpy_helper

from edgekit.build.importing import import_model
from edgekit.build.importing.structure import all_graphs
from edgekit.core.errors import Unsupported

F16, F64, BF16 = TensorProto.FLOAT16, TensorProto.DOUBLE, TensorProto.BFLOAT16


def kinds(model: ir.Model) -> set[str]:
    return {
        value.dtype.name
        for graph in all_graphs(model)
        for value in (*graph.inputs, *graph.initializers.values(), *(v for n in graph for v in n.outputs))
        if value.dtype is not None
    }


def test_float16_is_widened_inside_and_kept_at_the_ports(
    small: Callable[..., Path], run: Callable[..., list[Any]], run_imported: Callable[..., list[Any]]
) -> None:
    nodes = [
        helper.make_node("Cast", ["k"], ["kf"], to=F16),
        helper.make_node("Add", ["x", "kf"], ["a"]),
        helper.make_node("ConstantOfShape", ["s"], ["c"], value=numpy_helper.from_array(np.asarray([0.5], np.float16))),
        helper.make_node("Mul", ["a", "c"], ["b"]),
        helper.make_node("Clip", ["b", "low"], ["y"]),
    ]
    path = small(
        nodes,
        inputs={"x": ((2, 3), F16), "k": ((3,), TensorProto.INT64)},
        outputs=[("y", F16)],
        weights={"s": np.asarray([3], np.int64), "low": np.float16(-0.25)},
    )
    imported = import_model(path)
    assert [p.dtype for p in (*imported.inputs, *imported.outputs)] == ["float16", "int64", "float16"]
    assert kinds(imported.model) == {"FLOAT", "INT64"}
    assert any("float16" in note and "widened" in note for note in imported.notes)
    feeds = {
        "x": np.random.default_rng(0).standard_normal((2, 3)).astype(np.float16),
        "k": np.asarray([0, 1, -2], np.int64),
    }
    (wanted,) = run(path.read_bytes(), feeds)
    (got,) = run_imported(imported, feeds)
    assert got.dtype == np.float16
    np.testing.assert_allclose(got.astype(float), wanted.astype(float), atol=2e-3)


def test_float64_is_narrowed_with_a_note_and_its_masks_stay_finite(small: Callable[..., Path]) -> None:
    nodes = [helper.make_node("Mul", ["x", "mask"], ["y"])]
    weights = {"mask": np.asarray([0, -1.7e308, np.inf], np.float64)}
    imported = import_model(small(nodes, inputs={"x": ((3,), F64)}, outputs=[("y", F64)], weights=weights))
    assert imported.inputs[0].dtype == imported.outputs[0].dtype == "float64"
    assert kinds(imported.model) == {"FLOAT"}
    assert any("float64" in note and "narrowed" in note for note in imported.notes)
    mask = imported.model.graph.initializers["mask"].const_value
    assert mask is not None
    np.testing.assert_array_equal(mask.numpy(), [0, np.finfo(np.float32).min, np.inf])


def test_bfloat16_inside_is_widened_and_at_a_port_refused(small: Callable[..., Path]) -> None:
    nodes = [
        helper.make_node("Cast", ["x"], ["h"], to=BF16),
        helper.make_node("Add", ["h", "h"], ["d"]),
        helper.make_node("Cast", ["d"], ["y"], to=TensorProto.FLOAT),
    ]
    imported = import_model(small(nodes, inputs={"x": (3,)}, outputs=["y"]))
    assert kinds(imported.model) == {"FLOAT"}
    with pytest.raises(Unsupported, match=r"'x'.*bfloat16"):
        import_model(small([helper.make_node("Add", ["x", "x"], ["y"])], inputs={"x": ((3,), BF16)}, outputs=["y"]))


def test_types_without_a_place_are_refused_by_node(small: Callable[..., Path]) -> None:
    node = helper.make_node("Cast", ["x"], ["h"], "to_fp8", to=TensorProto.FLOAT8E4M3FN)
    back = helper.make_node("Cast", ["h"], ["y"], to=TensorProto.FLOAT)
    with pytest.raises(Unsupported, match=r"'to_fp8' \(Cast\).*float8e4m3fn"):
        import_model(small([node, back], inputs={"x": (3,)}, outputs=["y"], opset=19))
    complex_input = {"x": ((3,), TensorProto.COMPLEX64)}
    with pytest.raises(Unsupported, match=r"complex64 is not taken"):
        import_model(small([helper.make_node("Identity", ["x"], ["y"])], inputs=complex_input, outputs=["y"]))


def test_port_that_is_no_tensor_is_refused_by_name(small: Callable[..., Path]) -> None:
    node = helper.make_node("SequenceConstruct", ["x", "x"], ["y"], "pack")
    path = small([node], inputs={"x": (3,)}, outputs=["y"])
    proto = onnx.load(path)
    sequence = helper.make_sequence_type_proto(helper.make_tensor_type_proto(TensorProto.FLOAT, (3,)))
    proto.graph.output[0].type.CopyFrom(sequence)
    onnx.save(proto, path)
    with pytest.raises(Unsupported, match=r"'y': is no tensor"):
        import_model(path)


def test_sequences_of_float16_inside_are_widened(
    small: Callable[..., Path], run: Callable[..., list[Any]], run_imported: Callable[..., list[Any]]
) -> None:
    nodes = [
        helper.make_node("SequenceConstruct", ["x", "x"], ["s"]),
        helper.make_node("ConcatFromSequence", ["s"], ["y"], axis=0),
    ]
    path = small(nodes, inputs={"x": ((3,), F16)}, outputs=[("y", F16)])
    feeds = {"x": np.asarray([1, 2, 3], np.float16)}
    np.testing.assert_array_equal(run_imported(import_model(path), feeds)[0], run(path.read_bytes(), feeds)[0])
