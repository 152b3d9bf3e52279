"""Small graphs as ONNX text, brought to the canonical form and held to ONNX Runtime's answer."""

from collections.abc import Callable, Mapping

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime as ort
import pytest
from numpy.typing import NDArray
from onnx import numpy_helper

from edgekit.build.importing.shapes import infer_shapes
from edgekit.build.importing.structure import lift_constants, name_all, separate_outputs
from edgekit.build.rewrite import canonicalize

Array = NDArray[np.generic]
FREE = 5  # what a free axis is in a run


def _parsed(text: str, arrays: Mapping[str, Array]) -> ir.Model:
    graph = onnx.parser.parse_graph(f"g {text}")
    for output in graph.output:
        output.type.tensor_type.ClearField("shape")
    graph.initializer.extend(numpy_helper.from_array(np.asarray(a), name) for name, a in arrays.items())
    proto = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 21)], ir_version=10)
    model = ir.from_proto(proto)
    lift_constants(model)
    separate_outputs(model)
    name_all(model)
    infer_shapes(model)
    return model


def _answers(model: ir.Model, feeds: Mapping[str, Array]) -> list[Array]:
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    session = ort.InferenceSession(ir.to_proto(model).SerializeToString(), options, providers=["CPUExecutionProvider"])
    return list(session.run(None, dict(feeds)))


def _feeds(model: ir.Model) -> dict[str, Array]:
    rng = np.random.default_rng(0)
    feeds: dict[str, Array] = {}
    for value in model.graph.inputs:
        assert value.shape is not None
        assert value.dtype is not None
        shape = [dim if isinstance(dim, int) else FREE for dim in value.shape]
        feeds[str(value.name)] = np.asarray(3 * rng.standard_normal(shape), value.dtype.numpy())
    return feeds


@pytest.fixture
def graph() -> Callable[..., ir.Model]:
    """`graph("(float[1,3] x) => (float y) { y = Relu(x) }", weight=array)`: an imported graph."""

    def make(text: str, /, **arrays: Array) -> ir.Model:
        return _parsed(text, arrays)

    return make


@pytest.fixture
def canonical() -> Callable[..., ir.Model]:
    """The same, canonical; its answer is the one of the graph before and no rewrite was left out."""

    def make(text: str, /, **arrays: Array) -> ir.Model:
        before = _parsed(text, arrays)
        after, notes = canonicalize(before)
        assert notes == ()
        feeds = _feeds(before)
        for got, wanted in zip(_answers(after, feeds), _answers(before, feeds), strict=True):
            assert got.shape == wanted.shape
            size = max(float(np.abs(wanted).max(initial=0)), 0.02)
            np.testing.assert_allclose(got.astype(np.float64), wanted.astype(np.float64), atol=1e-5 * size, rtol=0)
        return after

    return make


@pytest.fixture
def ops() -> Callable[[ir.Model], list[str]]:
    """Operators in order."""
    return lambda model: [node.op_type for node in model.graph]


def normal(*shape: int, seed: int = 0) -> NDArray[np.float32]:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


@pytest.fixture
def weights() -> Callable[..., NDArray[np.float32]]:
    """`weights(4, 3, seed=1)`: normal random numbers of that shape."""
    return normal
