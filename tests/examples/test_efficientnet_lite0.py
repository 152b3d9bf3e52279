"""The example that reads a PyTorch checkpoint without PyTorch."""

import os
import pickle
from pathlib import Path

import numpy as np
import pytest
from efficientnet_lite0 import MAGIC, PACKAGE, Storage, View, checkpoint, read_checkpoint, write_model

SHARED = Path(os.environ.get("EDGEKIT_SHARED", Path(__file__).parents[2] / "../shared"))
REFERENCE = SHARED / "data/models/efficientnet_lite0.onnx"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip(PACKAGE, reason="the checkpoint's package is not installed")
    path = tmp_path_factory.mktemp("model") / "efficientnet_lite0.onnx"
    write_model(path)
    return path


def test_computes_what_pytorch_s_export_computes(model: Path) -> None:
    if not REFERENCE.exists():
        pytest.skip(f"no reference model at {REFERENCE}")
    ort = pytest.importorskip("onnxruntime")
    x = np.random.default_rng(0).uniform(-1, 1, (2, 3, 224, 224)).astype(np.float32)
    got, want = (ort.InferenceSession(file).run(None, {"input": x})[0] for file in (str(model), str(REFERENCE)))
    assert got.shape == (2, 1000)
    assert np.abs(got - want).max() <= 1e-4 * np.abs(want).max()


def test_has_no_node_that_the_network_does_not_need(model: Path) -> None:
    onnx = pytest.importorskip("onnx")
    graph = onnx.load(model).graph
    assert {node.op_type for node in graph.node} == {"Conv", "Clip", "Add", "GlobalAveragePool", "Flatten", "Gemm"}
    assert sum(node.op_type == "Conv" for node in graph.node) == 49


def test_a_checkpoint_that_names_another_function_is_refused(tmp_path: Path) -> None:
    evil = tmp_path / "evil.pth"
    evil.write_bytes(pickle.dumps(MAGIC, 2) + pickle.dumps(1001, 2) + pickle.dumps(os.getcwd, 2))
    with pytest.raises(pickle.UnpicklingError, match="may not have"):
        read_checkpoint(evil)


def test_a_checkpoint_that_was_cut_off_is_refused(tmp_path: Path) -> None:
    pytest.importorskip(PACKAGE)
    whole = checkpoint().read_bytes()
    cut = tmp_path / "cut.pth"
    cut.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ValueError, match="cut off"):
        read_checkpoint(cut)


def test_a_file_of_another_kind_is_refused(tmp_path: Path) -> None:
    other = tmp_path / "other.pth"
    other.write_bytes(pickle.dumps(42, 2) * 2)
    with pytest.raises(ValueError, match="not a PyTorch checkpoint"):
        read_checkpoint(other)


def test_a_tensor_that_reaches_outside_its_storage_is_refused() -> None:
    with pytest.raises(ValueError, match="outside"):
        View(Storage(np.zeros(10, np.float32)), 5, (2, 3), (3, 1)).array()
