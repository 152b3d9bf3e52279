"""From a calibration to a `QuantizedModel`: place, solve, correct, and keep what a held-out part says helps."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import onnx_ir as ir

from edgekit.quantize.calibration import Calibration, Samples, spread
from edgekit.quantize.correction import Corrections, quantize_linear
from edgekit.quantize.interpreter import Array
from edgekit.quantize.placement import integer_nodes
from edgekit.quantize.quantized import QParams, QuantizedModel
from edgekit.quantize.recipe import Kept
from edgekit.quantize.simulate import simulate
from edgekit.quantize.solver import Parameters, solve
from edgekit.quantize.weights import WeightSet

FIT: Final = 64  # samples that corrections are made from
HELD: Final = 32  # samples that judge them
LEAST_LEVELS: Final = 8  # of 256 that a channel must move over to be told from noise
UNEVEN: Final = 0.25  # share of channels below that from which a result is not rounded with one scale
CANDIDATES: Final = (
    Corrections(round_by_output=True, bias=True),
    Corrections(round_by_output=False, bias=True),
    Corrections(round_by_output=False, bias=False),
)

OutputError = Callable[[Sequence[Mapping[str, Array]], Sequence[Mapping[str, Array]]], float]
"""(outputs in float, outputs in 8 bits), sample by sample -> an error; smaller is better."""


@dataclass(frozen=True, slots=True)
class Split:
    """Indexes of the samples that corrections are made from, and of those that judge them. Disjoint."""

    fit: tuple[int, ...]
    held: tuple[int, ...]

    @property
    def chosen(self) -> tuple[int, ...]:
        """Both, ascending."""
        return tuple(sorted((*self.fit, *self.held)))


def split(total: int) -> Split:
    """At most FIT + HELD samples, evenly spread; every third one judges (none where there are fewer than 4)."""
    chosen = spread(FIT + HELD, total)
    if total < 4:
        return Split(chosen, ())
    held = chosen[1::3]
    return Split(tuple(i for i in chosen if i not in held), held)


def relative_error(want: Sequence[Mapping[str, Array]], got: Sequence[Mapping[str, Array]]) -> float:
    """|got − want| / |want| over all float outputs, averaged over outputs; for any task.

    Infinite where a result is not finite or has another shape (a detector that found other boxes).
    """
    errors = []
    for name in want[0]:
        a = [np.asarray(w[name], np.float64) for w in want]
        if want[0][name].dtype.kind != "f":
            continue
        b = [np.asarray(g[name], np.float64) for g in got]
        if any(x.shape != y.shape for x, y in zip(a, b, strict=True)):
            return np.inf
        distance = sum(float(((x - y) ** 2).sum()) for x, y in zip(a, b, strict=True))
        size = sum(float((x**2).sum()) for x in a)
        errors.append(float(np.sqrt(distance / max(size, 1e-30))))
    error = float(np.mean(errors)) if errors else 0.0
    return error if np.isfinite(error) else np.inf


def place_and_solve(
    model: ir.Model,
    calibration: Calibration,
    *,
    keep_float: Collection[str] = (),
    fixed_inputs: Mapping[str, QParams] | None = None,
) -> tuple[frozenset[str], Parameters]:
    """Integer nodes and their parameters; nodes whose scales cannot agree are placed in float, until all agree."""
    excluded = set(keep_float)
    while True:
        integer = integer_nodes(model, excluded)
        parameters = solve(model, integer, calibration.intervals, fixed_inputs)
        if not parameters.demoted:
            return integer, _without_uneven(model, parameters, calibration)
        excluded |= parameters.demoted


def _without_uneven(model: ir.Model, parameters: Parameters, calibration: Calibration) -> Parameters:
    """No rounding of a float result whose channels are too unlike for one 8-bit scale.

    Such a result goes to float readers only; where a runtime has no float result, the node computes in float instead.
    """
    hints = dict(parameters.output_hint)
    for node in model.graph:
        name = str(node.outputs[0].name)
        extents = calibration.channel_extents.get(str(node.name))
        if name in hints and extents is not None:
            levels = (extents[1] - extents[0]) / hints[name].scale
            if np.mean(levels < LEAST_LEVELS) >= UNEVEN:
                del hints[name]
    return replace(parameters, output_hint=hints)


def correct(
    model: ir.Model,
    integer: frozenset[str],
    parameters: Parameters,
    calibration: Calibration,
    samples: Samples,
    *,
    weights: WeightSet,
    granularity: str,
    error: OutputError,
    threads: int,
    kept: Kept | None = None,
    quickly: bool = False,
) -> tuple[QuantizedModel, Kept]:
    """The quantized model with the corrections that a held-out part of the samples says help.

    `kept`: a decision made before; it is repeated, not judged again. `quickly`: judge the cheap corrections only, to
    compare plans.
    """
    parts = split(calibration.samples)
    position = {index: k for k, index in enumerate(calibration.chosen)}
    fit = [samples[i].arrays for i in parts.fit]
    held = [samples[i].arrays for i in parts.held]
    means = {n: [m[position[i]] for i in parts.fit] for n, m in calibration.channel_means.items()}
    want = [calibration.outputs[position[i]] for i in parts.held]

    def attempt(corrections: Corrections) -> QuantizedModel:
        needs_samples = corrections.round_by_output or corrections.bias
        return quantize_linear(
            model,
            integer,
            parameters,
            weights=weights,
            granularity=granularity,
            corrections=corrections,
            samples=fit if needs_samples else [],
            channel_means=means,
            threads=threads,
        )

    if kept is not None:
        return attempt(Corrections(kept.round_by_output, kept.bias)), kept
    if not integer or not held:
        chosen = CANDIDATES[-1] if len(fit) < 2 else CANDIDATES[1]
        return attempt(chosen), Kept(chosen.round_by_output, chosen.bias)
    best: tuple[float, Corrections, QuantizedModel] | None = None
    errors: dict[str, float] = {}
    for corrections in CANDIDATES[1:] if quickly else CANDIDATES:
        candidate = attempt(corrections)
        reading = error(want, simulate(candidate, held, threads=threads))
        if np.isfinite(reading):
            errors[name_of(corrections)] = float(f"{reading:.4g}")
        if best is None or reading < best[0]:
            best = (reading, corrections, candidate)
    assert best is not None
    return best[2], Kept(best[1].round_by_output, best[1].bias, errors)


def name_of(corrections: Corrections) -> str:
    """For recipe and report."""
    if corrections.round_by_output:
        return "rounded by output, bias corrected"
    return "bias corrected" if corrections.bias else "rounded to nearest"
