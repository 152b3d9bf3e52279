"""Small models, ONNX Runtime's answer to them, and the imported model's."""

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime as ort
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from edgekit.build.importing import ImportedModel, import_model

Array = NDArray[np.generic]
Shape = tuple[int | str | None, ...]
ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of models and cases; skips where it is not there."""
    folder = Path(os.environ.get("EDGEKIT_SHARED", ROOT / "../shared")).resolve()
    if not folder.is_dir():
        pytest.skip("needs the folder of shared models and cases (EDGEKIT_SHARED)")
    return folder


def _run(raw: bytes, feeds: Mapping[str, Array]) -> list[Array]:
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    session = ort.InferenceSession(raw, options, providers=["CPUExecutionProvider"])
    names = {value.name for value in session.get_inputs()}
    return list(session.run(None, {k: v for k, v in feeds.items() if k in names}))


@pytest.fixture
def run() -> Callable[..., list[Array]]:
    """ONNX Runtime, unoptimised: `run(bytes, feeds)`."""
    return _run


@pytest.fixture
def run_imported() -> Callable[[ImportedModel, Mapping[str, Array]], list[Array]]:
    """The canonical graph on inputs in the model's own dtypes."""

    def run(imported: ImportedModel, feeds: Mapping[str, Array]) -> list[Array]:
        raw = ir.to_proto(imported.model).SerializeToString()
        inner = {k: v.astype(np.float32) if v.dtype.kind == "f" else v for k, v in feeds.items()}
        outputs = _run(raw, inner)
        return [o.astype(p.dtype) for o, p in zip(outputs, imported.outputs, strict=True)]

    return run


@pytest.fixture
def small(tmp_path: Path) -> Callable[..., Path]:
    """Writes a model of a few nodes and gives its path.

    `small(nodes, inputs={"x": (1, 3)}, outputs=["y"], weights={}, opset=13)`; an input may be (shape, type),
    an output (name, type).
    """

    def write(
        nodes: Sequence[onnx.NodeProto],
        *,
        inputs: Mapping[str, Any],
        outputs: Sequence[Any],
        weights: Mapping[str, Array] | None = None,
        opset: int = 17,
        domains: Sequence[str] = (),
        functions: Sequence[onnx.FunctionProto] = (),
        ir_version: int = 8,
        name: str = "model.onnx",
    ) -> Path:
        graph = helper.make_graph(
            list(nodes),
            "g",
            [_input(k, v) for k, v in inputs.items()],
            [_output(o) for o in outputs],
            [numpy_helper.from_array(v, k) for k, v in (weights or {}).items()],
        )
        imports = [helper.make_opsetid("", opset), *(helper.make_opsetid(d, 1) for d in domains)]
        model = helper.make_model(graph, opset_imports=imports, ir_version=ir_version, functions=list(functions))
        path = tmp_path / name
        path.write_bytes(model.SerializeToString())
        return path

    return write


def _input(name: str, what: Shape | tuple[Shape, int]) -> onnx.ValueInfoProto:
    shape, kind = what if len(what) == 2 and isinstance(what[0], tuple) else (what, TensorProto.FLOAT)
    return helper.make_tensor_value_info(name, kind, shape)


def _output(what: str | tuple[str, int]) -> onnx.ValueInfoProto:
    name, kind = (what, TensorProto.FLOAT) if isinstance(what, str) else what
    return helper.make_tensor_value_info(name, kind, None)


@pytest.fixture
def equals_original(
    run_imported: Callable[[ImportedModel, Mapping[str, Array]], list[Array]],
) -> Callable[..., ImportedModel]:
    """Imports a file and holds it to ONNX Runtime's answer on the original, to 1e-5 of each output's size.

    Below a size of 0.02, to 2e-7: a sigmoid near 0 is no more exact than that.
    """

    def check(path: Path, feeds: Mapping[str, Array], **bound: Mapping[str, Any]) -> ImportedModel:
        imported = import_model(path, **bound)
        fixed = {k: np.asarray(v, np.int64) for k, v in (bound.get("fixed") or {}).items()}
        wanted = _run(path.read_bytes(), {**feeds, **fixed})
        got = run_imported(imported, feeds)
        assert len(got) == len(wanted)
        for port, g, w in zip(imported.outputs, got, wanted, strict=True):
            assert g.shape == w.shape
            assert g.dtype == w.dtype
            if w.dtype.kind == "f":
                size = max(float(np.abs(w).max(initial=0)), 0.02)
                np.testing.assert_allclose(
                    g.astype(np.float64), w.astype(np.float64), atol=1e-5 * size, rtol=0, err_msg=port.name
                )
            else:
                np.testing.assert_array_equal(g, w, err_msg=port.name)
        return imported

    return check
