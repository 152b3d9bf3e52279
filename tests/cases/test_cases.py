"""The situations in which today's tools fail: each is built and run on every runtime, and judged by its own bounds."""

import importlib.util
import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from numpy.typing import NDArray

import edgekit
from edgekit.build.importing import import_model
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


def float_nodes(report: Path) -> list[str]:
    """Nodes with multiply-accumulates that ONNX Runtime computes in float in the 8-bit artifact, as it says itself."""
    found: list[str] = json.loads((report / "measurements.json").read_text())["candidates"]["onnxruntime int8"][
        "float_nodes"
    ]
    return found


def test_one_excluded_node_is_the_only_one_in_float(made: Path, tmp_path: Path) -> None:
    case = inputs_of(folder_of("b05"), made)
    first = build(options(case, tmp_path / "case.ekb", "onnxruntime", "int8"))
    assert float_nodes(tmp_path / "case.report") == []
    convolutions = sorted(name for name in first.recipe.integer_nodes if name.startswith("Conv"))
    recipe = tmp_path / "recipe.json"
    edited = json.loads((tmp_path / "case.report" / "recipe.json").read_text())
    for excluded in convolutions:
        recipe.write_text(json.dumps({**edited, "keep_float": [excluded]}))
        again = build(replace(options(case, tmp_path / "again.ekb", "onnxruntime", "int8"), recipe=recipe))
        assert set(convolutions) - set(again.recipe.integer_nodes) == {excluded}
        assert len(float_nodes(tmp_path / "again.report")) == 1


def test_a_saturation_safe_build_is_right_where_products_would_saturate(
    made: Path, judge: ModuleType, tmp_path: Path
) -> None:
    folder = folder_of("b37")
    case = inputs_of(folder, made)
    for runtime in ("onnxruntime", "openvino"):
        build(replace(options(case, tmp_path / "case.ekb", runtime, "int8"), device="x86-64"))
        runs = judge.load_runs(case)
        assert judge.judge(folder, runs, answers(tmp_path / "case.ekb", runs, tmp_path / "state"), "int8") == []


def test_nothing_to_quantize_is_said_and_no_error(made: Path, tmp_path: Path) -> None:
    result = build(options(inputs_of(folder_of("b40"), made), tmp_path / "case.ekb", "onnxruntime", "int8"))
    (note,) = [note for note in result.manifest.notes if "0 operators were quantized" in note]
    assert "the model has 0 with constant weights" in note


def test_without_the_broken_samples_the_build_succeeds(made: Path, tmp_path: Path) -> None:
    case = inputs_of(folder_of("b16"), made)
    calibration = tmp_path / "calib"
    calibration.mkdir()
    for sample in sorted((case / "calib").glob("*.npz")):
        if sample.stem not in ("003", "005"):
            (calibration / sample.name).write_bytes(sample.read_bytes())
    build(replace(options(case, tmp_path / "case.ekb", "onnxruntime", "int8"), calibration=calibration))
    assert (tmp_path / "case.ekb").is_file()


