"""The last stage: what was decided becomes a manifest, a bundle, a reference folder and a report."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import edgekit
from edgekit.build import assemble, resolve
from edgekit.build.accuracy import Accuracy
from edgekit.build.candidates import Candidate, Golden
from edgekit.build.decide import Decision, Pair
from edgekit.build.report import report_files
from edgekit.build.tools import tool_versions
from edgekit.build.work import Work
from edgekit.compile.targets import target
from edgekit.core.errors import Refusal
from edgekit.core.manifest import ArtifactEntry, Calibration, Manifest, Provenance
from edgekit.quantize import calibration
from edgekit.quantize.integers import FILE, pack_integers
from edgekit.quantize.quantized import QuantizedModel
from edgekit.quantize.recipe import Recipe
from edgekit.quantize.roles import is_linear
from edgekit.quantize.weights import WeightSet


@dataclass(frozen=True, slots=True)
class Outcome:
    """Everything that the stages before found. `ships`: the artifacts of the bundle, best first."""

    recipe: Recipe
    seen: calibration.Calibration | None
    models: Mapping[WeightSet, QuantizedModel]
    golden: Sequence[Golden]
    pairs: Sequence[Pair]
    decisions: Sequence[Decision]
    ships: Sequence[Candidate]
    refusals: Sequence[Refusal]
    measured: Mapping[str, Accuracy]
    remarks: Sequence[str]


def base_manifest(work: Work) -> Manifest:
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


def write(work: Work, outcome: Outcome) -> Manifest:
    """Write all three; returns the bundle's manifest. Raises `EnvironmentFault`, and leaves nothing then."""
    output, report, reference = resolve.output_paths(work.options.output)
    golden = outcome.golden
    samples, blobs = assemble.golden_of(golden)
    whole = replace(_manifest(work, outcome), golden=samples)
    decision_of = {c.label: d for d in outcome.decisions for c in d.ships}
    shipped = [assemble.entry_of(c, golden, decision_of[c.label], work.profile) for c in outcome.ships]
    floats = [assemble.entry_of(p.fp32, golden, None, work.profile) for p in outcome.pairs]
    manifest, all_blobs = _with_artifacts(whole, shipped, blobs)
    texts = report_files(manifest, outcome.decisions, golden, outcome.pairs, work.profile, outcome.measured)
    texts["recipe.json"] = outcome.recipe.to_json().encode()
    if outcome.models:
        texts[FILE] = pack_integers(outcome.recipe, outcome.models)
    assemble.write_all(
        output,
        report,
        reference,
        (manifest, all_blobs),
        _with_artifacts(whole, floats, blobs),
        target("onnxruntime").emit_float(work.imported.model).files["model.onnx"],
        texts,
    )
    return manifest


def _with_artifacts(
    manifest: Manifest, entries: Sequence[tuple[ArtifactEntry, Mapping[str, bytes]]], blobs: Mapping[str, bytes]
) -> tuple[Manifest, dict[str, bytes]]:
    content = {**blobs, **{digest: blob for _, more in entries for digest, blob in more.items()}}
    return replace(manifest, artifacts=tuple(entry for entry, _ in entries)), content


def _manifest(work: Work, outcome: Outcome) -> Manifest:
    recipe, seen = outcome.recipe, outcome.seen
    histograms = seen.histograms if seen else {}
    digest = assemble.sha256(recipe.to_json().encode())
    return replace(
        base_manifest(work),
        refusals=tuple(outcome.refusals),
        histograms=tuple(b for n, h in histograms.items() if (b := assemble.bounded(n, h)) is not None),
        calibration=None if seen is None else Calibration(seen.samples, recipe.observer, recipe.granularity),
        provenance=Provenance(work.imported.source_sha256, digest, edgekit.__version__, tool_versions()),
        notes=tuple(_notes(work, outcome)),
    )


def _notes(work: Work, outcome: Outcome) -> list[str]:
    notes = [*work.imported.notes, *(outcome.seen.remarks if outcome.seen else []), *outcome.remarks]
    if outcome.seen is not None and not outcome.recipe.integer_nodes and work.options.precision != "fp32":
        linear = [n for n in work.imported.model.graph if is_linear(n)]
        notes.append(f"0 operators were quantized: the model has {len(linear)} with constant weights")
    if work.options.random_data:
        notes.append("calibrated on random data: INT8 accuracy is no promise")
    return notes
