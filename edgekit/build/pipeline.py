"""`edgekit.build`: model + images + profile -> bundle. The stages in reading order; each is a module of its own."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from edgekit.build import accuracy, assemble, resolve
from edgekit.build.as_is import build_as_is
from edgekit.build.cache import cache_key, keep, restore
from edgekit.build.candidates import Golden, Reference, emit, golden_samples, prove
from edgekit.build.decide import Decision, Pair, decide, order
from edgekit.build.importing import import_model, is_tflite
from edgekit.build.options import BuildOptions
from edgekit.build.quantizing import quantize
from edgekit.build.samples import open_samples, random_samples
from edgekit.build.shares import integer_share
from edgekit.build.uint8_input import real_name, take_pixels
from edgekit.build.work import Work
from edgekit.build.writing import Outcome, base_manifest, write
from edgekit.compile.targets import target
from edgekit.core.artifact import Port
from edgekit.core.bundle import Bundle
from edgekit.core.errors import PromiseNotKept, Refusal, RuntimeRefuses, Unsupported, UsageError
from edgekit.core.manifest import Manifest
from edgekit.core.preprocess import Preprocess
from edgekit.core.profile import load_profile
from edgekit.core.threads import usable_cpus
from edgekit.quantize.calibration import Samples
from edgekit.quantize.pixels import pixel_params
from edgekit.quantize.placement import integer_nodes
from edgekit.quantize.quantized import QParams, QuantizedModel
from edgekit.quantize.recipe import Recipe
from edgekit.quantize.weights import WeightSet
from edgekit.runtimes.registry import runtime

Array = NDArray[np.generic]
Progress = Callable[[str], None]
THREADS_TIMED: Final = 1


@dataclass(frozen=True, slots=True)
class BuildResult:
    """What was built: the bundle's manifest (artifacts in order, refusals, notes), and the decisions behind it."""

    output: Path
    manifest: Manifest
    recipe: Recipe


def build(options: BuildOptions, progress: Progress = lambda stage: None) -> BuildResult:
    """Build a bundle; see `BuildOptions`.

    Raises `UsageError`, `BadInput` (model, data, labels), `Unsupported` (a runtime asked for refuses the model, or none
    is left), `EnvironmentFault` (disk, rights, an engine that is not installed), `PromiseNotKept` (accuracy budget).
    Nothing is left half-written.
    """
    resolve.check_output(options)
    key = cache_key(options) if options.cache and not options.dry_run else None
    if key is not None and restore(key, options):
        return _kept_result(options)
    result = _build(options, progress)
    if key is not None:
        keep(key, options)
    return result


def _kept_result(options: BuildOptions) -> BuildResult:
    """The result of a build that was kept, read back from its files."""
    output, report, _ = resolve.output_paths(options.output)
    with Bundle.open(output) as bundle:
        recipe = Recipe.from_json((report / "recipe.json").read_text("utf-8"))
        return BuildResult(output, bundle.manifest, recipe)


def _build(options: BuildOptions, progress: Progress) -> BuildResult:
    if is_tflite(options.model):
        progress("take the file as it is")
        return BuildResult(options.output, *build_as_is(options))
    work = _prepare(options, progress)
    if options.dry_run:
        return _plan(work)
    given = _given_recipe(options)
    samples = _samples(work, options.precision in (None, "int8"))
    done = quantize(work, samples, given, progress)
    progress("prove")
    reference = _reference(work)
    golden = golden_samples(reference, work.imported.inputs, _kept_samples(work, samples), done.calibration)
    pairs, refusals = _pairs(work, done.models, golden, progress)
    progress("decide")
    measured = accuracy.measure(options, pairs, base_manifest(work))
    decisions = _decisions(work, pairs, golden, given, measured)
    remark = accuracy.preset_remark(options, reference, *_picture(work), work.task)
    ships = order(decisions)
    if given and given.order:
        ships = tuple(sorted(ships, key=lambda c: given.order.index(c.label) if c.label in given.order else len(ships)))
    choices = {d.runtime: d.choice for d in decisions}
    recipe = replace(done.recipe, runtimes=choices, order=tuple(c.label for c in ships))
    progress("write")
    manifest = write(
        work,
        Outcome(
            recipe=recipe,
            seen=done.calibration,
            models=done.models,
            golden=golden,
            pairs=pairs,
            decisions=decisions,
            ships=ships,
            refusals=refusals,
            measured=measured,
            remarks=[remark] if remark is not None else [],
        ),
    )
    if broken := accuracy.broken_promises(decisions, measured, options.max_drop):
        raise PromiseNotKept(
            f"bundle {options.output}", "; ".join(broken), "drop --precision int8, or raise --max-drop"
        )
    return BuildResult(options.output, manifest, recipe)


def _decisions(
    work: Work,
    pairs: Sequence[Pair],
    golden: Sequence[Golden],
    given: Recipe | None,
    measured: Mapping[str, accuracy.Accuracy],
) -> tuple[Decision, ...]:
    """What each runtime ships, within the budget."""
    options = work.options
    found = []
    for pair in pairs:
        decision = decide(
            pair,
            golden,
            options.prefer,
            wanted=options.precision,
            is_host=work.is_host,
            given=given.runtimes.get(pair.runtime) if given else None,
        )
        found.append(accuracy.within_budget(decision, pair, measured.get(pair.runtime), options))
    return tuple(found)


