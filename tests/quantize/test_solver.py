"""Parameters of tensors: classes that share a scale, scales that are fixed, and what happens where they conflict."""

from collections.abc import Mapping

import numpy as np
import onnx_ir as ir
import pytest

from edgekit.quantize.observers import Interval
from edgekit.quantize.placement import integer_nodes
from edgekit.quantize.quantized import QParams
from edgekit.quantize.solver import SMALLEST_SCALE, Parameters, fused_outputs, params_for, read, solve

CONV = "Conv<kernel_shape=[1,1],pads=[0,0,0,0],strides=[1,1],dilations=[1,1]>"
SIGMOID, TANH = QParams(1 / 256, 0), QParams(1 / 128, 128)


def graph(body: str, outputs: str = "float[1,4,8,8] y") -> ir.Model:
    """A graph in ONNX's text form: input x, a 1x1 weight w [4,4], scalars `zero`, `one` and `six`; named by result."""
    ones = ",".join(["0.5"] * 16)
    model = ir.from_onnx_text(
        f"""<ir_version: 10, opset_import: ["": 21]>
        g (float[1,4,8,8] x) => ({outputs})
        <float[4,4,1,1] w = {{{ones}}}, float zero = {{0}}, float one = {{1}}, float six = {{6}},
         int64[8] pads = {{0,0,1,1,0,0,1,1}}, float minus = {{-3}}>
        {{ {body.replace("Conv(", CONV + "(")} }}"""
    )
    for node in model.graph:
        node.name = node.outputs[0].name
        for value in node.outputs:
            value.dtype = ir.DataType.FLOAT
    for value in model.graph.initializers.values():
        if value.const_value is not None:
            value.dtype = value.const_value.dtype
    return model


def solved(model: ir.Model, intervals: Mapping[str, tuple[float, float]], **fixed: QParams) -> Parameters:
    """Everything that can compute in integers does; tensors not named are in [0, 1]."""
    names = [str(v.name) for node in model.graph for v in (*node.inputs, *node.outputs) if v is not None]
    known = {name: Interval(*intervals.get(name, (0.0, 1.0))) for name in names}
    return solve(model, integer_nodes(model), known, fixed)


def test_a_result_that_only_its_clamp_reads_is_fused() -> None:
    model = graph("c = Conv(x, w) r = Relu(c) y = Conv(r, w)")
    assert fused_outputs(model.graph, {"c", "r", "y"}) == {"c"}
    assert fused_outputs(model.graph, {"c", "y"}) == frozenset()
    assert read(model.graph, {"c", "r", "y"}).rounded == ("x", "r")
    assert read(model.graph, {"c", "r", "y"}).hinted == ("y",)


@pytest.mark.parametrize(
    ("body", "outputs"),
    [
        ("c = Conv(x, w) r = Relu(c) s = Add(c, r) y = Conv(s, w)", "float[1,4,8,8] y"),
        ("c = Conv(x, w) r = Relu(c) y = Conv(r, w)", "float[1,4,8,8] y, float[1,4,8,8] c"),
        (
            "c = Conv(x, w) r = Relu(c) y = Conv(r, w) b = Cast<to=9>(zero) "
            "z = If(b) <then_branch = t () => (float[1,4,8,8] u) { u = Neg(c) },"
            " else_branch = e () => (float[1,4,8,8] v) { v = Abs(x) }>",
            "float[1,4,8,8] y, float[1,4,8,8] z",
        ),
    ],
    ids=["another node", "the graph's outputs", "a branch"],
)
def test_a_result_that_something_else_reads_is_not_fused(body: str, outputs: str) -> None:
    model = graph(body, outputs)
    integer = {str(n.name) for n in model.graph if n.op_type in ("Conv", "Relu", "Add")}
    assert fused_outputs(model.graph, integer) == frozenset()


