"""What edgekit adds on a device: to a call, to an import, to the start of its command."""

import json
import os
import subprocess
import sys
import tempfile
import timeit
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import numpy as np

from benchmarks.bench import Figure, Outcome, bench
from benchmarks.processes import cost
from benchmarks.world import ROOT, World
from edgekit.core.artifact import LoadableArtifact, Port
from edgekit.runtimes.registry import runtime
from edgekit.runtimes.runtime import Session

CALL_US: Final = 15.0
IMPORT_MS: Final = 30.0
HELP_CPU_S: Final = 0.3
SHAPE: Final = (1, 2, 3, 4)
PORTS: Final = (Port("x", "float32", SHAPE),), (Port("y", "float32", SHAPE),)
ENGINES: Final = {
    "onnxruntime": "onnxruntime.capi.onnxruntime_pybind11_state",
    "openvino": "openvino",
    "litert": "ai_edge_litert.interpreter",
}
_IMPORTS: Final = """
import importlib, json, sys, time
import numpy
start = time.perf_counter()
importlib.import_module(sys.argv[1])
engine = time.perf_counter()
import edgekit
from edgekit.core.artifact import LoadableArtifact, Port
from edgekit.runtimes.registry import runtime
runtime(sys.argv[2]).version()
ours = time.perf_counter()
print(json.dumps({"engine": (engine - start) * 1e3, "ours": (ours - engine) * 1e3}))
"""

Call = Callable[[], object]


@bench()
def overhead(world: World) -> Iterator[Outcome]:
    """A session's call of a tiny model above the engine's best own call; imports; `edgekit --help`."""
    for name, pair in {"onnxruntime": _onnxruntime, "openvino": _openvino, "litert": _litert}.items():
        raw, session = pair()
        inputs = {"x": np.ones(SHAPE, np.float32)}
        least, ours = min(map(_fastest_us, raw)), _fastest_us(lambda s=session, x=inputs: s(x))  # type: ignore[misc]
        note = f"{least:.1f} → {ours:.1f} us"
        yield Figure(f"{name}/call", ours - least, "us", "lower", CALL_US, note=note)
    with tempfile.TemporaryDirectory(prefix="edgekit-bench-") as bytecode:
        for name, module in ENGINES.items():
            runs = [_imported(module, name, bytecode) for _ in range(6)][1:]  # the first writes the bytecode
            times = sorted(each["ours"] for each in runs)
            note = f"least of {len(runs)}; the engine itself {min(each['engine'] for each in runs):.0f} ms"
            yield Figure(f"{name}/import", times[0], "ms", "lower", IMPORT_MS, times[0], times[-1], note)
    helps = sorted(cost(world.edgekit("--help")).cpu_s for _ in range(5))
    yield Figure("edgekit --help", helps[0], "CPU-s", "lower", HELP_CPU_S, helps[0], helps[-1], "least of 5")


def _fastest_us(call: Call) -> float:
    """Of many rounds: other load on the machine only ever adds."""
    call()
    return min(timeit.repeat(call, number=200, repeat=60)) / 200 * 1e6


def _imported(module: str, name: str, bytecode: str) -> dict[str, float]:
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    done = subprocess.run(
        [sys.executable, "-c", _IMPORTS, module, name],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
        env={**environment, "PYTHONPYCACHEPREFIX": bytecode},
    )
    found: dict[str, float] = json.loads(done.stdout)
    return found


def _loaded(name: str, files: dict[str, bytes]) -> Session:
    return runtime(name).load(LoadableArtifact(files, *PORTS), threads=1)


def _onnxruntime() -> tuple[list[Call], Session]:
    """The engine's own best calls on the model, and our session on it."""
    import onnxruntime as ort
    from onnx import TensorProto, helper

    from edgekit.runtimes.onnxruntime import session_options

    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, SHAPE) for name in "xy")
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "tiny", [x], [y])
    content = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()
    native = ort.InferenceSession(content, session_options(ort, 1), providers=["CPUExecutionProvider"])
    inputs, result, binding = {"x": np.ones(SHAPE, np.float32)}, np.empty(SHAPE, np.float32), native.io_binding()
    binding.bind_cpu_input("x", inputs["x"])
    binding.bind_output("y", "cpu", 0, np.float32, SHAPE, result.ctypes.data)
    calls: list[Call] = [lambda: native.run_with_iobinding(binding), lambda: native.run(["y"], inputs)]
    return calls, _loaded("onnxruntime", {"model.onnx": content})


def _openvino() -> tuple[list[Call], Session]:
    import openvino

    from edgekit.runtimes.openvino import compiled_model

    with tempfile.TemporaryDirectory(prefix="edgekit-bench-") as scratch:
        x = openvino.opset13.parameter(list(SHAPE), np.float32)
        openvino.save_model(openvino.Model([openvino.opset13.relu(x)], [x], "tiny"), Path(scratch) / "model.xml")
        files = {name: (Path(scratch) / name).read_bytes() for name in ("model.xml", "model.bin")}
    request = compiled_model(LoadableArtifact(files, *PORTS), 1).create_infer_request()
    request.infer([np.ones(SHAPE, np.float32)])
    calls: list[Call] = [request.infer, lambda: request.infer({}, share_inputs=True, share_outputs=True)]
    return calls, _loaded("openvino", files)


def _litert() -> tuple[list[Call], Session]:
    from ai_edge_litert.interpreter import Interpreter

    content = (ROOT / "tests/golden/contract/affine_1x2x3x4.tflite").read_bytes()
    interpreter = Interpreter(model_content=content, num_threads=1)
    interpreter.allocate_tensors()
    return [interpreter.invoke], _loaded("litert", {"model.tflite": content})
