"""The calibrate and quantize stages: how hard the network is decides how much of it stays float.

Most networks keep their answer with every tensor between two linear nodes in 8 bits. Where the held-out error says that
this one does not, the next plan of a short ladder is tried: ranges without the rarest values, and float where 8 bits
blur a tensor. The plan with the smallest error is taken and written into the recipe.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from edgekit.build.work import Work
from edgekit.core.errors import BadInput
from edgekit.core.threads import usable_cpus
from edgekit.quantize.attention import GAIN_WANTED, score_projections
from edgekit.quantize.blur import BLURRED, rounding_errors, touching
from edgekit.quantize.calibration import Calibration, Samples, calibrate, spread
from edgekit.quantize.integers import load_integers
from edgekit.quantize.plan import correct, place_and_solve, relative_error, split
from edgekit.quantize.quantized import QuantizedModel
from edgekit.quantize.recipe import Kept, Recipe, pack, unpack
from edgekit.quantize.roles import role
from edgekit.quantize.solver import Parameters, read
from edgekit.quantize.weights import WeightSet

HARD: Final = 0.1  # held-out error of the outputs from which the next plan is tried
_BLUR_SAMPLES: Final = 4
Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Quantized:
    """The recipe so far, what calibration saw (None without samples), and a model per weight set (none in float)."""

    recipe: Recipe
    calibration: Calibration | None
    models: Mapping[WeightSet, QuantizedModel]


@dataclass(frozen=True, slots=True)
class _Plan:
    observer: str
    keep_float: frozenset[str]
    calibration: Calibration
    integer: frozenset[str]
    parameters: Parameters
    error: float


def quantize(work: Work, samples: Samples | None, given: Recipe | None, progress: Progress) -> Quantized:
    """`given`: a recipe of an earlier build; its decisions are repeated."""
    options = work.options
    base = given or Recipe(observer=options.observer or "minmax", granularity=options.granularity or "channel")
    base = replace(base, model_sha256=work.imported.source_sha256)
    if samples is None:
        return Quantized(base, None, {})
    progress("calibrate")
    calibration = _calibrate(work, samples, base.observer)
    if options.precision == "fp32":
        return Quantized(base, calibration, {})
    if given is not None:
        return _repeat(work, samples, base, calibration, progress)
    plan = _first_plan(work, samples, base, calibration, progress)
    if plan.error > HARD and options.observer is None:
        plan = min(plan, *_float_where_blurred(work, samples, base, progress), key=_rank)
    recipe = replace(
        base,
        observer=plan.observer,
        keep_float=tuple(sorted(plan.keep_float)),
        integer_nodes=tuple(sorted(plan.integer)),
        activations=pack(plan.parameters.activations),
        output_hint=pack(plan.parameters.output_hint),
    )
    return _correct_all(work, samples, recipe, plan.calibration, plan.integer, plan.parameters, progress)


def _calibrate(work: Work, samples: Samples, observer: str) -> Calibration:
    return calibrate(
        work.imported.model,
        samples,
        observer_name=observer,
        chosen=split(len(samples)).chosen,
        threads=usable_cpus(),
    )


def _repeat(work: Work, samples: Samples, base: Recipe, calibration: Calibration, progress: Progress) -> Quantized:
    """The decisions of a recipe. Where nodes were edited by hand, parameters are solved again."""
    integer = frozenset(base.integer_nodes)
    parameters = Parameters(unpack(base.activations), unpack(base.output_hint), frozenset())
    _check_names(work, base)
    graph = work.imported.model.graph
    if integer & set(base.keep_float) or set(read(graph, integer).rounded) != set(base.activations) or not integer:
        left_out = {str(n.name) for n in graph if integer and n.name not in integer and role(n) is not None}
        excluded = left_out | set(base.keep_float)
        integer, parameters = place_and_solve(
            work.imported.model, calibration, keep_float=excluded, fixed_inputs=work.fixed_inputs
        )
    recipe = replace(
        base,
        integer_nodes=tuple(sorted(integer)),
        activations=pack(parameters.activations),
        output_hint=pack(parameters.output_hint),
    )
    return _correct_all(work, samples, recipe, calibration, integer, parameters, progress)


def _check_names(work: Work, recipe: Recipe) -> None:
    """Raises `BadInput` where a recipe names a node that the model lacks, or that has no 8-bit form."""
    nodes = {str(node.name): node for node in work.imported.model.graph}
    source = f"recipe {work.options.recipe}"
    for key, names in (("keep_float", recipe.keep_float), ("integer_nodes", recipe.integer_nodes)):
        if unknown := [name for name in names if name not in nodes]:
            raise BadInput(
                source,
                f"{key} names '{unknown[0]}', and the model has no such node",
                "take a name that the recipe of a build of this model lists, or build without --recipe",
            )
    if odd := [name for name in recipe.integer_nodes if role(nodes[name]) is None]:
        raise BadInput(
            source, f"'{odd[0]}' ({nodes[odd[0]].op_type}) has no 8-bit form", "take it out of integer_nodes"
        )


def _first_plan(work: Work, samples: Samples, base: Recipe, calibration: Calibration, progress: Progress) -> _Plan:
    """Everything in 8 bits; query and key projections of attention only where they do no harm."""
    progress("solve")
    plan = _judged(work, samples, base, base.observer, calibration, frozenset())
    delicate = score_projections(work.imported.model, plan.integer)
    if delicate:
        spared = _judged(work, samples, base, base.observer, calibration, delicate)
        if spared.error < GAIN_WANTED * plan.error:
            return spared
    return plan


def _rank(plan: _Plan) -> tuple[bool, int, float]:
    """Good enough with the least in float; where none is, the smallest error."""
    good = plan.error <= HARD
    return (not good, len(plan.keep_float) if good else 0, plan.error)


def _float_where_blurred(work: Work, samples: Samples, base: Recipe, progress: Progress) -> list[_Plan]:
    """Ranges without the rarest values; nodes that touch a tensor which 8 bits blur compute in float."""
    progress("solve again, with float where 8 bits blur")
    model = work.imported.model
    calibration = _calibrate(work, samples, "percentile")
    integer, parameters = place_and_solve(model, calibration, fixed_inputs=work.fixed_inputs)
    few = [samples[i].arrays for i in spread(_BLUR_SAMPLES, len(samples))]
    errors = rounding_errors(model, parameters.activations, few, threads=usable_cpus())
    plans: list[_Plan] = []
    for bound in BLURRED:
        blurred = {name for name, error in errors.items() if error > bound}
        plans.append(_judged(work, samples, base, "percentile", calibration, touching(model, blurred, integer)))
        if plans[-1].error <= HARD:
            break
    return plans


def _judged(
    work: Work,
    samples: Samples,
    base: Recipe,
    observer: str,
    calibration: Calibration,
    keep_float: frozenset[str],
) -> _Plan:
    """A plan with its error on the held-out samples (0 where there are none)."""
    model = work.imported.model
    integer, parameters = place_and_solve(model, calibration, keep_float=keep_float, fixed_inputs=work.fixed_inputs)
    _, kept = correct(
        model,
        integer,
        parameters,
        calibration,
        samples,
        weights=work.weight_sets[0],
        granularity=base.granularity,
        error=relative_error,
        threads=usable_cpus(),
        quickly=True,
    )
    return _Plan(observer, keep_float, calibration, integer, parameters, min(kept.errors.values(), default=0.0))


def _correct_all(
    work: Work,
    samples: Samples,
    recipe: Recipe,
    calibration: Calibration,
    integer: frozenset[str],
    parameters: Parameters,
    progress: Progress,
) -> Quantized:
    """The weights of each set: those beside a given recipe where they still fit, else made anew."""
    if not integer:
        return Quantized(recipe, calibration, {})
    path = work.options.recipe
    stored = load_integers(path, recipe) if path is not None else None
    models: dict[WeightSet, QuantizedModel] = {}
    kept: dict[str, Kept] = {}
    for weights in work.weight_sets:
        if stored is not None and weights in stored and weights in recipe.corrections:
            values, biases = stored[weights]
            models[weights] = QuantizedModel(
                work.imported.model, integer, parameters.activations, values, biases, parameters.output_hint
            )
            kept[weights] = recipe.corrections[weights]
            continue
        progress(f"quantize ({weights})")
        models[weights], kept[weights] = correct(
            work.imported.model,
            integer,
            parameters,
            calibration,
            samples,
            weights=weights,
            granularity=recipe.granularity,
            error=relative_error,
            threads=usable_cpus(),
            kept=recipe.corrections.get(weights),
        )
    return Quantized(replace(recipe, corrections=kept), calibration, models)
