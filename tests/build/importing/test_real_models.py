"""Every network at hand: the imported graph computes what the file computes; and the shared cases of importing."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgekit.build.importing import ImportedModel, import_model
from edgekit.core.errors import EdgekitError

ROOT = Path(__file__).resolve().parents[3]
FETCHED = ROOT / ".data/models"
FREE = {0: 1, 2: 64, 3: 96}  # sizes for free axes

MODELS: dict[str, dict[str, Any]] = {
    "efficientnet_lite0.onnx": {},
    "squeezenet1_1.onnx": {},
    "mobilenet_v1_0.25_128.onnx": {},
    "yolox_nano.onnx": {},
    "ch_PP-OCRv4_det_infer.onnx": {},
    "ch_PP-OCRv4_rec_infer.onnx": {"input_shapes": {"x": (1, 3, 48, 320)}},
    "ch_ppocr_mobile_v2.0_cls_infer.onnx": {"input_shapes": {"x": (1, 3, 48, 192)}},
    "magika_v3_3.onnx": {},
    "silero_vad.onnx": {"input_shapes": {"input": (1, 576), "state": (2, 1, 128)}, "fixed": {"sr": 16000}},
    "silero_vad_16k_op15.onnx": {"input_shapes": {"input": (1, 576), "state": (2, 1, 128)}, "fixed": {"sr": 16000}},
}


def located(name: str) -> Path:
    shared = Path(os.environ.get("EDGEKIT_SHARED", ROOT / "../shared")) / "data/models"
    for folder in (shared, FETCHED):
        if (folder / name).exists():
            return folder / name
    pytest.skip(f"{name} is not at hand")


@pytest.mark.parametrize("name", MODELS)
def test_imported_network_computes_what_the_file_computes(
    name: str, equals_original: Callable[..., ImportedModel]
) -> None:
    path, bound = located(name), MODELS[name]
    rng = np.random.default_rng(0)
    feeds = {}
    for port in import_model(path, **bound).inputs:
        shape = [dim if isinstance(dim, int) else FREE[axis] for axis, dim in enumerate(port.shape)]
        feeds[port.name] = (
            rng.standard_normal(shape).astype(port.dtype)
            if port.dtype.startswith("float")
            else rng.integers(0, 257, shape).astype(port.dtype)
        )
    equals_original(path, feeds, **bound)


def attempted(path: Path) -> tuple[ImportedModel | None, str]:
    try:
        return import_model(path), ""
    except EdgekitError as error:
        return None, str(error)


def test_shared_cases_of_importing_give_the_value_or_the_refusal(
    shared: Path, tmp_path: Path, run_imported: Callable[..., list[Any]]
) -> None:
    sys.path.insert(0, str(shared / "cases"))
    import _lib  # type: ignore[import-not-found]

    for case in sorted((shared / "cases").glob("b*")):
        spec = json.loads((case / "expect.json").read_text())["expect"]
        out = tmp_path / case.name
        subprocess.run([sys.executable, str(case / "make.py"), str(out)], check=True)
        asked = [r["words"] for r in spec.get("refuse", ()) if r["run"].startswith("check")]
        imported, refusal = attempted(out / "model.onnx")
        if imported is None:
            assert asked, f"{case.name}: {refusal}"
            assert all(not _lib.judge_error(words, refusal) for words in asked), f"{case.name}: {refusal}"
            continue
        if "value" not in spec:
            assert not asked, f"{case.name} is not refused"
            continue
        runs = _lib.load_runs(out)
        got = [
            run_imported(imported, {p.name: a for p, a in zip(imported.inputs, ins, strict=True)}) for ins, _ in runs
        ]
        assert _lib.judge(case, runs, got, "float") == [], case.name
