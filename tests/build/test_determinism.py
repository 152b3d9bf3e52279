"""The same model, data and recipe give the same bytes, in another folder and another process."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from edgekit.core.bundle import Bundle


def make_input(folder: Path) -> None:
    """A small network and twelve samples."""
    rng = np.random.default_rng(0)
    graph = helper.make_graph(
        [
            helper.make_node("Conv", ["x", "w1", "b1"], ["c"], pads=[1] * 4),
            helper.make_node("Relu", ["c"], ["r"]),
            helper.make_node("Conv", ["r", "w2"], ["y"]),
        ],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 3, 8, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [
            numpy_helper.from_array(rng.normal(0, 0.3, (8, 3, 3, 3)).astype(np.float32), "w1"),
            numpy_helper.from_array(rng.normal(0, 0.3, 8).astype(np.float32), "b1"),
            numpy_helper.from_array(rng.normal(0, 0.3, (4, 8, 3, 3)).astype(np.float32), "w2"),
        ],
    )
    folder.mkdir()
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, folder / "model.onnx")
    (folder / "calib").mkdir()
    for i in range(12):
        np.savez(folder / "calib" / f"{i:02}.npz", x=rng.normal(size=(1, 3, 8, 8)).astype(np.float32))


def build(source: Path, output: Path, *more: str) -> None:
    """A build in a process of its own."""
    command = [str(Path(sys.executable).with_name("edgekit")), "build", str(source / "model.onnx"), "--no-cache"]
    command += ["--calibration", str(source / "calib"), "--prefer", "size", "-o", str(output), *more]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_decided_recipe_gives_the_same_bytes_elsewhere(tmp_path: Path) -> None:
    for name in ("one", "two"):
        make_input(tmp_path / name)
    build(tmp_path / "one", tmp_path / "one" / "model.ekb")
    recipe = tmp_path / "one" / "model.report" / "recipe.json"
    for name in ("one", "two"):
        (tmp_path / name / "again").mkdir()
        build(tmp_path / name, tmp_path / name / "again" / "model.ekb", "--recipe", str(recipe))
    bundles = [(tmp_path / name / "again" / "model.ekb").read_bytes() for name in ("one", "two")]
    assert bundles[0] == bundles[1]
    with Bundle.open(tmp_path / "one" / "model.ekb") as first, Bundle.open(tmp_path / "two/again/model.ekb") as second:
        files = [[e.files for e in bundle.manifest.artifacts] for bundle in (first, second)]
    assert files[0] == files[1]


def test_no_clock_reading_enters_a_bundle(tmp_path: Path) -> None:
    make_input(tmp_path / "one")
    build(tmp_path / "one", tmp_path / "model.ekb")
    with Bundle.open(tmp_path / "model.ekb") as bundle:
        text = bundle.manifest.to_json().decode()
    assert "_ms" not in text
    assert str(tmp_path) not in text
