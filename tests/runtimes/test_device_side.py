"""What a device pays: no host module, little import time, little time per call."""

import json
import os
import subprocess
import sys
import timeit
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgekit.core.artifact import LoadableArtifact, Port
from edgekit.runtimes.registry import runtime

GOLDEN = Path(__file__).parents[1] / "golden/contract"
SHAPE = (1, 2, 3, 4)
PORTS = (Port("x", "float32", SHAPE),), (Port("y", "float32", SHAPE),)
HOST_ONLY = ("onnx", "onnx_ir", "torch", "edgekit.build", "edgekit.compile", "edgekit.quantize")

IMPORTS = """
import importlib, json, sys, time
import numpy
start = time.process_time()  # not the clock's: others may share this machine
importlib.import_module(sys.argv[1])
engine = time.process_time()
import edgekit
from edgekit.core.artifact import LoadableArtifact, Port
from edgekit.runtimes.registry import runtime
found = runtime(sys.argv[2])
found.version()
ours = time.process_time()
if len(sys.argv) > 3:
    port = Port("x", "float32", (1, 2, 3, 4))
    files = {"model.tflite": open(sys.argv[3], "rb").read()}
    session = found.load(LoadableArtifact(files, (port,), (port,)), threads=1)
    session({"x": numpy.zeros((1, 2, 3, 4), numpy.float32)})
print(json.dumps({"engine_ms": (engine - start) * 1e3, "ours_ms": (ours - engine) * 1e3, "modules": list(sys.modules)}))
"""
ENGINES = {
    "onnxruntime": "onnxruntime.capi.onnxruntime_pybind11_state",
    "openvino": "openvino",
    "litert": "ai_edge_litert.interpreter",
}


def imported(name: str, folder: Path, *more: str) -> dict[str, Any]:
    """A process that imports an engine, then edgekit. `folder` keeps bytecode, as an installed package has it."""
    pytest.importorskip(ENGINES[name])
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    ended = subprocess.run(
        [sys.executable, "-c", IMPORTS, ENGINES[name], name, *more],
        check=True,
        capture_output=True,
        text=True,
        env={**environment, "PYTHONPYCACHEPREFIX": str(folder)},
    )
    found: dict[str, Any] = json.loads(ended.stdout)
    return found


@pytest.mark.parametrize("name", ENGINES)
def test_a_session_loads_no_host_module(name: str, tmp_path: Path) -> None:
    file = [str(GOLDEN / "affine_1x2x3x4.tflite")] if name == "litert" else []
    modules = imported(name, tmp_path, *file)["modules"]
    assert [
        each for each in modules if each.startswith(tuple(f"{host}." for host in HOST_ONLY)) or each in HOST_ONLY
    ] == []


@pytest.mark.parametrize("name", ENGINES)
def test_edgekit_adds_at_most_30_ms_to_the_engines_import(name: str, tmp_path: Path) -> None:
    imported(name, tmp_path)  # writes the bytecode
    assert min(imported(name, tmp_path)["ours_ms"] for _ in range(5)) <= 30


def fastest_us(call: Callable[[], object]) -> float:
    """Microseconds of the fastest of many rounds: other load on the machine only ever adds."""
    call()
    return min(timeit.repeat(call, number=200, repeat=40)) / 200 * 1e6


def test_a_call_of_onnxruntime_adds_at_most_15_us() -> None:
    ort = pytest.importorskip("onnxruntime")
    from onnx import TensorProto, helper

    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, SHAPE) for name in "xy")
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "tiny", [x], [y])
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    artifact = LoadableArtifact({"model.onnx": proto.SerializeToString()}, *PORTS)
    session = runtime("onnxruntime").load(artifact, threads=1)
    inputs = {"x": np.ones(SHAPE, np.float32)}

    from edgekit.runtimes.onnxruntime import session_options

    native = ort.InferenceSession(
        proto.SerializeToString(), session_options(ort, 1), providers=["CPUExecutionProvider"]
    )
    result = np.empty(SHAPE, np.float32)
    binding = native.io_binding()
    binding.bind_cpu_input("x", inputs["x"])
    binding.bind_output("y", "cpu", 0, np.float32, SHAPE, result.ctypes.data)
    raw = min(fastest_us(lambda: native.run_with_iobinding(binding)), fastest_us(lambda: native.run(["y"], inputs)))
    assert fastest_us(lambda: session(inputs)) - raw <= 15


def test_a_call_of_openvino_adds_at_most_15_us(tmp_path: Path) -> None:
    openvino = pytest.importorskip("openvino")
    x = openvino.opset13.parameter(list(SHAPE), np.float32)
    openvino.save_model(openvino.Model([openvino.opset13.relu(x)], [x], "tiny"), tmp_path / "model.xml")
    files = {name: (tmp_path / name).read_bytes() for name in ("model.xml", "model.bin")}
    artifact = LoadableArtifact(files, *PORTS)
    session = runtime("openvino").load(artifact, threads=1)
    inputs = {"x": np.ones(SHAPE, np.float32)}

    from edgekit.runtimes.openvino import compiled_model

    request = compiled_model(artifact, 1).create_infer_request()
    request.infer([inputs["x"]])
    raw = min(fastest_us(request.infer), fastest_us(lambda: request.infer({}, share_inputs=True, share_outputs=True)))
    assert fastest_us(lambda: session(inputs)) - raw <= 15


def test_a_call_of_litert_adds_at_most_15_us() -> None:
    interpreter_module = pytest.importorskip("ai_edge_litert.interpreter")
    content = (GOLDEN / "affine_1x2x3x4.tflite").read_bytes()
    session = runtime("litert").load(LoadableArtifact({"model.tflite": content}, *PORTS), threads=1)
    inputs = {"x": np.ones(SHAPE, np.float32)}
    interpreter = interpreter_module.Interpreter(model_content=content, num_threads=1)
    interpreter.allocate_tensors()
    assert fastest_us(lambda: session(inputs)) - fastest_us(interpreter.invoke) <= 15