def _picture(work: Work) -> tuple[Port | None, Preprocess | None]:
    """The input that takes a picture, and how."""
    for name, preprocess in work.preprocess.items():
        return next(p for p in work.imported.inputs if p.name == name), preprocess
    return None, None


def _plan(work: Work) -> BuildResult:
    """What a build would do, as far as it is known without reading a sample; nothing is written."""
    integer = integer_nodes(work.imported.model) if work.options.precision in (None, "int8") else frozenset()
    recipe = Recipe(integer_nodes=tuple(sorted(integer)), model_sha256=work.imported.source_sha256)
    made = replace(base_manifest(work), refusals=work.refusals, notes=work.imported.notes)
    return BuildResult(work.options.output, made, recipe)


def _prepare(options: BuildOptions, progress: Progress) -> Work:
    """Everything that can be refused before long work starts is refused here."""
    if options.precision == "fp16":
        raise Unsupported(
            "--precision fp16",
            "no artifact is written in float16: the CPU kernels of these runtimes compute it as float32",
            "use int8 or fp32 (a float16 model keeps its float16 inputs and outputs)",
        )
    accuracy.check_apart(options)
    profile = load_profile(options.device)
    runtimes = resolve.runtimes_for(options, profile)
    progress("import")
    imported = import_model(Path(options.model), input_shapes=options.input_shapes, fixed=options.fixed)
    preprocess = resolve.preprocess_for(options, imported.inputs)
    task = resolve.task_for(options)
    fixed = _fixed_inputs(preprocess)
    if options.input == "uint8":
        if not preprocess:
            raise UsageError("--input uint8", "no --preprocess says what a pixel means", "add --preprocess")
        ((name, real),) = preprocess.items()
        imported, left = take_pixels(imported, name, real)
        preprocess, fixed = {name: left}, {real_name(name): fixed[name]}
    progress("check")
    refusals: list[Refusal] = []
    taking = []
    for name in runtimes:
        found = target(name).refusals(imported.model)
        if found and options.runtimes:
            raise RuntimeRefuses(found)
        refusals += found
        taking += [] if found else [name]
    if not taking:
        raise RuntimeRefuses(refusals)
    is_host = options.device == "host"
    return Work(options, imported, profile, is_host, preprocess, fixed, task, tuple(taking), tuple(refusals))


def _samples(work: Work, wants_integers: bool) -> Samples | None:
    options = work.options
    if options.calibration is not None:
        preprocess = next(iter(work.preprocess.values()), None)
        return open_samples(options.calibration, work.imported.inputs, preprocess, options.samples)
    if options.random_data:
        return random_samples(work.imported.inputs)
    if wants_integers:
        raise UsageError(
            "edgekit build", "INT8 needs calibration data and none is given", "add --calibration, or --precision fp32"
        )
    return None


def _given_recipe(options: BuildOptions) -> Recipe | None:
    if options.recipe is None:
        return None
    for flag, value in (("--observer", options.observer), ("--granularity", options.granularity)):
        if value is not None:
            raise UsageError(flag, "the recipe has decided this already", f"leave {flag} out, or edit the recipe")
    from edgekit.core.files import read_input

    return Recipe.from_json(read_input(options.recipe).decode("utf-8", "replace"), str(options.recipe))


def _fixed_inputs(preprocess: Mapping[str, Preprocess]) -> dict[str, QParams]:
    """Parameters of picture inputs follow from their preprocessing."""
    return {
        name: pixel_params(p.denormalise_range(), () if p.pad is None else (p.pad.value,))
        for name, p in preprocess.items()
        if p.dtype != "uint8"
    }


def _reference(work: Work) -> Reference:
    """The float answer: ONNX Runtime on the canonical graph, under the model's own ports."""
    imported = work.imported
    whole = emit("onnxruntime", imported.model, None, None, imported.inputs, imported.outputs)
    return runtime("onnxruntime").load(whole.loadable, threads=usable_cpus())


def _kept_samples(work: Work, samples: Samples | None) -> dict[str, Mapping[str, Array]]:
    if samples is None:
        samples = random_samples(work.imported.inputs, assemble.KEPT_IN_BUNDLE)
    first = range(min(assemble.KEPT_IN_BUNDLE, len(samples)))
    return {f"calibration-{i}": samples[i].arrays for i in first}


def _pairs(
    work: Work, quantized: Mapping[WeightSet, QuantizedModel], golden: Sequence[Golden], progress: Progress
) -> tuple[tuple[Pair, ...], tuple[Refusal, ...]]:
    """Both precisions of each runtime, proved. A runtime that fails here refuses the model by name."""
    imported = work.imported
    pairs, refusals = [], list(work.refusals)
    for name in work.runtimes:
        progress(f"prove {name}")
        weights = work.weights_for(name)
        integers = quantized.get(weights)
        try:
            fp32 = emit(name, imported.model, None, None, imported.inputs, imported.outputs)
            prove(fp32, golden, threads=THREADS_TIMED)
            int8 = None
            if integers is not None:
                int8 = emit(name, imported.model, integers, weights, imported.inputs, imported.outputs)
                prove(int8, golden, threads=THREADS_TIMED)
                integer_share(int8, golden)
            integer_share(fp32, golden)
        except RuntimeRefuses as error:
            if work.options.runtimes:
                raise
            refusals += error.refusals
            continue
        pairs.append(Pair(name, fp32, int8))
    if not pairs:
        raise RuntimeRefuses(refusals)
    return tuple(pairs), tuple(refusals)
