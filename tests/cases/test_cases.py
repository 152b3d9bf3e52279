"""The situations in which today's tools fail: each is built and run on every runtime, and judged by its own bounds."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from numpy.typing import NDArray

import edgekit
from edgekit.build.options import BuildOptions
from edgekit.build.pipeline import build
from edgekit.core.errors import EdgekitError, ExitCode

SHARED = Path(os.environ.get("EDGEKIT_SHARED", Path(__file__).parents[3] / "shared"))
CASES = SHARED / "cases"
FOLDERS = sorted(CASES.glob("b[0-9]*-*"))
RUNTIMES = ("onnxruntime", "openvino", "litert")
Run = list[NDArray[np.generic]]
pytestmark = pytest.mark.skipif(not FOLDERS, reason="the shared cases are not beside the checkout")


@pytest.fixture(scope="module")
def judge() -> ModuleType:
    """The cases' own judge."""
    spec = importlib.util.spec_from_file_location("cases_lib", CASES / "_lib.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where inputs are made."""
    return tmp_path_factory.mktemp("cases")


def inputs_of(folder: Path, made: Path) -> Path:
    """The case's input, made once."""
    out = made / folder.name
    if not out.exists():
        command = [sys.executable, str(folder / "make.py"), str(out)]
        subprocess.run(command, check=True, capture_output=True)
    return out


def options(case: Path, output: Path, runtime: str, precision: str, observer: str | None = None) -> BuildOptions:
    """A build of one case for one runtime; INT8 ships although tiny graphs may not be faster."""
    return BuildOptions(
        model=case / "model.onnx",
        calibration=case / "calib",
        output=output,
        runtimes=(runtime,),
        precision=None if precision == "int8" else "fp32",
        prefer="size",
        observer=observer,
        force=True,
        cache=False,
    )


def answers(bundle: Path, runs: list[tuple[Run, Run]], state: Path) -> list[Run]:
    """Every run's outputs in the model's order, by its own names."""
    model = edgekit.load(bundle, state=state)
    names = [port.name for port in model.manifest.inputs]
    outputs = [port.name for port in model.manifest.outputs]
    found = []
    for arrays, _ in runs:
        got = model.session()(dict(zip(names, arrays, strict=False)))
        assert list(got) == outputs
        found.append([got[name] for name in outputs])
    return found


@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize("precision", ["int8", "float"])
@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_a_case_is_right_or_refused_by_name(
    folder: Path, precision: str, runtime: str, made: Path, judge: ModuleType, tmp_path: Path
) -> None:
    case = inputs_of(folder, made)
    expect = json.loads((folder / "expect.json").read_text())["expect"]
    bundle = tmp_path / "case.ekb"
    refusal: EdgekitError | None = None
    try:
        build(options(case, bundle, runtime, precision))
    except EdgekitError as error:
        refusal = error
    if refusal is not None:
        assert refusal.exit_code in (ExitCode.BAD_INPUT, ExitCode.UNSUPPORTED)
        assert "refuse" in expect, refusal
        missing = [judge.judge_error(each["words"], str(refusal)) for each in expect["refuse"]]
        assert not all(missing), f"{refusal} lacks {missing}"
        assert not list(tmp_path.iterdir())  # nothing half-written
        return
    assert "value" in expect, "this case must be refused"
    runs = judge.load_runs(case)
    assert judge.judge(folder, runs, answers(bundle, runs, tmp_path / "state"), precision) == []


def folder_of(name: str) -> Path:
    """A case by its number."""
    return next(folder for folder in FOLDERS if folder.name.startswith(name))


@pytest.mark.parametrize("observer", ["minmax", "percentile", "mse"])
def test_every_observer_takes_uneven_batches_and_an_outlier(
    observer: str, made: Path, judge: ModuleType, tmp_path: Path
) -> None:
    folder = folder_of("b17")
    case = inputs_of(folder, made)
    build(options(case, tmp_path / "case.ekb", "onnxruntime", "int8", observer))
    runs = judge.load_runs(case)
    got = answers(tmp_path / "case.ekb", runs, tmp_path / "state")
    assert judge.judge(folder, runs, got, "int8") == []


def test_one_excluded_node_is_the_only_one_in_float(made: Path, tmp_path: Path) -> None:
    case = inputs_of(folder_of("b05"), made)
    first = build(options(case, tmp_path / "case.ekb", "onnxruntime", "int8"))
    convolution = next(name for name in first.recipe.integer_nodes if name.startswith("Conv"))
    recipe = tmp_path / "recipe.json"
    edited = json.loads((tmp_path / "case.report" / "recipe.json").read_text())
    recipe.write_text(json.dumps({**edited, "keep_float": [convolution]}))
    again = build(
        BuildOptions(
            model=case / "model.onnx",
            calibration=case / "calib",
            output=tmp_path / "again.ekb",
            runtimes=("onnxruntime",),
            recipe=recipe,
            prefer="size",
        )
    )
    convolutions = {name for name in first.recipe.integer_nodes if name.startswith("Conv")}
    assert convolutions - set(again.recipe.integer_nodes) == {convolution}


def test_a_saturation_safe_build_is_right_where_products_would_saturate(
    made: Path, judge: ModuleType, tmp_path: Path
) -> None:
    folder = folder_of("b37")
    case = inputs_of(folder, made)
    for runtime in ("onnxruntime", "openvino"):
        made_options = options(case, tmp_path / "case.ekb", runtime, "int8")
        build(
            BuildOptions(
                model=made_options.model,
                calibration=made_options.calibration,
                output=made_options.output,
                runtimes=(runtime,),
                device="x86-64",
                force=True,
            )
        )
        runs = judge.load_runs(case)
        assert judge.judge(folder, runs, answers(tmp_path / "case.ekb", runs, tmp_path / "state"), "int8") == []


def test_nothing_to_quantize_is_said_and_no_error(made: Path, tmp_path: Path) -> None:
    result = build(options(inputs_of(folder_of("b40"), made), tmp_path / "case.ekb", "onnxruntime", "int8"))
    assert any("0 operators were quantized" in note for note in result.manifest.notes)


def test_without_the_broken_samples_the_build_succeeds(made: Path, tmp_path: Path) -> None:
    case = inputs_of(folder_of("b16"), made)
    calibration = tmp_path / "calib"
    calibration.mkdir()
    for sample in sorted((case / "calib").glob("*.npz")):
        if sample.stem not in ("003", "005"):
            (calibration / sample.name).write_bytes(sample.read_bytes())
    build(
        BuildOptions(
            model=case / "model.onnx",
            calibration=calibration,
            output=tmp_path / "case.ekb",
            runtimes=("onnxruntime",),
        )
    )
    assert (tmp_path / "case.ekb").is_file()
