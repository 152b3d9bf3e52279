"""What a build is asked for: one value, the same for the API, the flags and `edgekit.toml`."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from edgekit.core.postprocess import Postprocess
from edgekit.core.preprocess import Preprocess

Precision = Literal["int8", "fp16", "fp32"]
Prefer = Literal["speed", "size", "accuracy"]


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildOptions:
    """Everything that `edgekit build` takes.

    `calibration`: a folder of images or .npz files, a .npy or .npz file, or `file.py:function`, a generator of samples.
    `preprocess` and `task`: a preset's name, a TOML file or a value; None with images is a usage error, no default.
    `runtimes`: those named must take the model; empty: each that can. `precision`: None decides by measurement.
    `max_drop`: accuracy points (top-1 or mAP, of 100) that may be lost on `eval`; more is `PromiseNotKept`.
    `recipe`: decisions made before, from `OUT.report/recipe.json`. `random_data`: calibrate on noise, and say so.
    """

    model: Path | str
    output: Path
    calibration: Path | str | None = None
    device: str = "host"
    runtimes: tuple[str, ...] = ()
    preprocess: Preprocess | Path | str | None = None
    task: Postprocess | Path | str | None = None
    classes: Path | None = None
    eval_data: Path | None = None
    labels: Path | None = None
    max_drop: float | None = None
    samples: int | None = None
    observer: str | None = None
    granularity: str | None = None
    precision: Precision | None = None
    input: Literal["float32", "uint8"] = "float32"
    recipe: Path | None = None
    prefer: Prefer = "speed"
    input_shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    fixed: Mapping[str, float | int] = field(default_factory=dict)
    random_data: bool = False
    cache: bool = True
    force: bool = False
    dry_run: bool = False

    def __post_init__(self) -> None:
        """Paths may be given as text."""
        for name in ("output", "classes", "eval_data", "labels", "recipe"):
            value = getattr(self, name)
            if isinstance(value, str):
                object.__setattr__(self, name, Path(value))
