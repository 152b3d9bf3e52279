"""Real classifiers: as few operators as can be, float as ONNX Runtime, 8-bit as the simulation, any batch."""

import os
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from numpy.typing import NDArray

from edgekit.compile.tflite.target import TARGET
from edgekit.quantize.simulate import simulate

if TYPE_CHECKING:
    from tests.compile.tflite.conftest import Writer

SHARED = Path(os.environ.get("EDGEKIT_SHARED", Path(__file__).parents[3] / "../shared")) / "data" / "models"
OPERATORS = {"efficientnet_lite0": 61, "squeezenet1_1": 39, "mobilenet_v1_0.25_128": 30}


@pytest.fixture(params=OPERATORS)
def model(request: pytest.FixtureRequest) -> onnx.ModelProto:
    """A classifier with named nodes, constants as initializers, shapes inferred."""
    path = SHARED / f"{request.param}.onnx"
    if not path.exists():
        pytest.skip(f"{path.name} is not at EDGEKIT_SHARED")
    found = onnx.load(path)
    found.graph.name = request.param
    kept = []
    for i, node in enumerate(found.graph.node):
        if node.op_type == "Constant":
            tensor = found.graph.initializer.add()
            tensor.CopyFrom(node.attribute[0].t)
            tensor.name = node.output[0]
            continue
        node.name = node.name or f"n{i}"
        kept.append(node)
    del found.graph.node[:]
    found.graph.node.extend(kept)
    return onnx.shape_inference.infer_shapes(found)


def images(model: onnx.ModelProto, batch: int) -> dict[str, NDArray[np.float32]]:
    value = model.graph.input[0]
    sizes = [d.dim_value for d in value.type.tensor_type.shape.dim]
    return {value.name: np.random.default_rng(batch).uniform(-1, 1, (batch, *sizes[1:])).astype(np.float32)}


def test_float_file_is_small_fully_fused_and_right_at_any_batch(writer: "Writer", model: onnx.ModelProto) -> None:
    emitted = TARGET.emit_float(ir.from_proto(model))
    for batch in (1, 3):
        feeds = images(model, batch)
        want = writer.reference(model, feeds)["logits"]
        ran = writer.litert(emitted, feeds, "xnnpack")
        np.testing.assert_allclose(ran.outputs["logits"], want, atol=2e-5 * float(np.abs(want).max()))
    counts = Counter(ran.operators)
    assert counts.total() - counts["DELEGATE"] == OPERATORS[model.graph.name]
    assert not {"TRANSPOSE", "PAD", "RELU", "RELU6", "MINIMUM", "MAXIMUM", "SHAPE"} & set(counts)


def test_int8_file_follows_the_simulation(writer: "Writer", model: onnx.ModelProto) -> None:
    """Rounding differs in ties only, so that a few levels are left after the last of some fifty layers."""
    feeds = images(model, 1)
    quantized = writer.quantize(model, [feeds])
    emitted = TARGET.emit_integer(quantized)
    simulated: dict[str, Any] = simulate(quantized, [feeds], threads=1, round_outputs=True)[0]
    want = simulated["logits"]
    reference = writer.reference(model, feeds)["logits"]
    for engine in ("xnnpack", "builtin"):
        got = writer.litert(emitted, feeds, engine).outputs["logits"]
        error = np.linalg.norm(got - want) / np.linalg.norm(want - want.mean())
        rounding = np.linalg.norm(want - reference) / np.linalg.norm(want - want.mean())
        assert error < max(0.05, 2 * float(rounding))
