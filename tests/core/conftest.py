"""Where the measured models and pictures are (beside the checkout, or by EDGEKIT_SHARED), and a small bundle."""

import hashlib
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from edgekit.core.artifact import Port
from edgekit.core.bundle import file_ref
from edgekit.core.errors import Refusal
from edgekit.core.manifest import (
    VNNI,
    ArtifactEntry,
    Calibration,
    GoldenError,
    GoldenSample,
    Histogram,
    Manifest,
    Provenance,
)
from edgekit.core.postprocess import Classification
from edgekit.core.presets import preset
from edgekit.core.tensors import pack_arrays

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of test data and cases; skips where it is missing."""
    folder = Path(os.environ.get("EDGEKIT_SHARED", ROOT / "../shared")).resolve()
    if not (folder / "data").is_dir():
        pytest.skip("the shared test data is not here (EDGEKIT_SHARED)")
    return folder


@pytest.fixture(scope="session")
def fetched() -> Path:
    """The folder of models fetched from package registries; skips where it is missing."""
    folder = ROOT / ".data" / "models"
    if not folder.is_dir():
        pytest.skip("the fetched models are not here (.data/models)")
    return folder


@pytest.fixture(scope="session")
def case(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Makes the input of a shared case by its number and gives the folder it is in."""
    made: dict[str, Path] = {}

    def make(number: str) -> Path:
        if number not in made:
            found = next((shared / "cases").glob(f"{number}-*"), None)
            if found is None:
                pytest.skip(f"the case {number} is not here")
            made[number] = tmp_path_factory.mktemp(number)
            subprocess.run([sys.executable, found / "make.py", made[number]], check=True, timeout=120)
        return made[number]

    return make


@dataclass(frozen=True)
class Made:
    """A small manifest with every field filled, and the content of its files by hash."""

    manifest: Manifest
    blobs: dict[str, bytes]


@pytest.fixture(scope="session")
def made() -> Made:
    """See `Made`."""
    model, weights = b"model" * 100, bytes(range(256)) * 4
    golden_in = pack_arrays({"image": np.zeros((1, 3, 8, 8), np.float32)})
    golden_out = pack_arrays({"scores": np.arange(4, dtype=np.float32)[None]})
    image, scores = Port("image", "float32", ("N", 3, 8, 8)), Port("scores", "float32", ("N", 4))
    entry = ArtifactEntry(
        "openvino",
        "int8",
        (file_ref("model.xml", model), file_ref("model.bin", weights)),
        (image,),
        (scores,),
        isa=VNNI,
        speed="measured",
        integer_share=0.999,
        requires={"openvino": ">=2025.0"},
        golden=(GoldenError("zeros", {"scores": 0.01}, {"scores": 0.05}, file_ref("expected.npz", golden_out)),),
        notes=("the fastest here",),
    )
    lite = Port("image", "float32", ("N", 3, 8, 8), axes=(0, 2, 3, 1))
    other = ArtifactEntry("litert", "fp32", (file_ref("model.tflite", weights),), (lite,), (scores,))
    manifest = Manifest(
        model="tiny",
        version="1",
        inputs=(image,),
        outputs=(scores,),
        artifacts=(entry, other),
        profile="x86-64-vnni",
        preprocess={"image": preset("efficientnet-lite", image)},
        postprocess=Classification(classes=("a", "b", "ç", "")),
        golden=(GoldenSample("zeros", file_ref("in.npz", golden_in), file_ref("out.npz", golden_out)),),
        refusals=(Refusal("tflite-runtime", "n1", "Einsum", "not known", "rewrite it"),),
        histograms=(Histogram("image", -1.0, 1.0, (1, 2, 3)),),
        calibration=Calibration(100, "minmax", "channel"),
        provenance=Provenance("0" * 64, "1" * 64, "0.1.0", {"onnx": "1.23"}),
        notes=("made for tests",),
    )
    contents = (model, weights, golden_in, golden_out)
    return Made(manifest, {hashlib.sha256(content).hexdigest(): content for content in contents})