def files_below(folder: Path) -> dict[Path, bytes]:
    """Every file and its content."""
    return {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.mark.parametrize("case_id", ["b04", "b28"])
def test_nothing_is_written_but_the_outputs(
    case_id: str, made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = inputs_of(folder_of(case_id), made)
    before = files_below(made)
    working, output = tmp_path / "working", tmp_path / "deep" / "output"
    working.mkdir()
    output.mkdir(parents=True)
    monkeypatch.chdir(working)
    for runtime in RUNTIMES:
        build(options(case, output / f"{runtime}.ekb", runtime, "int8"))
    assert files_below(made) == before
    assert not list(working.iterdir())
    assert [p.name for p in (tmp_path / "deep").iterdir()] == ["output"]
    kinds = ("ekb", "reference", "report")
    assert {p.name for p in output.iterdir()} == {f"{runtime}.{kind}" for runtime in RUNTIMES for kind in kinds}


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_an_input_that_no_node_reads_may_be_left_out(runtime: str, made: Path, tmp_path: Path) -> None:
    case = inputs_of(folder_of("b02"), made)
    build(options(case, tmp_path / "case.ekb", runtime, "int8"))
    model = edgekit.load(tmp_path / "case.ekb", state=tmp_path / "state")
    ports = {port.name: port for port in model.manifest.inputs}
    unused = [name for name, port in ports.items() if port.unused]
    assert len(unused) == 1
    shape = {name: tuple(d if isinstance(d, int) else 1 for d in port.shape) for name, port in ports.items()}
    whole = {name: np.ones(shape[name], port.dtype) for name, port in ports.items()}
    part = {name: array for name, array in whole.items() if name not in unused}
    for a, b in zip(model.session()(whole).values(), model.session()(part).values(), strict=True):
        assert np.array_equal(a, b)


def test_what_local_functions_hold_is_quantized(made: Path, tmp_path: Path) -> None:
    result = build(options(inputs_of(folder_of("b08"), made), tmp_path / "case.ekb", "onnxruntime", "int8"))
    model = import_model(inputs_of(folder_of("b08"), made) / "model.onnx", input_shapes={}, fixed={}).model
    linear = [n.op_type for n in model.graph if n.name in result.recipe.integer_nodes and n.op_type in ("Conv", "Gemm")]
    assert sorted(linear) == ["Conv", "Conv", "Gemm"]
    assert float_nodes(tmp_path / "case.report") == []


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_a_float16_model_keeps_float16_at_its_ports(runtime: str, made: Path, tmp_path: Path) -> None:
    case = inputs_of(folder_of("b25"), made)
    result = build(options(case, tmp_path / "case.ekb", runtime, "int8"))
    assert {port.dtype for port in (*result.manifest.inputs, *result.manifest.outputs)} == {"float16"}
    model = edgekit.load(tmp_path / "case.ekb", state=tmp_path / "state")
    (port,) = model.manifest.inputs
    x = np.ones(tuple(d if isinstance(d, int) else 1 for d in port.shape), np.float16)
    assert {array.dtype.name for array in model.session()({port.name: x}).values()} == {"float16"}


def test_weights_listed_as_inputs_are_weights(made: Path, tmp_path: Path) -> None:
    result = build(options(inputs_of(folder_of("b29"), made), tmp_path / "case.ekb", "onnxruntime", "int8"))
    assert [port.name for port in result.manifest.inputs] == ["x"]
    assert [entry.integer_share for entry in result.manifest.artifacts] == [1.0]


@pytest.mark.parametrize("case_id", ["b32", "b41"])
def test_what_no_runtime_takes_is_refused_before_a_sample_is_read(case_id: str, made: Path, tmp_path: Path) -> None:
    case = inputs_of(folder_of(case_id), made)
    unread = replace(options(case, tmp_path / "case.ekb", "onnxruntime", "int8"), calibration=tmp_path / "nowhere")
    with pytest.raises(EdgekitError) as raised:
        build(unread)
    assert "nowhere" not in str(raised.value)
    if case_id == "b41":
        assert re.search(r"\b2[0-9]\b", str(raised.value)), "the newest opset that is taken"


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_a_batch_of_five_is_five_samples(runtime: str, made: Path, tmp_path: Path) -> None:
    case = inputs_of(folder_of("b34"), made)
    build(options(case, tmp_path / "case.ekb", runtime, "int8"))
    session = edgekit.load(tmp_path / "case.ekb", state=tmp_path / "state").session()
    (port,) = edgekit.load(tmp_path / "case.ekb", state=tmp_path / "state").manifest.inputs
    shape = tuple(d if isinstance(d, int) else 1 for d in port.shape[1:])
    batch = np.random.default_rng(0).normal(size=(5, *shape)).astype(np.float32)
    together = list(session({port.name: batch}).values())
    for i in range(5):
        for whole, one in zip(together, session({port.name: batch[i : i + 1]}).values(), strict=True):
            np.testing.assert_allclose(
                np.asarray(whole[i : i + 1], np.float32), np.asarray(one, np.float32), rtol=1e-4, atol=1e-5
            )
