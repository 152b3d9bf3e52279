"""Accuracy on labelled data that calibration never saw: the budget, and a word about a wrong preset."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np

from edgekit.build.candidates import Candidate, Reference
from edgekit.build.decide import Decision, Pair
from edgekit.build.options import BuildOptions
from edgekit.build.samples import image_files
from edgekit.core.artifact import Port
from edgekit.core.errors import BadInput, UsageError
from edgekit.core.manifest import Manifest
from edgekit.core.metrics import top_k
from edgekit.core.postprocess import Classification, Postprocess
from edgekit.core.preprocess import Preprocess
from edgekit.core.presets import preset, presets_fitting
from edgekit.core.truth import read_labels
from edgekit.quantize.recipe import Choice
from edgekit.runtimes.evaluation import Evaluation, evaluate
from edgekit.runtimes.model import Model

PRESET_IMAGES: Final = 32
PRESET_POINTS: Final = 5.0


@dataclass(frozen=True, slots=True)
class Accuracy:
    """One runtime's figures on the evaluation data."""

    runtime: str
    fp32: Evaluation
    int8: Evaluation | None

    @property
    def drop(self) -> float:
        """Points (of 100) that 8 bits lose; negative: they gain."""
        return 0.0 if self.int8 is None else 100 * (self.fp32.value - self.int8.value)


def check_apart(options: BuildOptions) -> None:
    """Raises `UsageError` where `--eval` lacks its labels or shares a file with the calibration set."""
    if (options.eval_data is None) != (options.labels is None):
        given, missing = ("--eval", "--labels") if options.labels is None else ("--labels", "--eval")
        raise UsageError(given, f"goes with {missing}", f"add {missing}, or leave {given} out")
    if options.max_drop is not None and options.eval_data is None:
        raise UsageError("--max-drop", "needs labelled data to measure on", "add --eval DIR --labels FILE")
    if options.eval_data is None or options.calibration is None or not Path(options.calibration).is_dir():
        return
    if not options.eval_data.is_dir():
        raise BadInput(f"--eval {options.eval_data}", "no such folder", "give the folder of the labelled pictures")
    calibration = {_digest(p): p for p in image_files(Path(options.calibration))}
    shared = [p.name for p in image_files(options.eval_data) if _digest(p) in calibration]
    if shared:
        raise UsageError(
            f"--eval {options.eval_data}",
            f"{len(shared)} of its pictures are calibration pictures too ({shared[0]})",
            "keep the two apart: what was calibrated on says nothing about accuracy",
        )


def _digest(path: Path) -> str:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise BadInput(str(path), f"cannot be read: {error.strerror}", "check its rights") from None


def measure(options: BuildOptions, pairs: Sequence[Pair], manifest: Manifest) -> dict[str, Accuracy]:
    """Accuracy of both precisions of each runtime that runs here; empty without evaluation data."""
    if options.eval_data is None or options.labels is None:
        return {}
    found = {}
    for pair in pairs:
        if pair.fp32.session is None:
            continue
        float_model = _model(pair.fp32, manifest)
        fp32 = evaluate(float_model, options.eval_data, options.labels, reference=None)
        int8 = None
        if pair.int8 is not None and pair.int8.session is not None:
            int8 = evaluate(_model(pair.int8, manifest), options.eval_data, options.labels, reference=float_model)
        found[pair.runtime] = Accuracy(pair.runtime, fp32, int8)
    return found


def _model(candidate: Candidate, manifest: Manifest) -> Model:
    from edgekit.core.manifest import ArtifactEntry, FileRef

    assert candidate.session is not None
    nothing = FileRef("model", "0" * 64, 0)
    entry = ArtifactEntry(candidate.runtime, candidate.precision, (nothing,), manifest.inputs, manifest.outputs)
    return Model(manifest, entry, candidate.session, ())


def within_budget(decision: Decision, pair: Pair, accuracy: Accuracy | None, options: BuildOptions) -> Decision:
    """Float in the place of an 8-bit artifact that loses more than the budget, unless 8 bits were asked for by name."""
    budget = options.max_drop
    if budget is None or accuracy is None or accuracy.drop <= budget or decision.choice.precision != "int8":
        return decision
    if options.precision == "int8":
        return decision
    why = f"8 bits lose {accuracy.drop:.2f} points, the budget is {budget:g}"
    return replace(decision, ships=(pair.fp32,), choice=Choice("fp32", None, why))


def broken_promises(decisions: Sequence[Decision], accuracy: dict[str, Accuracy], budget: float | None) -> list[str]:
    """What still ships beyond the budget, where 8 bits were asked for by name."""
    if budget is None:
        return []
    return [
        f"{d.runtime}: {accuracy[d.runtime].drop:.2f} points lost, the budget is {budget:g}"
        for d in decisions
        if d.choice.precision == "int8" and d.runtime in accuracy and accuracy[d.runtime].drop > budget
    ]


def preset_remark(
    options: BuildOptions, reference: Reference, port: Port | None, used: Preprocess | None, task: Postprocess
) -> str | None:
    """A sentence naming a preset that is clearly better than the one in use, judged in float on a few pictures."""
    if options.eval_data is None or options.labels is None or port is None or used is None:
        return None
    if options.labels.suffix.lower() != ".csv":
        return None
    labels = read_labels(options.labels, folder=options.eval_data)
    names = list(labels)[:: max(1, len(labels) // PRESET_IMAGES)][:PRESET_IMAGES]
    truth = np.asarray([labels[n] for n in names])
    background = task.background if isinstance(task, Classification) else 0

    def score(preprocess: Preprocess) -> float:
        rows = []
        for name in names:
            assert options.eval_data is not None
            outputs = reference({port.name: preprocess(options.eval_data / name)})
            rows.append(np.asarray(next(iter(outputs.values())), np.float32)[0].ravel()[background:])
        return 100 * top_k(np.stack(rows), truth)

    here = score(used)
    others = {name: score(preset(name, port)) for name in presets_fitting(port) if preset(name, port) != used}
    if not others:
        return None
    best = max(others, key=lambda name: others[name])
    if others[best] - here <= PRESET_POINTS:
        return None
    return (
        f"preset '{best}' reaches {others[best]:.0f} % on {len(names)} pictures where the one in use reaches "
        f"{here:.0f} %: check --preprocess"
    )
