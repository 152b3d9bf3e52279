"""The commands on a bundle that was really built: what they print, write and return."""

import csv
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from PIL import Image

from edgekit.cli.main import main

CLASSES = ("dark", "light", "red")


def write_model(path: Path) -> None:
    """Conv, Relu, mean, Gemm: `x` [1, 3, 32, 32] -> `y` [1, 3]."""
    rng = np.random.default_rng(3)
    weights = {"w": rng.normal(0, 0.4, (8, 3, 3, 3)), "b": rng.normal(0, 0.1, 8), "fc": rng.normal(0, 0.6, (3, 8))}
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["c"], "conv", pads=[1, 1, 1, 1], kernel_shape=[3, 3]),
        helper.make_node("Relu", ["c"], ["r"], "relu"),
        helper.make_node("GlobalAveragePool", ["r"], ["p"], "pool"),
        helper.make_node("Flatten", ["p"], ["f"], "flatten"),
        helper.make_node("Gemm", ["f", "fc"], ["y"], "fc", transB=1),
    ]
    graph = helper.make_graph(
        nodes,
        "tiny",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 32, 32])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 3])],
        [numpy_helper.from_array(value.astype(np.float32), name) for name, value in weights.items()],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def write_pictures(folder: Path, count: int, seed: int) -> None:
    folder.mkdir()
    rng = np.random.default_rng(seed)
    for index in range(count):
        pixels = rng.integers(0, 256, (5, 5, 3), dtype=np.uint8)
        Image.fromarray(pixels).resize((64, 48), Image.Resampling.BICUBIC).save(folder / f"{index:02}.png")


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a model, pictures, labels, classes, an edgekit.toml, and the bundle that it builds."""
    folder = tmp_path_factory.mktemp("work")
    write_model(folder / "model.onnx")
    write_pictures(folder / "calibration", 12, seed=1)
    write_pictures(folder / "heldout", 6, seed=2)
    with (folder / "labels.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("file", "label"), *((f"{i:02}.png", i % 3) for i in range(6))])
    (folder / "classes.txt").write_text("\n".join(CLASSES) + "\n")
    np.save(folder / "x.npy", np.zeros((1, 3, 32, 32), np.float32))
    (folder / "edgekit.toml").write_text(
        'model = "model.onnx"\ncalibration = "calibration"\npreprocess = "tf"\nclasses = "classes.txt"\n'
        'runtime = ["onnxruntime", "litert"]\nprefer = "size"\noutput = "model.ekb"\nno-cache = true\n'
    )
    assert main(["build", str(folder / "edgekit.toml")]) == 0
    return folder


def answer(capsys: pytest.CaptureFixture[str], *words: str | Path, code: int = 0) -> dict[str, object]:
    """The JSON document of a command."""
    capsys.readouterr()
    assert main([*map(str, words), "--json"]) == code
    document = json.loads(capsys.readouterr().out)
    assert isinstance(document, dict)
    return document


def test_build_writes_the_bundle_its_report_and_its_reference(work: Path) -> None:
    assert (work / "model.ekb").is_file()
    assert json.loads((work / "model.report/recipe.json").read_text())
    assert (work / "model.reference").is_dir()
    assert not list(work.glob("*.part*"))


def test_an_existing_bundle_is_not_overwritten_without_force(work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = (work / "model.ekb").read_bytes()
    assert main(["build", str(work / "edgekit.toml")]) == 2
    assert "--force" in capsys.readouterr().err
    assert (work / "model.ekb").read_bytes() == before


def test_images_without_a_preprocess_list_the_presets_that_fit(work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["build", str(work / "model.onnx"), "--calibration", str(work / "calibration"), "-o", str(work / "no.ekb")]
    assert main(words) == 2
    assert "torchvision" in capsys.readouterr().err
    assert not (work / "no.ekb").exists()


def test_a_build_without_an_output_is_a_usage_error(work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["build", str(work / "model.onnx")]) == 2
    assert "-o OUT.ekb" in capsys.readouterr().err


def test_inspect_shows_artifacts_with_sizes_hashes_and_integer_share(
    work: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    artifacts = answer(capsys, "inspect", work / "model.ekb")["artifacts"]
    assert isinstance(artifacts, list)
    assert {each["runtime"] for each in artifacts} == {"onnxruntime", "litert"}
    for each in artifacts:
        assert each["size"] > 0
        assert each["precision"] != "int8" or each["integer_share"] > 0.99
        assert all(len(file["sha256"]) == 64 for file in each["files"])


def test_run_names_the_classes_of_pictures_in_a_folder(work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    document = answer(capsys, "run", work / "model.ekb", work / "heldout", "--runtime", "litert", "--top", "2")
    assert document["runtime"] == "litert"
    results = document["results"]
    assert isinstance(results, list)
    assert len(results) == 6
    assert all(len(each["labels"]) == 2 and each["labels"][0]["name"] in CLASSES for each in results)


def test_run_prints_a_line_per_class(work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert main(["run", str(work / "model.ekb"), str(work / "heldout/00.png"), "--top", "3"]) == 0
    printed = capsys.readouterr().out
    assert all(name in printed for name in CLASSES)


def test_run_writes_raw_outputs_of_an_array(work: Path, tmp_path: Path) -> None:
    raw = tmp_path / "out.npz"
    assert main(["run", str(work / "model.ekb"), str(work / "x.npy"), "--raw", str(raw)]) == 0
    with np.load(raw) as outputs:
        assert outputs["y"].shape == (1, 3)


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["nothing.png"], 4, "no such file"),
        (["model.onnx"], 4, "model.onnx"),
        (["labels.csv"], 4, "labels.csv"),
        (["empty"], 4, "holds no image"),
        (["x.npy", "--runtime", "tensorrt"], 2, "tensorrt"),
        (["x.npy", "--runtime", "openvino"], 5, "openvino"),
        (["heldout", "--raw", "o.npz"], 2, "one input"),
    ],
)
def test_run_refuses_by_name(
    words: list[str],
    code: int,
    said: str,
    work: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(work)
    (work / "empty").mkdir(exist_ok=True)
    assert main(["run", "model.ekb", *words]) == code
    captured = capsys.readouterr()
    assert said in captured.err
    assert captured.err.count("\n") == 2


@pytest.mark.parametrize("command", ["inspect", "run", "bench", "export", "eval"])
@pytest.mark.parametrize("damage", ["missing", "cut", "text"])
def test_a_damaged_bundle_is_bad_input_for_every_command(
    command: str, damage: str, work: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bundle = tmp_path / "model.ekb"
    content = {"cut": (work / "model.ekb").read_bytes()[:-100], "text": b"not a bundle"}.get(damage)
    if content is not None:
        bundle.write_bytes(content)
    more = {
        "run": [str(work / "x.npy")],
        "export": ["--runtime", "litert", "-o", str(tmp_path / "plain")],
        "eval": ["--data", str(work / "heldout"), "--labels", str(work / "labels.csv")],
    }
    assert main([command, str(bundle), *more.get(command, [])]) == 4
    captured = capsys.readouterr()
    assert "model.ekb" in captured.err
    assert captured.err.count("\n") == 2
    assert captured.out == ""


def test_eval_measures_against_labels_and_the_float_model(work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["eval", str(work / "model.ekb"), "--data", str(work / "heldout"), "--labels", str(work / "labels.csv")]
    document = answer(capsys, *words, "--runtime", "onnxruntime", "--precision", "int8")
    assert set(document) == {"metric", "value", "agreement", "kl", "samples", "runtime", "precision"}
    assert (document["metric"], document["samples"], document["precision"]) == ("top1", 6, "int8")
    agreement, kl = document["agreement"], document["kl"]
    assert isinstance(agreement, float)
    assert isinstance(kl, float)
    assert 0.8 <= agreement <= 1
    assert 0 <= kl < 0.01


def test_eval_without_the_reference_says_why_it_is_silent(
    work: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lonely = tmp_path / "model.ekb"
    lonely.write_bytes((work / "model.ekb").read_bytes())
    words = ["eval", str(lonely), "--data", str(work / "heldout"), "--labels", str(work / "labels.csv")]
    document = answer(capsys, *words, "--precision", "int8")
    assert document["agreement"] is None
    assert document["kl"] is None


def test_bench_gives_paired_ratios_with_their_bounds(work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runtimes = answer(capsys, "bench", work / "model.ekb", "--threads", "1")["runtimes"]
    assert isinstance(runtimes, dict)
    assert set(runtimes) == {"onnxruntime", "litert"}
    for each in runtimes.values():
        assert each["low"] <= each["speedup"] <= each["high"]
        assert each["fp32_ms"] > 0
        assert each["int8_ms"] > 0


def test_export_writes_the_plain_files_and_never_over_others(
    work: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["export", str(work / "model.ekb"), "--runtime", "litert", "-o", str(tmp_path / "plain")]
    assert main(words) == 0
    assert [file.name for file in (tmp_path / "plain").iterdir()] == ["model.tflite"]
    assert main(words) == 2
    assert "--force" in capsys.readouterr().err
    assert main([*words, "--force"]) == 0


def test_devices_lists_the_profiles_and_detects_this_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["devices"]) == 0
    assert "raspberry-pi-5" in capsys.readouterr().out
    file = tmp_path / "mine.toml"
    assert main(["devices", "--detect", "-o", str(file)]) == 0
    assert main(["check", "--help"]) == 0
    assert 'name = "host"' in file.read_text()
    assert main(["devices", "-o", str(file)]) == 2


def test_an_interrupted_build_leaves_nothing(work: Path, tmp_path: Path) -> None:
    """SIGTERM in the middle: exit code 130, no bundle, no part of one."""
    script = (
        "import os, signal, sys, threading; from edgekit.cli.main import main\n"
        "import edgekit.build.candidates as candidates\n"
        "candidates.prove = lambda *a, **k: os.kill(os.getpid(), signal.SIGTERM)\n"
        "import edgekit.build.pipeline as pipeline; pipeline.prove = candidates.prove\n"
        "sys.exit(main(sys.argv[1:]))"
    )
    output = tmp_path / "model.ekb"
    words = ["build", str(work / "edgekit.toml"), "-o", str(output)]
    done = subprocess.run([sys.executable, "-c", script, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 130, done.stderr
    assert "interrupted" in done.stderr
    assert list(tmp_path.iterdir()) == []
