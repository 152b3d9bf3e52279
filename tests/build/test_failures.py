"""What goes wrong during a build is one line with a remedy and the right exit code; nothing is left half-written."""

import csv
import json
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from PIL import Image

from edgekit.build import pipeline
from edgekit.cli.main import main
from edgekit.core.bundle import Bundle
from edgekit.core.errors import ExitCode

COMMAND = "import sys; from edgekit.cli.main import main; sys.exit(main())"
SLOW = """
import signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs, tests among them, ignore it
import edgekit.build.pipeline as pipeline
from edgekit.cli.main import main
whole = pipeline.{stage}
def slowed(*arguments, **choices):
    print("reached", file=sys.stderr, flush=True)
    time.sleep(60)
    return whole(*arguments, **choices)
pipeline.{stage} = slowed
sys.exit(main(sys.argv[1:]))
"""
"""A build that stands still at one of its stages."""
KILLED = """
import os, sys
from edgekit.cli.main import main
left, sync = int(sys.argv.pop(1)), os.fsync
def fsync(handle):
    global left
    left -= 1
    os.kill(os.getpid(), 9) if left < 0 else sync(handle)
os.fsync = fsync
sys.exit(main())
"""
"""A build that dies at its n-th writing of a file to the disk."""


def write_model(path: Path) -> None:
    """Conv, Relu, mean, Gemm: `x` [1, 3, 32, 32] -> `y` [1, 3], with 250 kB of weights."""
    rng = np.random.default_rng(3)
    weights = {
        "w": rng.normal(0, 0.2, (256, 3, 9, 9)),
        "b": rng.normal(0, 0.1, 256),
        "fc": rng.normal(0, 0.1, (3, 256)),
    }
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["c"], "conv"),
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


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model, calibration and evaluation pictures, labels."""
    folder = tmp_path_factory.mktemp("given")
    write_model(folder / "model.onnx")
    rng = np.random.default_rng(1)
    for name, count in (("photos", 6), ("eval", 4)):
        (folder / name).mkdir()
        for i in range(count):
            Image.fromarray(rng.integers(0, 256, (40, 40, 3), dtype=np.uint8)).save(folder / name / f"{i}.png")
    with (folder / "labels.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("file", "label"), *((f"{i}.png", i % 3) for i in range(4))])
    (folder / "empty").mkdir()
    (folder / "notes.txt").write_text("This is a text and no model.\n" * 40)
    (folder / "text.onnx").write_text("This is a text and no model.\n" * 40)
    (folder / "cut.onnx").write_bytes((folder / "model.onnx").read_bytes()[:-100_000])
    (folder / "nothing.onnx").touch()
    (folder / "broken").mkdir()
    (folder / "broken" / "good.png").write_bytes((folder / "photos" / "0.png").read_bytes())
    (folder / "broken" / "bad.png").write_bytes((folder / "photos" / "1.png").read_bytes()[:300])
    (folder / "arrays").mkdir()
    np.savez(folder / "arrays" / "0.npz", x=np.zeros((1, 3, 16, 16), np.float32))
    (folder / "names").mkdir()
    np.savez(folder / "names" / "0.npz", x=np.zeros((1, 3, 32, 32), np.float32), other=np.zeros(3))
    (folder / "nan").mkdir()
    np.savez(folder / "nan" / "0.npz", x=np.full((1, 3, 32, 32), np.nan, np.float32))
    (folder / "torn").mkdir()
    (folder / "torn" / "0.npz").write_bytes((folder / "nan" / "0.npz").read_bytes()[:200])
    (folder / "other.csv").write_text("name,class\n0.png,1\n")
    (folder / "strange.csv").write_text("file,label\nnowhere.png,1\n")
    (folder / "wide.csv").write_text("file,label\n0.png,99\n1.png,0\n")
    (folder / "words.csv").write_text("file,label\n0.png,cat\n")
    (folder / "recipe.json").write_text("{")
    (folder / "typo.json").write_text(json.dumps({"format": 1, "keep_float": ["convv"]}))
    (folder / "samples.py").write_text("def good():\n    raise RuntimeError('the camera is off')\n")
    return folder


def words(given: Path, output: Path, *more: str | Path) -> list[str]:
    """A command line whose later flags replace the earlier."""
    base = ["build", given / "model.onnx", "--calibration", given / "photos", "--preprocess", "tf"]
    return [*map(str, base), "--runtime", "onnxruntime", "--no-cache", "-o", str(output), *map(str, more)]


BAD: dict[str, tuple[dict[str, str], ExitCode, str]] = {
    "a missing model": ({"model": "nowhere.onnx"}, ExitCode.BAD_INPUT, "nowhere.onnx"),
    "a folder as model": ({"model": "empty"}, ExitCode.BAD_INPUT, "empty"),
    "an empty file as model": ({"model": "nothing.onnx"}, ExitCode.BAD_INPUT, "nothing.onnx"),
    "a text named .onnx": ({"model": "text.onnx"}, ExitCode.BAD_INPUT, "text.onnx"),
    "a text as model": ({"model": "notes.txt"}, ExitCode.BAD_INPUT, "notes.txt"),
    "a truncated model": ({"model": "cut.onnx"}, ExitCode.BAD_INPUT, "cut.onnx"),
    "no such calibration": ({"--calibration": "nowhere"}, ExitCode.BAD_INPUT, "nowhere"),
    "a folder without images": ({"--calibration": "empty"}, ExitCode.BAD_INPUT, "empty"),
    "a text as calibration": ({"--calibration": "notes.txt"}, ExitCode.BAD_INPUT, "notes.txt"),
    "a corrupt image": ({"--calibration": "broken"}, ExitCode.BAD_INPUT, "bad.png"),
    "arrays of another shape": ({"--calibration": "arrays"}, ExitCode.BAD_INPUT, "0.npz"),
    "arrays for an input that is not there": ({"--calibration": "names"}, ExitCode.BAD_INPUT, "other"),
    "arrays with NaN": ({"--calibration": "nan"}, ExitCode.BAD_INPUT, "0.npz"),
    "torn arrays": ({"--calibration": "torn"}, ExitCode.BAD_INPUT, "0.npz"),
    "a generator that raises": ({"--calibration": "samples.py:good"}, ExitCode.BAD_INPUT, "the camera is off"),
    "a generator that is not there": ({"--calibration": "samples.py:bad"}, ExitCode.BAD_INPUT, "bad"),
    "no such preset": ({"--preprocess": "=nosuch"}, ExitCode.USAGE, "nosuch"),
    "no such observer": ({"--observer": "=entropy"}, ExitCode.USAGE, "entropy"),
    "no such runtime": ({"--runtime": "=tensorrt"}, ExitCode.USAGE, "tensorrt"),
    "no such device": ({"--device": "=toaster"}, ExitCode.USAGE, "toaster"),
    "labels without pictures": ({"--labels": "labels.csv"}, ExitCode.USAGE, "--eval"),
    "pictures without labels": ({"--eval": "eval"}, ExitCode.USAGE, "--labels"),
    "a budget without labels": ({"--max-drop": "=1"}, ExitCode.USAGE, "--max-drop"),
    "labels that are missing": ({"--eval": "eval", "--labels": "nowhere.csv"}, ExitCode.BAD_INPUT, "nowhere.csv"),
    "labels with other columns": ({"--eval": "eval", "--labels": "other.csv"}, ExitCode.BAD_INPUT, "other.csv"),
    "labels for other pictures": ({"--eval": "eval", "--labels": "strange.csv"}, ExitCode.BAD_INPUT, "nowhere.png"),
    "labels beyond the classes": ({"--eval": "eval", "--labels": "wide.csv"}, ExitCode.BAD_INPUT, "99"),
    "labels that are words": ({"--eval": "eval", "--labels": "words.csv"}, ExitCode.BAD_INPUT, "cat"),
    "one set for both": ({"--eval": "photos", "--labels": "labels.csv"}, ExitCode.USAGE, "calibration"),
    "a recipe that is no JSON": ({"--recipe": "recipe.json"}, ExitCode.BAD_INPUT, "recipe.json"),
    "a recipe with a typo": ({"--recipe": "typo.json"}, ExitCode.BAD_INPUT, "convv"),
    "a recipe and an observer": ({"--recipe": "typo.json", "--observer": "=mse"}, ExitCode.USAGE, "--observer"),
    "float16": ({"--precision": "=fp16"}, ExitCode.UNSUPPORTED, "fp16"),
}
"""Flags instead of the good ones (a value after `=` is no path), the exit code, and what the message names."""


@pytest.mark.parametrize("case", list(BAD))
def test_bad_input_is_one_line_and_leaves_nothing(
    case: str, given: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    changes, code, named = BAD[case]
    line = words(given, tmp_path / "out.ekb")
    for flag, value in changes.items():
        text = value[1:] if value.startswith("=") else str(given / value)
        if flag == "model":
            line[1] = text
        elif flag in line:
            line[line.index(flag) + 1] = text
        else:
            line += [flag, text]
    assert main(line) == code
    said = capsys.readouterr().err
    problem, remedy = said.strip().splitlines()[-2:]
    assert problem.startswith("edgekit: ")
    assert named in problem
    assert remedy.startswith("  try: ")
    assert "Traceback" not in said
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("output", ["out.txt", "no/such/folder/out.ekb"])
def test_a_place_that_cannot_be_written_is_said_before_the_work(
    output: str, given: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pipeline, "import_model", lambda *_, **__: pytest.fail("work was started"))
    assert main(words(given, tmp_path / output)) in (ExitCode.USAGE, ExitCode.BAD_INPUT)
    assert not list(tmp_path.iterdir())


def test_an_output_that_is_there_is_kept_without_force(given: Path, tmp_path: Path) -> None:
    (tmp_path / "out.ekb").write_text("mine")
    assert main(words(given, tmp_path / "out.ekb")) == ExitCode.USAGE
    assert (tmp_path / "out.ekb").read_text() == "mine"


def started(given: Path, output: Path, stage: str) -> "subprocess.Popen[str]":
    """A build that has reached a stage and stands there."""
    program = SLOW.format(stage=stage)
    command = [sys.executable, "-c", program, *words(given, output)]
    build = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert build.stderr is not None
    while "reached" not in (line := build.stderr.readline()):
        assert line, "it ended before"
    return build


@pytest.mark.parametrize("stage", ["quantize", "golden_samples", "write"])
@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_build_leaves_nothing(stage: str, sent: signal.Signals, given: Path, tmp_path: Path) -> None:
    build = started(given, tmp_path / "out.ekb", stage)
    build.send_signal(sent)
    try:
        _, said = build.communicate(timeout=30)
    finally:
        build.kill()
    assert build.returncode == ExitCode.INTERRUPTED
    assert "Traceback" not in said
    assert not list(tmp_path.iterdir())


def test_a_killed_build_leaves_no_bundle(given: Path, tmp_path: Path) -> None:
    build = started(given, tmp_path / "out.ekb", "write")
    build.kill()
    build.communicate(timeout=30)
    assert not (tmp_path / "out.ekb").exists()


def test_a_build_killed_while_it_writes_leaves_a_whole_bundle_or_none(given: Path, tmp_path: Path) -> None:
    assert main(words(given, tmp_path / "whole.ekb")) == ExitCode.DONE
    for writes in (0, 3, 7):
        output = tmp_path / f"{writes}.ekb"
        done = subprocess.run(
            [sys.executable, "-c", KILLED, str(writes), *words(given, output)], capture_output=True, check=False
        )
        assert done.returncode == -signal.SIGKILL
        if output.exists():
            with Bundle.open(output) as bundle:
                for ref in bundle.manifest.blobs():
                    bundle.read(ref)


def test_a_full_disk_is_called_that_and_leaves_nothing(given: Path, tmp_path: Path) -> None:
    output = tmp_path / "out.ekb"

    def small_files() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))

    done = subprocess.run(
        [sys.executable, "-c", COMMAND, *words(given, output)],
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=small_files,
    )
    assert done.returncode == ExitCode.ENVIRONMENT, done.stderr
    assert "full" in done.stderr
    assert "Traceback" not in done.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root")
def test_a_disk_that_fills_up_in_the_middle_leaves_nothing(given: Path, tmp_path: Path) -> None:
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=300k", "edgekit", str(tmp_path)], check=False)
    if mounted.returncode:
        pytest.skip("this machine does not let us mount")
    try:
        done = subprocess.run(
            [sys.executable, "-c", COMMAND, *words(given, tmp_path / "out.ekb")],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == ExitCode.ENVIRONMENT, done.stderr
        assert "full" in done.stderr
        assert "Traceback" not in done.stderr
        assert not list(tmp_path.iterdir())
    finally:
        subprocess.run(["umount", str(tmp_path)], check=True)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_rights_is_said(given: Path, tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    try:
        assert main(words(given, tmp_path / "out.ekb")) == ExitCode.ENVIRONMENT
    finally:
        tmp_path.chmod(0o700)


def test_a_failed_build_keeps_the_one_before(given: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    output = tmp_path / "out.ekb"
    assert main(words(given, output)) == ExitCode.DONE
    before = {p: p.read_bytes() for p in sorted(tmp_path.rglob("*")) if p.is_file()}
    assert {p.parent.name for p in before} == {tmp_path.name, "out.report", "out.reference"}

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    assert main(words(given, output, "--force")) == ExitCode.ENVIRONMENT
    assert {p: p.read_bytes() for p in sorted(tmp_path.rglob("*")) if p.is_file()} == before


def test_a_build_in_time_says_how_long_it_waits_for_nothing(given: Path, tmp_path: Path) -> None:
    """A usage error comes before any heavy work."""
    start = time.process_time()
    line = words(given, tmp_path / "out.ekb")
    line[line.index("--runtime") + 1] = "tensorrt"
    assert main(line) == ExitCode.USAGE
    assert time.process_time() - start < 1.0
