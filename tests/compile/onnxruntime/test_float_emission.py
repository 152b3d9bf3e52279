"""Float ONNX files depend on the graph only, and ports say what a caller must give."""

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import TensorProto, helper, numpy_helper

from edgekit.compile.onnxruntime.checks import refusals
from edgekit.compile.onnxruntime.float_emission import emit_float, ports_of, serialized
from edgekit.core.artifact import Port
from edgekit.core.errors import Unsupported
from edgekit.runtimes.registry import runtime


def tiny(doc: str = "", op: str = "Relu") -> onnx.ModelProto:
    """x + relu(x) of a free batch, beside an input that nothing reads."""
    nodes = [
        helper.make_node(op, ["x"], ["r"], "act", doc_string=doc),
        helper.make_node("Add", ["r", "one"], ["y"], "add"),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 3]),
            helper.make_tensor_value_info("unused", TensorProto.INT64, [None, 2]),
        ],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 3])],
        [numpy_helper.from_array(np.array(1, np.float32), "one")],
        doc_string=doc,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], producer_name=doc, doc_string=doc)
    entry = model.graph.node[0].metadata_props.add()
    entry.key, entry.value = "stack", doc
    return model


def test_ports_keep_names_dtypes_and_free_sizes() -> None:
    inputs, outputs = ports_of(ir.from_proto(tiny()))
    assert inputs == (Port("x", "float32", ("batch", 3)), Port("unused", "int64", ("unused.0", 2), unused=True))
    assert outputs == (Port("y", "float32", ("batch", 3)),)


def test_an_input_without_a_rank_is_refused_by_name() -> None:
    model = ir.from_proto(tiny())
    model.graph.inputs[0].shape = None
    with pytest.raises(Unsupported, match="'x'"):
        ports_of(model)


def test_what_the_exporter_wrote_beside_the_graph_changes_no_byte() -> None:
    assert serialized(ir.from_proto(tiny("/home/someone/model.py"))) == serialized(ir.from_proto(tiny()))
    assert serialized(tiny("/home/someone/model.py")) == serialized(tiny())


def test_serializing_leaves_the_model_as_it_was() -> None:
    proto = tiny("kept")
    serialized(proto)
    assert proto.doc_string == "kept"


def test_the_file_computes_the_graph_with_the_unused_input_left_out() -> None:
    session = runtime("onnxruntime").load(emit_float(ir.from_proto(tiny())).loadable("tiny"), threads=1)
    x = np.array([[-1, 0, 2], [3, -4, 5]], np.float32)
    np.testing.assert_array_equal(session({"x": x})["y"], np.maximum(x, 0) + 1)


def test_a_graph_that_the_engine_takes_has_no_refusal() -> None:
    assert refusals(ir.from_proto(tiny())) == ()


def test_an_operator_that_the_engine_has_not_is_named_with_its_node() -> None:
    (refusal,) = refusals(ir.from_proto(tiny(op="Reluu")))
    assert (refusal.runtime, refusal.op) == ("onnxruntime", "Reluu")
    assert refusal.node == "act"
