"""The peers' files of a classifier: the same calibration photos, prepared by the same code, and its own defaults."""

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from benchmarks.classifiers import Classifier, Weights, calibration_folder, model_file
from benchmarks.peers.environments import AI_EDGE_QUANTIZER, NNCF, ONNX2TF, Environment
from benchmarks.world import World
from edgekit.build.samples import image_files
from edgekit.core.artifact import LoadableArtifact
from edgekit.runtimes.model import Model
from edgekit.runtimes.registry import runtime
from edgekit.runtimes.runtime import Session


@dataclass(frozen=True, slots=True)
class Peer:
    """A quantizer and the runtime that its file is for. `source`: the peer whose file it starts from; None: the model.

    `weights` is the class it competes in; None: a float file, which competes in speed alone.
    """

    name: str
    runtime: str
    weights: Weights | None
    environment: Environment
    script: str
    suffix: str
    flags: tuple[str, ...] = ()
    source: "Peer | None" = None
    wants_samples: bool = True

    def file(self, world: World, classifier: Classifier) -> Path:
        """Made once. Raises `Missing` where the peer cannot be installed or fails."""
        source = self.source.file(world, classifier) if self.source else model_file(world, classifier)
        samples = _samples(world, classifier) if self.wants_samples else None
        output = classifier.name + self.suffix
        return self.environment.made(world, self.script, source, output, samples=samples, flags=self.flags)

    def artifact(self, world: World, classifier: Classifier, ours: Model) -> LoadableArtifact:
        """Its file under the ports of our model of the same runtime."""
        file = self.file(world, classifier)
        files = [file, *([file.with_suffix(".bin")] if self.suffix == ".xml" else [])]
        return LoadableArtifact(
            {f.name: f.read_bytes() for f in files}, ours.entry.inputs, ours.entry.outputs, self.name
        )

    def session(self, world: World, classifier: Classifier, ours: Model) -> Session:
        """Loaded by the same adapter as ours, one thread."""
        return runtime(self.runtime).load(self.artifact(world, classifier, ours), threads=1)


STATIC_8: Final = Peer("quantize_static 8-bit", "onnxruntime", "full", NNCF, "static_onnxruntime.py", ".onnx")
STATIC_7: Final = Peer(
    "quantize_static 7-bit",
    "onnxruntime",
    "saturation-safe",
    NNCF,
    "static_onnxruntime.py",
    ".onnx",
    ("--reduce-range",),
)
NNCF_ONNX: Final = Peer("NNCF on ONNX", "onnxruntime", "full", NNCF, "nncf_onnx.py", ".onnx")
ONNX2TF_FLOAT: Final = Peer(
    "onnx2tf float", "litert", None, ONNX2TF, "onnx2tf_float.py", ".tflite", wants_samples=False
)
PEERS: Final = (
    STATIC_8,
    STATIC_7,
    NNCF_ONNX,
    Peer("NNCF on OpenVINO", "openvino", "full", NNCF, "nncf_openvino.py", ".xml"),
    Peer(STATIC_8.name, "openvino", "full", NNCF, "to_openvino.py", ".xml", source=STATIC_8, wants_samples=False),
    Peer(
        STATIC_7.name,
        "openvino",
        "saturation-safe",
        NNCF,
        "to_openvino.py",
        ".xml",
        source=STATIC_7,
        wants_samples=False,
    ),
    Peer("ai-edge-quantizer", "litert", "full", AI_EDGE_QUANTIZER, "static_tflite.py", ".tflite", source=ONNX2TF_FLOAT),
)


def _samples(world: World, classifier: Classifier) -> Path:
    """The calibration photos as one array [100, 3, H, W]."""
    files = image_files(calibration_folder(world))
    preprocess = classifier.preprocess()
    key = hashlib.sha256(repr(preprocess).encode() + b"".join(f.read_bytes() for f in files)).hexdigest()[:16]
    path = world.work / "samples" / f"{classifier.name}.{key}.npy"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        np.save(path, np.concatenate([preprocess(file) for file in files]))
    return path