def test_a_result_read_by_a_branch_keeps_its_negative_half() -> None:
    model = graph(
        "c = Conv(x, w) r = Relu(c) y = Conv(r, w) b = Cast<to=9>(zero) "
        "z = If(b) <then_branch = t () => (float[1,4,8,8] u) { u = Neg(c) },"
        " else_branch = e () => (float[1,4,8,8] v) { v = Abs(x) }>",
        "float[1,4,8,8] y, float[1,4,8,8] z",
    )
    assert solved(model, {"c": (-2, 2)}).activations["c"].lo == pytest.approx(-2, abs=0.02)


def test_tensors_that_only_move_share_one_scale_over_all_their_ranges() -> None:
    model = graph("a = Conv(x, w) b = Conv(x, w) m = MaxPool<kernel_shape=[1,1]>(a) s = Add(m, b) y = Conv(s, w)")
    activations = solved(model, {"a": (-1, 3), "m": (-1, 4)}).activations
    assert activations["a"] == activations["m"] == params_for(Interval(-1, 4))
    assert activations["b"] != activations["a"]


def test_a_sigmoid_has_the_scale_that_every_engine_gives_it() -> None:
    model = graph("c = Conv(x, w) s = Sigmoid(c) m = Mul(c, s) y = Conv(m, w)")
    assert solved(model, {"s": (0, 1.0)}).activations["s"] == SIGMOID


def test_a_saturated_sigmoid_may_be_pooled() -> None:
    model = graph("c = Conv(x, w) s = Sigmoid(c) p = MaxPool<kernel_shape=[1,1]>(s) y = Conv(p, w)")
    found = solved(model, {"s": (0, 1.0), "p": (0, 1.0)})
    assert found.demoted == frozenset()
    assert found.activations["p"] == found.activations["s"] == SIGMOID


@pytest.mark.parametrize(
    ("body", "culprit"),
    [
        ("c = Conv(x, w) s = Sigmoid(c) t = Tanh(c) j = Concat<axis=0>(s, t) y = Conv(j, w)", "j"),
        ("c = Conv(x, w) s = Sigmoid(c) j = Concat<axis=0>(s, c) y = Conv(j, w)", "j"),
        ("c = Conv(x, w) s = Sigmoid(c) p = Pad(s, pads, minus) y = Conv(p, w)", "p"),
    ],
    ids=["two fixed scales", "a fixed scale and a wide range", "a fill outside a fixed scale"],
)
def test_a_node_that_ties_what_cannot_agree_is_named(body: str, culprit: str) -> None:
    model = graph(body)
    assert culprit in integer_nodes(model)
    assert solved(model, {"c": (-5, 5), "t": (-1, 1), "j": (-5, 5)}).demoted == {culprit}


def test_the_number_that_a_pad_writes_is_in_the_range_of_its_class() -> None:
    model = graph("c = Conv(x, w) p = Pad(c, pads, minus) y = Conv(p, w)")
    found = solved(model, {"c": (0, 1)})
    assert found.demoted == frozenset()
    assert found.activations["c"] == found.activations["p"] == params_for(Interval(-3, 1))


def test_a_picture_input_has_the_parameters_of_its_preprocessing() -> None:
    fixed = QParams(0.0078125, 127)
    found = solved(graph("c = Conv(x, w) y = Conv(c, w)"), {"x": (-0.5, 0.5)}, x=fixed)
    assert found.activations["x"] == fixed


def test_what_a_reader_cannot_tell_apart_needs_no_levels() -> None:
    model = graph("c = Conv(x, w) s = Sigmoid(c) m = Mul(c, s) y = Conv(m, w)")
    params = solved(model, {"c": (-100, 20)}).activations["c"]
    assert -8.1 < params.lo < -7.9
    assert params.hi == pytest.approx(20, abs=0.1)


def test_a_tensor_that_never_moves_has_parameters_all_the_same() -> None:
    params = params_for(Interval(0.0, 0.0))
    assert params.scale > 0
    assert params.dequantize(params.quantize(np.zeros(1, np.float32)))[0] == 0


def test_no_scale_leaves_the_normal_floats() -> None:
    assert params_for(Interval(-1e-30, 1e-30)).scale == pytest.approx(SMALLEST_SCALE)
