"""The QDQ graph in the engines that read it: the simulation's numbers, and float where float was decided."""

from collections.abc import Mapping, Sequence

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from edgekit.compile.onnxruntime.target import POLICY as ORT_POLICY
from edgekit.compile.onnxruntime.target import TARGET as ORT
from edgekit.compile.openvino.target import TARGET as OPENVINO
from edgekit.compile.qdq import float_as_integers, to_qdq
from edgekit.compile.target import Target
from edgekit.quantize.calibration import Sample, calibrate
from edgekit.quantize.plan import correct, place_and_solve, relative_error, split
from edgekit.quantize.quantized import QuantizedModel
from edgekit.quantize.simulate import simulate
from edgekit.runtimes.registry import runtime

Arrays = dict[str, NDArray[np.float32]]
Attribute = int | float | str | list[int]
RNG = np.random.default_rng(11)
SHAPE = (2, 4, 9, 8)


def weight(*shape: int) -> NDArray[np.float32]:
    """Weights that keep the size of what they see."""
    return np.asarray(RNG.normal(size=shape) / np.sqrt(np.prod(shape[1:])), np.float32)


CONSTANTS: dict[str, NDArray[np.generic]] = {
    "w": weight(4, 4, 3, 3),
    "v": weight(4, 4, 3, 3),
    "u": weight(4, 4, 3, 3),
    "grouped": weight(8, 2, 3, 3),
    "depthwise": weight(4, 1, 3, 3),
    "up": weight(4, 2, 2, 2),
    "up_grouped": weight(4, 3, 2, 2),
    "fc": weight(5, 4),
    "product": weight(8, 6),
    "b": RNG.normal(0, 0.2, 4).astype(np.float32),
    "fc_b": RNG.normal(0, 0.2, 5).astype(np.float32),
    "slope": np.array([0.1, 0.2, 0.3, 0.4], np.float32).reshape(4, 1, 1),
    "half": np.array(0.5, np.float32),
    "zero": np.array(0, np.float32),
    "three": np.array(3, np.float32),
    "pads": np.array([0, 0, 1, 0, 0, 0, 0, 1], np.int64),
    "sizes": np.array([2, 4, 18, 16], np.int64),
    "flat": np.array([0, 4, 72], np.int64),
    "square": np.array([0, 4, 9, 8], np.int64),
    "starts": np.array([1], np.int64),
    "ends": np.array([7], np.int64),
    "axes": np.array([2], np.int64),
    "split": np.array([1, 3], np.int64),
}
SAME: dict[str, Attribute] = {"kernel_shape": [3, 3], "pads": [1] * 4, "strides": [1, 1], "dilations": [1, 1]}


def node(op: str, inputs: str, output: str, **attributes: Attribute) -> onnx.NodeProto:
    """A node named after its (first) result; `-` is an input that is left out."""
    outputs = output.split()
    made = helper.make_node(op, ["" if n == "-" else n for n in inputs.split()], outputs, outputs[0])
    made.attribute.extend(helper.make_attribute(name, value) for name, value in attributes.items())
    return made


def conv(source: str, result: str, weights: str = "w", **attributes: Attribute) -> onnx.NodeProto:
    """A 3x3 convolution that keeps height and width."""
    return node("Conv", f"{source} {weights} b", result, **{**SAME, **attributes})


