"""The accuracy budget, on a network of two classes so close that 8 bits cannot tell them apart; and presets."""

import csv
import json
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from PIL import Image

from edgekit.build.options import BuildOptions
from edgekit.build.pipeline import BuildResult, build
from edgekit.cli.main import main
from edgekit.core.artifact import Port
from edgekit.core.bundle import Bundle
from edgekit.core.errors import ExitCode, PromiseNotKept
from edgekit.core.presets import preset

PICTURES = 40
SIDE = 64


def write_model(path: Path, weights: NDArray[np.float32], side: int) -> None:
    """Two 1x1 filters, Relu, mean: `x` [1, 3, side, side] -> `y` [1, 2]."""
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["c"], "conv"),
        helper.make_node("Relu", ["c"], ["r"], "relu"),
        helper.make_node("GlobalAveragePool", ["r"], ["p"], "pool"),
        helper.make_node("Flatten", ["p"], ["f"], "flatten"),
        helper.make_node("Gemm", ["f", "fc"], ["y"], "fc", transB=1),
    ]
    constants = {
        "w": weights.reshape(2, 3, 1, 1),
        "b": np.full(2, 3, np.float32),
        "fc": np.eye(2, dtype=np.float32),
    }
    graph = helper.make_graph(
        nodes,
        "close",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, side, side])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 2])],
        [numpy_helper.from_array(value.astype(np.float32), name) for name, value in constants.items()],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def write_labels(path: Path, labels: dict[str, int]) -> None:
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([("file", "label"), *labels.items()])


@pytest.fixture(scope="module")
def close(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model, pictures, and as labels what the float model says of them: float loses nothing, 8 bits a good part."""
    folder = tmp_path_factory.mktemp("close")
    write_model(folder / "model.onnx", np.array([[1, 0.5, 0], [0.998, 0.502, 0]], np.float32), SIDE)
    rng = np.random.default_rng(4)
    session = onnxruntime.InferenceSession(folder / "model.onnx")
    convert = preset("tf", Port("x", "float32", (1, 3, SIDE, SIDE)))
    labels = {}
    for name in ("photos", "eval"):
        (folder / name).mkdir()
        for i in range(PICTURES):
            picture = folder / name / f"{name}{i:02}.png"
            level = rng.integers(40, 215, 3)
            noise = rng.integers(-30, 31, (SIDE, SIDE, 3))
            Image.fromarray((level + noise).astype(np.uint8)).save(picture)
            if name == "eval":
                labels[picture.name] = int(session.run(None, {"x": convert(picture)})[0].argmax())
    assert 10 < sum(labels.values()) < PICTURES - 10
    write_labels(folder / "labels.csv", labels)
    return folder


def options(close: Path, output: Path, **more: object) -> BuildOptions:
    """8 bits wherever they are allowed to ship."""
    given: dict[str, object] = {"runtimes": ("onnxruntime", "litert"), "prefer": "size", "cache": False, **more}
    return BuildOptions(
        model=close / "model.onnx",
        calibration=close / "photos",
        output=output,
        preprocess="tf",
        eval_data=close / "eval",
        labels=close / "labels.csv",
        **given,  # type: ignore[arg-type]
    )


def precisions(result: BuildResult) -> set[str]:
    """What ships."""
    return {entry.precision for entry in result.manifest.artifacts}


def test_without_a_budget_the_loss_is_only_reported(close: Path, tmp_path: Path) -> None:
    result = build(options(close, tmp_path / "out.ekb"))
    assert precisions(result) == {"int8"}
    measured = json.loads((tmp_path / "out.report" / "measurements.json").read_text())["accuracy"]
    assert set(measured) == {"onnxruntime", "litert"}
    for figures in measured.values():
        assert figures["fp32"]["value"] > 0.94  # another engine than the labels' may see one picture otherwise
        assert figures["int8"]["value"] < 0.9
        assert figures["int8"]["agreement"] < 0.9
        assert figures["int8"]["samples"] == PICTURES


def test_float_ships_where_8_bits_lose_more_than_the_budget(close: Path, tmp_path: Path) -> None:
    result = build(options(close, tmp_path / "out.ekb", max_drop=1.0))
    assert precisions(result) == {"fp32"}
    for choice in result.recipe.runtimes.values():
        assert "points" in choice.why
        assert "budget" in choice.why


def test_8_bits_ship_within_the_budget(close: Path, tmp_path: Path) -> None:
    assert precisions(build(options(close, tmp_path / "out.ekb", max_drop=100.0))) == {"int8"}


def test_8_bits_asked_for_by_name_beyond_the_budget_are_a_promise_not_kept(close: Path, tmp_path: Path) -> None:
    with pytest.raises(PromiseNotKept, match=r"onnxruntime: \d.*points lost") as raised:
        build(options(close, tmp_path / "out.ekb", max_drop=0.0, precision="int8"))
    assert raised.value.exit_code == ExitCode.PROMISE_NOT_KEPT
    with Bundle.open(tmp_path / "out.ekb") as bundle:
        assert {entry.label.split()[1] for entry in bundle.manifest.artifacts} == {"int8"}
    assert (tmp_path / "out.report" / "measurements.json").is_file()
    assert (tmp_path / "out.reference" / "reference.ekb").is_file()


def test_the_command_says_so_and_ends_with_3(close: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["build", close / "model.onnx", "--calibration", close / "photos", "--preprocess", "tf"]
    words += ["--eval", close / "eval", "--labels", close / "labels.csv", "--max-drop", "0", "--precision", "int8"]
    words += ["--runtime", "onnxruntime", "--no-cache", "-o", tmp_path / "out.ekb"]
    assert main(list(map(str, words))) == ExitCode.PROMISE_NOT_KEPT
    problem, remedy = capsys.readouterr().err.strip().splitlines()[-2:]
    assert "points lost, the budget is 0" in problem
    assert "--max-drop" in remedy
    assert (tmp_path / "out.ekb").is_file()


def test_the_precision_asked_for_ships_whatever_is_faster(close: Path, tmp_path: Path) -> None:
    for precision in ("int8", "fp32"):
        result = build(options(close, tmp_path / f"{precision}.ekb", prefer="speed", precision=precision))
        assert precisions(result) == {precision}
        onnx.checker.check_model(tmp_path / f"{precision}.reference" / "model.onnx", full_check=True)


def test_a_preset_that_fits_the_labels_better_is_named(tmp_path: Path) -> None:
    """Red is a little more than green: by torchvision's means green wins, on a plain scale red."""
    write_model(tmp_path / "model.onnx", np.eye(2, 3, dtype=np.float32), 224)
    labels = {}
    for name, base in (("photos", 90), ("eval", 91)):
        (tmp_path / name).mkdir()
        for i in range(12):
            red = base + 4 * i
            Image.new("RGB", (256, 256), (red, red - 4, 60)).save(tmp_path / name / f"{name}{i:02}.png")
            if name == "eval":
                labels[f"{name}{i:02}.png"] = 1
    write_labels(tmp_path / "labels.csv", labels)
    for used, warned in (("tf", True), ("torchvision", False)):
        result = build(
            BuildOptions(
                model=tmp_path / "model.onnx",
                calibration=tmp_path / "photos",
                output=tmp_path / f"{used}.ekb",
                runtimes=("onnxruntime",),
                preprocess=used,
                eval_data=tmp_path / "eval",
                labels=tmp_path / "labels.csv",
                cache=False,
            )
        )
        remarks = [note for note in result.manifest.notes if "--preprocess" in note]
        assert bool(remarks) is warned, remarks
        assert all("'torchvision' reaches 100 %" in remark for remark in remarks)
