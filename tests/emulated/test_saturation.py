"""A bundle with 8-bit weights on a CPU that saturates: refused by its golden run, by name, and the next one is taken.

OpenVINO is held to AVX2 by oneDNN's own switch; ONNX Runtime runs under `qemu-x86_64 -cpu Haswell`.
"""

import json
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from edgekit.cli.main import main

QEMU = shutil.which("qemu-x86_64-static") or shutil.which("qemu-x86_64")
LOAD = """
import json, sys
import edgekit
from edgekit.core.errors import EdgekitError
try:
    model = edgekit.load(sys.argv[1], **json.loads(sys.argv[2]))
    print(json.dumps({"taken": model.entry.label, "passed": {p.label: p.why for p in model.passed_over}}))
except EdgekitError as error:
    print(json.dumps({"exit": int(error.exit_code), "why": error.why}))
"""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(platform.machine() != "x86_64", reason="saturation is a matter of x86 CPUs"),
]


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Wide layers with large weights of one sign on positive inputs: pairs of products pass 16 bits."""
    folder = tmp_path_factory.mktemp("saturation")
    rng = np.random.default_rng(11)
    weights = {
        "w0": rng.uniform(0.9, 1.0, (32, 16, 3, 3)) * rng.choice([-1, 1], (32, 1, 1, 1)),
        "w1": rng.uniform(0.9, 1.0, (32, 32, 1, 1)) * rng.choice([-1, 1], (32, 1, 1, 1)),
        "fc": rng.uniform(0.9, 1.0, (4, 32)) * rng.choice([-1, 1], (4, 32)),
    }
    nodes = [
        helper.make_node("Conv", ["x", "w0"], ["c0"], "conv0", kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c0"], ["r0"], "relu0"),
        helper.make_node("Conv", ["r0", "w1"], ["c1"], "conv1", kernel_shape=[1, 1]),
        helper.make_node("Relu", ["c1"], ["r1"], "relu1"),
        helper.make_node("GlobalAveragePool", ["r1"], ["p"], "pool"),
        helper.make_node("Flatten", ["p"], ["f"], "flatten"),
        helper.make_node("Gemm", ["f", "fc"], ["y"], "fc", transB=1),
    ]
    graph = helper.make_graph(
        nodes,
        "wide",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 16, 16, 16])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 4])],
        [numpy_helper.from_array(value.astype(np.float32), name) for name, value in weights.items()],
    )
    opset = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=8), folder / "wide.onnx")
    np.save(folder / "samples.npy", rng.uniform(0.5, 1, (16, 16, 16, 16)).astype(np.float32))
    words = [str(folder / "wide.onnx"), "--calibration", str(folder / "samples.npy"), "--device", "x86-64-vnni"]
    assert main(["build", *words, "--prefer", "size", "--no-cache", "-o", str(folder / "wide.ekb")]) == 0
    return folder / "wide.ekb"


def loaded(bundle: Path, state: Path, *, prefix: tuple[str, ...] = (), **choice: str) -> dict[str, object]:
    """What a fresh process takes from the bundle under AVX2, with nothing remembered."""
    environment = {**os.environ, "ONEDNN_MAX_CPU_ISA": "AVX2", "XDG_STATE_HOME": str(state)}
    command = [*prefix, sys.executable, "-c", LOAD, str(bundle), json.dumps({"threads": 1, **choice})]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=900)
    assert done.returncode == 0, done.stderr[-2000:]
    found: dict[str, object] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_openvino_under_avx2_refuses_the_8_bit_artifact_by_name(bundle: Path, tmp_path: Path) -> None:
    found = loaded(bundle, tmp_path, runtime="openvino", precision="int8")
    assert found["exit"] == 5
    assert "openvino" in str(found["why"])
    assert "wrong on this CPU" in str(found["why"])


@pytest.mark.skipif(QEMU is None, reason="qemu-x86_64 is not installed (Debian: qemu-user-static)")
def test_onnxruntime_on_haswell_refuses_the_8_bit_artifact_by_name(bundle: Path, tmp_path: Path) -> None:
    haswell = (str(QEMU), "-cpu", "Haswell")
    found = loaded(bundle, tmp_path, prefix=haswell, runtime="onnxruntime", precision="int8")
    assert found["exit"] == 5
    assert "onnxruntime" in str(found["why"])
    assert "wrong on this CPU" in str(found["why"])


def test_the_next_artifact_is_taken(bundle: Path, tmp_path: Path) -> None:
    found = loaded(bundle, tmp_path)
    passed = found.get("passed")
    assert isinstance(passed, dict)
    assert any("openvino" in label for label in passed), found
    assert "openvino" not in str(found["taken"]) or "int8" not in str(found["taken"])
