"""`edgekit.build`: model + images + profile -> bundle. The stages in reading order; each is a module of its own."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

import edgekit
from edgekit.build import accuracy, assemble, resolve
from edgekit.build.as_is import build_as_is
from edgekit.build.cache import cache_key, keep, restore
from edgekit.build.candidates import Candidate, Golden, Reference, emit, golden_samples, prove
from edgekit.build.decide import Decision, Pair, decide, order
from edgekit.build.importing import import_model, is_tflite
from edgekit.build.options import BuildOptions
from edgekit.build.quantizing import quantize
from edgekit.build.report import report_files
from edgekit.build.samples import open_samples, random_samples
from edgekit.build.shares import integer_share
from edgekit.build.tools import tool_versions
from edgekit.build.uint8_input import real_name, take_pixels
from edgekit.build.work import Work
from edgekit.compile.targets import target
from edgekit.core import manifest as manifests
from edgekit.core.artifact import Port
from edgekit.core.bundle import Bundle
from edgekit.core.errors import PromiseNotKept, Refusal, RuntimeRefuses, Unsupported, UsageError
from edgekit.core.manifest import Manifest, Provenance
from edgekit.core.preprocess import Preprocess
from edgekit.core.profile import load_profile
from edgekit.core.threads import usable_cpus
from edgekit.quantize.calibration import Calibration, Samples
from edgekit.quantize.integers import pack_integers
from edgekit.quantize.pixels import pixel_params
from edgekit.quantize.placement import integer_nodes
from edgekit.quantize.quantized import QParams, QuantizedModel
from edgekit.quantize.recipe import Recipe
from edgekit.quantize.roles import Kind, role
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
    wants_integers = options.precision in (None, "int8")
    samples = _samples(work, wants_integers)
    done = quantize(work, samples, given, progress)
    recipe, calibration, quantized = done.recipe, done.calibration, done.models
    progress("prove")
    reference = _reference(work)
    golden = golden_samples(reference, work.imported.inputs, _kept_samples(work, samples), calibration)
    pairs, refusals = _pairs(work, quantized, golden, progress)
    progress("decide")
    decisions = tuple(
        decide(
            pair,
            golden,
            options.prefer,
            wanted=options.precision,
            is_host=work.is_host,
            given=given.runtimes.get(pair.runtime) if given else None,
        )
        for pair in pairs
    )
    view = _manifest(work)
    measured = accuracy.measure(options, pairs, view)
    decisions = tuple(
        accuracy.within_budget(d, p, measured.get(d.runtime), options) for d, p in zip(decisions, pairs, strict=True)
    )
    remark = accuracy.preset_remark(options, reference, *_picture(work), work.task)
    ships = order(decisions)
    if given and given.order:
        ships = tuple(sorted(ships, key=lambda c: given.order.index(c.label) if c.label in given.order else len(ships)))
    recipe = replace(recipe, runtimes={d.runtime: d.choice for d in decisions}, order=tuple(c.label for c in ships))
    progress("write")
    result = _write(
        work,
        recipe,
        quantized,
        calibration,
        golden,
        pairs,
        decisions,
        ships,
        refusals,
        measured,
        [remark] if remark is not None else [],
    )
    if broken := accuracy.broken_promises(decisions, measured, options.max_drop):
        raise PromiseNotKept(
            f"bundle {options.output}", "; ".join(broken), "drop --precision int8, or raise --max-drop"
        )
    return result


def _picture(work: Work) -> tuple[Port | None, Preprocess | None]:
    """The input that takes a picture, and how."""
    for name, preprocess in work.preprocess.items():
        return next(p for p in work.imported.inputs if p.name == name), preprocess
    return None, None


def _manifest(work: Work) -> Manifest:
    """What does not depend on how the model was quantized."""
    return Manifest(
        model=work.options.output.stem,
        version=edgekit.__version__,
        inputs=work.imported.inputs,
        outputs=work.imported.outputs,
        artifacts=(),
        profile=work.profile.name,
        preprocess=work.preprocess,
        postprocess=work.task,
        requires=assemble.requires(),
    )


def _plan(work: Work) -> BuildResult:
    """What a build would do, as far as it is known without reading a sample; nothing is written."""
    integer = integer_nodes(work.imported.model) if work.options.precision in (None, "int8") else frozenset()
    recipe = Recipe(integer_nodes=tuple(sorted(integer)), model_sha256=work.imported.source_sha256)
    made = replace(_manifest(work), refusals=work.refusals, notes=work.imported.notes)
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


def _write(
    work: Work,
    recipe: Recipe,
    quantized: Mapping[WeightSet, QuantizedModel],
    calibration: Calibration | None,
    golden: Sequence[Golden],
    pairs: Sequence[Pair],
    decisions: Sequence[Decision],
    ships: Sequence[Candidate],
    refusals: Sequence[Refusal],
    measured: Mapping[str, accuracy.Accuracy],
    more_remarks: Sequence[str],
) -> BuildResult:
    output, report, reference = resolve.output_paths(work.options.output)
    float_file = target("onnxruntime").emit_float(work.imported.model).files["model.onnx"]
    samples, blobs = assemble.golden_of(golden)
    recipe_json = recipe.to_json().encode()
    linear = [n for n in work.imported.model.graph if (r := role(n)) is not None and r.kind is Kind.LINEAR]
    remarks = [*work.imported.notes, *(calibration.remarks if calibration else []), *more_remarks]
    if calibration is not None and not recipe.integer_nodes:
        remarks.append(f"0 operators were quantized: the model has {len(linear)} with constant weights")
    if work.options.random_data:
        remarks.append("calibrated on random data: INT8 accuracy is no promise")

    def manifest(entries: Sequence[manifests.ArtifactEntry]) -> Manifest:
        histograms = calibration.histograms if calibration else {}
        return replace(
            _manifest(work),
            artifacts=tuple(entries),
            golden=samples,
            refusals=tuple(refusals),
            histograms=tuple(b for n, h in histograms.items() if (b := assemble.bounded(n, h)) is not None),
            calibration=None
            if calibration is None
            else manifests.Calibration(calibration.samples, recipe.observer, recipe.granularity),
            provenance=Provenance(
                work.imported.source_sha256, assemble.sha256(recipe_json), edgekit.__version__, tool_versions()
            ),
            notes=tuple(remarks),
        )

    by_label = {c.label: d for d in decisions for c in d.ships}
    entries = [assemble.entry_of(c, golden, by_label[c.label], work.profile) for c in ships]
    floats = [assemble.entry_of(p.fp32, golden, None, work.profile) for p in pairs]
    made = manifest([e for e, _ in entries])
    result = BuildResult(output, made, recipe)
    texts = {
        "recipe.json": recipe_json,
        **({"integers.npz": pack_integers(recipe, quantized)} if quantized else {}),
        **report_files(result, decisions, golden, pairs, work.profile, measured),
    }
    assemble.write_all(
        output,
        report,
        reference,
        (made, {**blobs, **{h: b for _, more in entries for h, b in more.items()}}),
        (manifest([e for e, _ in floats]), {**blobs, **{h: b for _, more in floats for h, b in more.items()}}),
        float_file,
        texts,
    )
    return result