def graph(*nodes: onnx.NodeProto, outputs: Sequence[str] = ("y",)) -> ir.Model:
    """A canonical graph with input x of SHAPE."""
    used = {name for each in nodes for name in each.input}
    made = helper.make_graph(
        list(nodes),
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, SHAPE)],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs],
        [numpy_helper.from_array(array, name) for name, array in CONSTANTS.items() if name in used],
    )
    model = helper.make_model(made, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    return ir.from_proto(onnx.shape_inference.infer_shapes(model, data_prop=True, strict_mode=True))


def between(*middle: onnx.NodeProto) -> ir.Model:
    """Two convolutions with something from c to m between them."""
    return graph(conv("x", "c"), *middle, conv("m", "y", "v"))


GRAPHS: dict[str, ir.Model] = {
    "nothing": graph(conv("x", "m"), conv("m", "y", "v")),
    "Relu": between(node("Relu", "c", "m")),
    "Relu twice read": graph(
        conv("x", "c"), node("Relu", "c", "r"), conv("c", "d", "u"), node("Add", "r d", "m"), conv("m", "y", "v")
    ),
    "Clip": between(node("Clip", "c zero three", "m")),
    "LeakyRelu": between(node("LeakyRelu", "c", "m", alpha=0.1)),
    "PRelu": between(node("PRelu", "c slope", "m")),
    "SiLU": between(node("Sigmoid", "c", "s"), node("Mul", "c s", "m")),
    "Tanh": between(node("Tanh", "c", "m")),
    "HardSwish": between(node("HardSwish", "c", "m")),
    "HardSigmoid": between(node("HardSigmoid", "c", "m")),
    "residual": between(node("Relu", "c", "r"), conv("r", "d", "u"), node("Add", "r d", "m")),
    "difference": between(conv("x", "d", "u"), node("Sub", "c d", "m")),
    "scaled": between(node("Mul", "c half", "m")),
    "MaxPool": between(node("MaxPool", "c", "m", kernel_shape=[3, 3], pads=[1] * 4, strides=[1, 1])),
    "AveragePool": between(node("AveragePool", "c", "m", kernel_shape=[2, 2], strides=[2, 2])),
    "Pad": between(node("Pad", "c pads", "m")),
    "Resize": between(node("Resize", "c - - sizes", "m", mode="nearest", nearest_mode="floor")),
    "Transpose": between(node("Transpose", "c", "m", perm=[0, 1, 3, 2])),
    "Reshape": between(node("Reshape", "c flat", "f"), node("Reshape", "f square", "m")),
    "Slice": between(node("Slice", "c starts ends axes", "m")),
    "Split and Concat": between(node("Split", "c split", "p q", axis=1), node("Concat", "q p", "m", axis=1)),
    "groups": graph(conv("x", "c"), node("Conv", "c grouped", "y", **{**SAME, "group": 2})),
    "depthwise": graph(conv("x", "c"), conv("c", "y", "depthwise", group=4)),
    "transposed": graph(conv("x", "c"), node("ConvTranspose", "c up", "y", kernel_shape=[2, 2], strides=[2, 2])),
    "grouped transposed": graph(
        conv("x", "c"), node("ConvTranspose", "c up_grouped", "y", kernel_shape=[2, 2], strides=[2, 2], group=2)
    ),
    "mean and Gemm": graph(
        conv("x", "c"),
        node("Relu", "c", "r"),
        node("GlobalAveragePool", "r", "p"),
        node("Flatten", "p", "f"),
        node("Gemm", "f fc fc_b", "y", transB=1),
    ),
    "MatMul": graph(conv("x", "c"), node("MatMul", "c product", "y")),
}
"""One small graph for each role that an operator can have between two linear nodes."""


def quantized(
    model: ir.Model, keep_float: Sequence[str] = (), count: int = 6, **choices: str
) -> tuple[QuantizedModel, list[Arrays]]:
    """Quantized on noise, and the noise."""
    data: list[Arrays] = [{"x": RNG.normal(size=SHAPE).astype(np.float32)} for _ in range(count)]
    samples = [Sample(str(i), arrays) for i, arrays in enumerate(data)]
    seen = calibrate(model, samples, observer_name="minmax", chosen=split(count).chosen, threads=1)
    integer, parameters = place_and_solve(model, seen, keep_float=keep_float)
    made, _ = correct(
        model,
        integer,
        parameters,
        seen,
        samples,
        weights="saturation-safe",  # right on the machine of the tests, whatever it is
        granularity=choices.get("granularity", "channel"),
        error=relative_error,
        threads=1,
    )
    return made, data


def floats(arrays: Mapping[str, NDArray[np.generic]]) -> Arrays:
    """The same with their type known."""
    return {name: np.asarray(array, np.float32) for name, array in arrays.items()}


def simulated(model: QuantizedModel, data: Sequence[Arrays], *, rounded: bool) -> list[Arrays]:
    """The core's own answer."""
    return [floats(each) for each in simulate(model, data, threads=1, round_outputs=rounded)]


def level_of(model: QuantizedModel, output: str) -> float:
    """One step of the last 8-bit tensor before an output."""
    params = model.activations.get(output) or model.output_hint.get(output)
    return params.scale if params is not None else 0.02


def answers(target: Target, model: QuantizedModel, data: Sequence[Arrays]) -> list[Arrays]:
    """Through the product's own emission and adapter: optimised as on a device."""
    session = runtime(target.name).load(target.emit_integer(model).loadable("test"), threads=1)
    return [floats(session(arrays)) for arrays in data]


def unoptimised(content: bytes, data: Sequence[Arrays]) -> list[Arrays]:
    """ONNX Runtime's literal reading of the file."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    return [dict(zip(["y"], session.run(None, arrays), strict=True)) for arrays in data]


def levels_apart(a: Sequence[Arrays], b: Sequence[Arrays], level: float) -> NDArray[np.float64]:
    """All differences of output y, in levels."""
    return np.concatenate(
        [np.abs(np.asarray(x["y"], np.float64) - y["y"]).ravel() / level for x, y in zip(a, b, strict=True)]
    )


def expected(model: QuantizedModel, data: Sequence[Arrays], target: Target) -> list[Arrays]:
    """The simulation; where the engine has no float result of the last operator, rounded."""
    last = model.model.graph.outputs[0].producer()
    rounds = target is ORT and last is not None and last.op_type in ORT_POLICY.needs_rounded_result
    return simulated(model, data, rounded=rounds)


@pytest.mark.parametrize("granularity", ["channel", "tensor"])
@pytest.mark.parametrize("name", list(GRAPHS))
def test_the_literal_file_is_the_simulation(name: str, granularity: str) -> None:
    model, data = quantized(GRAPHS[name], granularity=granularity)
    assert model.integer_nodes == {n.name for n in GRAPHS[name].graph}
    content = to_qdq(model, ORT_POLICY).SerializeToString()
    off = levels_apart(expected(model, data, ORT), unoptimised(content, data), level_of(model, "y"))
    # float sums in another order tip a value that lies on a rounding tie, rarely, and by one level
    assert np.mean(off > 1e-3) < 0.005
    assert off.max() < 2.01


TIES = {"AveragePool"}
"""Four values have one of four fractions of a level, half of them one that is or nears a tie: engines break it their
own way (half to even, half up), and a level of the mean is several of what follows (ORT #32132)."""
BOUNDS = {"onnxruntime": (1.01, 0.1), "openvino": (2.0, 0.5)}
"""99 % and mean of the distance in levels. OpenVINO keeps some tensors between fused operators unrounded."""


@pytest.mark.parametrize("target", [ORT, OPENVINO], ids=lambda target: str(target.name))
@pytest.mark.parametrize("name", [name for name in GRAPHS if name not in TIES])
def test_an_engine_that_optimises_stays_near(name: str, target: Target) -> None:
    model, data = quantized(GRAPHS[name])
    off = levels_apart(expected(model, data, target), answers(target, model, data), level_of(model, "y"))
    almost_all, mean = BOUNDS[target.name]
    assert np.percentile(off, 99) < almost_all
    assert off.mean() < mean


FLOATS_BETWEEN = {
    "a float convolution": (conv("r", "d", "u"),),
    "behind what only moves values": (
        node("MaxPool", "r", "p", kernel_shape=[2, 2], strides=[1, 1]),
        node("Transpose", "p", "t", perm=[0, 1, 3, 2]),
        conv("t", "d", "u"),
    ),
    "without a bias": (node("Conv", "r u", "d", **SAME),),
    "grouped": (node("Conv", "r depthwise", "d", **{**SAME, "group": 4}),),
}


@pytest.mark.parametrize("target", [ORT, OPENVINO], ids=lambda target: str(target.name))
@pytest.mark.parametrize("name", list(FLOATS_BETWEEN))
def test_a_float_node_between_integer_nodes_stays_float(name: str, target: Target) -> None:
    source = graph(
        conv("x", "c"), node("Relu", "c", "r"), *FLOATS_BETWEEN[name], node("Relu", "d", "e"), conv("e", "y", "v")
    )
    model, data = quantized(source, keep_float=["d"])
    assert "d" not in model.integer_nodes
    assert {"c", "y"} <= model.integer_nodes
    want = expected(model, data, target)
    off = levels_apart(want, answers(target, model, data), level_of(model, "y"))
    # weights that an engine rounds by itself, per tensor, move every value by a good part of a level
    assert np.mean(off > 0.3) < 0.01


def test_no_scale_of_a_float_gemm_or_transposed_convolution_is_made_up_either() -> None:
    source = graph(
        conv("x", "c"),
        node("ConvTranspose", "c up_grouped", "t", kernel_shape=[2, 2], strides=[2, 2], group=2),
        node("GlobalAveragePool", "c", "p"),
        node("Flatten", "p", "f"),
        node("Gemm", "f fc fc_b", "y", transB=1),
        outputs=("y", "t"),
    )
    model, data = quantized(source, keep_float=["t", "y"])
    assert model.integer_nodes == {"c"}
    session = runtime("onnxruntime").load(ORT.emit_integer(model).loadable("test"), threads=1)
    for want, arrays in zip(simulated(model, data, rounded=True), data, strict=True):
        got = floats(session(arrays))
        for name in ("y", "t"):
            np.testing.assert_allclose(got[name], want[name], atol=1e-5)


def test_a_float_reader_of_an_8_bit_input_sees_the_unrounded_values() -> None:
    source = graph(conv("x", "c"), node("Sin", "x", "s"), node("Add", "c s", "y"))
    model, data = quantized(source)
    for arrays, got in zip(data, answers(ORT, model, data), strict=True):
        c = model.output_hint["c"]
        steps = (got["y"] - np.sin(arrays["x"])) / c.scale
        assert np.abs(steps - np.rint(steps)).max() < 1e-2


def test_an_output_that_is_also_read_inside_keeps_its_name_and_value() -> None:
    source = graph(conv("x", "c"), node("Relu", "c", "r"), conv("r", "y", "v"), outputs=("y", "c", "r"))
    model, data = quantized(source)
    reference = onnxruntime.InferenceSession(ir.to_proto(source).SerializeToString())
    for target in (ORT, OPENVINO):
        for arrays, got in zip(data, answers(target, model, data), strict=True):
            assert list(got) == ["y", "c", "r"]
            want = reference.run(["c", "r"], arrays)
            assert np.asarray(got["c"]).min() < 0
            for a, b in zip(want, (got["c"], got["r"]), strict=True):
                assert np.abs(a - b).max() < 2.5 * level_of(model, "c")


def test_the_same_model_gives_the_same_bytes() -> None:
    model, _ = quantized(GRAPHS["residual"])
    assert ORT.emit_integer(model).files == ORT.emit_integer(model).files
    assert OPENVINO.emit_integer(model).files == OPENVINO.emit_integer(model).files


def test_names_that_the_writer_would_take_are_the_models_own() -> None:
    nodes = (conv("x", "x/8bit"), node("Relu", "x/8bit", "scale_0"), conv("scale_0", "y", "v"))
    model, data = quantized(graph(*nodes))
    onnx.checker.check_model(to_qdq(model, ORT_POLICY), full_check=True)
    want = expected(model, data, ORT)
    off = levels_apart(want, answers(ORT, model, data), level_of(model, "y"))
    assert np.percentile(off, 99) < 1.01


@given(st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=1, max_size=20))
def test_floats_as_integers_are_bit_for_bit(values: list[float]) -> None:
    x = np.array(values, np.float32)
    steps, scales = float_as_integers(x)
    assert np.array_equal(steps.astype(np.float32) * scales, x)
