"""The three classifiers on which quality and speed are judged, with their bars, and their bundles on this machine.

100 photos decide (calibration); the others are only read to measure.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from benchmarks.world import World
from edgekit.build.options import BuildOptions
from edgekit.build.pipeline import build
from edgekit.core.preprocess import Preprocess
from edgekit.core.presets import preset
from edgekit.core.profile import load_profile
from edgekit.core.truth import read_labels
from edgekit.runtimes.model import Model
from edgekit.runtimes.reference import float_model, load_precision
from edgekit.runtimes.runtime import Session

RUNTIMES: Final = ("onnxruntime", "openvino", "litert")
SAFE_PROFILE: Final = "x86-64"  # weights that cannot saturate, on any x86 CPU
QUICK_PHOTOS: Final = 50
Floats = NDArray[np.float32]
Weights = Literal["full", "saturation-safe"]


@dataclass(frozen=True, slots=True)
class Classifier:
    """A model with its bars. KL in nats against its own float model, by weights; `agreement` is a share.

    `same`, `across`: least agreement of two runtimes with the same weights, and of full with saturation-safe ones.
    """

    name: str
    file: str
    preset: str
    background: int
    kl: Mapping[Weights, float]
    agreement: float
    same: float
    across: float | None = None

    def preprocess(self) -> Preprocess:
        """How a photo becomes its input."""
        return preset(self.preset)

    @property
    def task(self) -> str:
        """The preset of its task."""
        return "classification-background" if self.background else "classification"


CLASSIFIERS: Final = (
    Classifier(
        "efficientnet-lite0",
        "efficientnet_lite0.onnx",
        "efficientnet-lite",
        background=0,
        kl={"full": 0.0085, "saturation-safe": 0.010},
        agreement=0.97,
        same=0.985,
        across=0.97,
    ),
    Classifier(
        "squeezenet",
        "squeezenet1_1.onnx",
        "torchvision",
        background=0,
        kl={"full": 0.009, "saturation-safe": 0.0118},
        agreement=0.95,
        same=0.985,
        across=0.95,
    ),
    Classifier(
        "mobilenet-v1",
        "mobilenet_v1_0.25_128.onnx",
        "mobilenet-v1-128",
        background=1,
        kl={"full": 0.014, "saturation-safe": 0.022},
        agreement=0.895,
        same=0.975,
    ),
)


@dataclass(frozen=True, slots=True)
class Variant:
    """An 8-bit artifact of a bundle: which runtime, which weights."""

    runtime: str
    weights: Weights
    bundle: Path

    @property
    def label(self) -> str:
        """For names of figures."""
        return f"{self.runtime}/{self.weights}"

    def model(self, world: World, precision: str = "int8") -> Model:
        """Loaded, one thread. The golden run is part of it."""
        state = world.state / "device"
        return load_precision(self.bundle, self.runtime, precision, threads=1, state=state)

    def float_model(self, world: World) -> Model:
        """The float side that the build wrote beside the bundle."""
        found = float_model(self.bundle, self.runtime, threads=1, state=world.state / "device")
        assert found is not None, f"{self.bundle.with_suffix('.reference')} lacks {self.runtime}"
        return found


def model_file(world: World, classifier: Classifier) -> Path:
    """The ONNX file."""
    return world.needed(world.shared / "models" / classifier.file)


def calibration_folder(world: World) -> Path:
    """100 photos."""
    return world.needed(world.shared / "imagenet/calib")


def bundle(world: World, classifier: Classifier, device: str) -> Path:
    """Its bundle for a profile, INT8 for each runtime even where float is faster; built once per state of the code."""
    output = world.state / f"{classifier.name}.{device}.ekb"
    if not output.exists():
        world.say(f"build {classifier.name} for {device}")
        build(
            BuildOptions(
                model=model_file(world, classifier),
                output=output,
                calibration=calibration_folder(world),
                device=device,
                preprocess=classifier.preset,
                task=classifier.task,
                prefer="size",
                cache=False,
                force=True,
            )
        )
    return output


def variants(world: World, classifier: Classifier) -> list[Variant]:
    """Every 8-bit artifact that is right on this machine, each set of weights once per runtime."""
    found: dict[tuple[str, Weights], Variant] = {}
    for device, profile in (("host", world.host), (SAFE_PROFILE, load_profile(SAFE_PROFILE))):
        if device == SAFE_PROFILE and world.host.arch != profile.arch:
            continue
        made = bundle(world, classifier, device)
        for runtime in RUNTIMES:
            weights = profile.weights_for(runtime)
            found.setdefault((runtime, weights), Variant(runtime, weights, made))
    return list(found.values())


@dataclass(frozen=True, slots=True)
class Photos:
    """Paths of the evaluation photos with their labels."""

    files: tuple[Path, ...]
    labels: NDArray[np.intp]


def photos(world: World) -> Photos:
    """The 700 evaluation photos; a spread of them on a quick run."""
    folder = world.needed(world.shared / "imagenet/eval")
    truth = read_labels(folder / "labels.csv", folder=folder)
    names = list(truth)[:: max(1, len(truth) // QUICK_PHOTOS) if world.is_quick else 1]
    return Photos(tuple(folder / name for name in names), np.array([truth[name] for name in names]))


def answers(
    world: World, classifier: Classifier, sessions: Mapping[str, Session], files: Sequence[Path]
) -> dict[str, Floats]:
    """Logits [photos, classes] of each session: every photo is prepared once and given to all, so none sees others."""
    preprocess = classifier.preprocess()
    rows: dict[str, list[Floats]] = {name: [] for name in sessions}
    for number, file in enumerate(files):
        if number % 100 == 0:
            world.say(f"{classifier.name}: photo {number} of {len(files)}")
        tensor = preprocess(file)
        for name, session in sessions.items():
            outputs = session({session.inputs[0].name: tensor})
            rows[name].append(np.asarray(next(iter(outputs.values())), np.float32).reshape(-1))
    return {name: np.stack(each) for name, each in rows.items()}
