"""Exercise an installed wheel away from its source tree:  python exercise.py inputs|device|host|legacy --data DIR

`inputs` writes a tiny model and its data, `host` builds a bundle from them, `device` runs it with one runtime
installed and looks at what was loaded, `legacy` runs it on tflite-runtime.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path

HOST_ONLY = ("onnx", "onnx_ir", "torch", "edgekit.build", "edgekit.compile", "edgekit.quantize")
LOAD_AND_RUN = """
import sys
import numpy as np
import edgekit
model = edgekit.load({bundle!r})
model.run({{"x": np.load({array!r})}})
model.run({array!r})
loaded = [name for name in {host_only!r} if name in sys.modules]
assert not loaded, f"a device install loaded {{loaded}}"
assert "site-packages" in edgekit.__file__, edgekit.__file__
"""


def edgekit(*words: str) -> str:
    """Run the installed command; its standard output. Raises `CalledProcessError`."""
    command = [str(Path(sys.executable).with_name("edgekit")), *words]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def inputs(data: Path) -> None:
    """A network of three layers, and 16 samples for it."""
    import numpy as np
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    rng = np.random.default_rng(0)
    weights = {"w": rng.normal(0, 0.3, (8, 3, 3, 3)), "b": rng.normal(0, 0.1, 8), "fc": rng.normal(0, 0.3, (4, 8))}
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
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 16, 16])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 4])],
        [numpy_helper.from_array(value.astype(np.float32), name) for name, value in weights.items()],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), data / "tiny.onnx")
    samples = rng.uniform(-1, 1, (16, 3, 16, 16)).astype(np.float32)
    np.save(data / "calibration.npy", samples)
    np.save(data / "x.npy", samples[:1])


def host(data: Path) -> None:
    """Check and build."""
    edgekit("check", str(data / "tiny.onnx"), "--json")
    words = [str(data / "tiny.onnx"), "--calibration", str(data / "calibration.npy"), "--prefer", "size", "--force"]
    edgekit("build", *words, "-o", str(data / "tiny.ekb"))
    artifacts = json.loads(edgekit("inspect", str(data / "tiny.ekb"), "--json"))["artifacts"]
    built = {each["runtime"] for each in artifacts}
    assert built >= {"onnxruntime", "openvino", "litert"}, built


def device(data: Path) -> None:
    """What a device does, with what a device has."""
    assert "build" in edgekit("--help")
    assert json.loads(edgekit("devices", "--json"))
    assert edgekit("devices", "--detect")
    run_bundle(data)
    script = LOAD_AND_RUN.format(bundle=str(data / "tiny.ekb"), array=str(data / "x.npy"), host_only=HOST_ONLY)
    subprocess.run([sys.executable, "-I", "-c", script], check=True)


def legacy(data: Path) -> None:
    """The same bundle on the engine of old devices."""
    run_bundle(data, "--runtime", "tflite-runtime")


def run_bundle(data: Path, *words: str) -> None:
    """Run it and look at the numbers."""
    import numpy as np

    raw = data / "raw.npz"
    raw.unlink(missing_ok=True)
    edgekit("run", str(data / "tiny.ekb"), str(data / "x.npy"), "--raw", str(raw), "--json", *words)
    with np.load(raw) as outputs:
        assert outputs["y"].shape == (1, 4)
        assert np.isfinite(outputs["y"]).all()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("side", choices=("inputs", "host", "device", "legacy"))
    parser.add_argument("--data", type=Path, required=True)
    arguments = parser.parse_args()
    globals()[arguments.side](arguments.data)
