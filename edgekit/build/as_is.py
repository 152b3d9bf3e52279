"""A `.tflite` source is taken as it stands: the file is the artifact, for LiteRT and where OpenVINO reads it.

Nothing is quantized and nothing timed against: its own answers in LiteRT are the golden outputs that a device must
reproduce.
"""

import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

import edgekit
from edgekit.build import assemble, resolve
from edgekit.build.candidates import LEAST_ROOM, ROOM, Candidate, Golden, prove
from edgekit.build.importing import import_tflite
from edgekit.build.importing.imported import ImportedTflite
from edgekit.build.options import BuildOptions
from edgekit.build.samples import open_samples, random_samples
from edgekit.build.tools import tool_versions
from edgekit.compile.target import Emitted
from edgekit.core.errors import Refusal, RuntimeRefuses
from edgekit.core.manifest import GoldenError, Manifest, Precision, Provenance
from edgekit.core.preprocess import Preprocess
from edgekit.core.profile import DeviceProfile, load_profile
from edgekit.quantize.recipe import Choice, Recipe

TFLITE: Final = "model.tflite"
_WHY: Final = "the file as it was given"


def build_as_is(options: BuildOptions) -> tuple[Manifest, Recipe]:
    """Bundle a `.tflite` file. Raises as `edgekit.build` does."""
    profile = load_profile(options.device)
    source = import_tflite(Path(options.model))
    preprocess = resolve.preprocess_for(options, source.inputs)
    precision: Precision = "int8" if source.quantization else "fp32"
    wanted = resolve.runtimes_for(options, profile)
    first = next(iter(preprocess.values()), None)
    given = options.calibration
    samples = random_samples(source.inputs, 2) if given is None else open_samples(given, source.inputs, first, 2)
    emitted = Emitted({TFLITE: source.content}, source.inputs, source.outputs)
    litert = Candidate("litert", precision, None, emitted)
    prove(litert, (), threads=1)
    ships: list[Candidate] = [litert] if "litert" in wanted else []
    golden: list[Golden] = []
    if litert.session is not None:
        for i in range(len(samples)):
            arrays = samples[i].arrays
            golden.append(Golden(f"sample-{i}", arrays, litert.session(arrays), True))
            litert.errors[f"sample-{i}"] = dict.fromkeys(golden[-1].outputs, 0.0)
    refusals: list[Refusal] = []
    for name in wanted:
        if name == "litert":
            continue
        found = _in_openvino(source, precision, golden) if name == "openvino" else _no_tflite(name)
        if isinstance(found, Refusal):
            refusals.append(found)
        else:
            ships.append(found)
    if refusals and (options.runtimes or not ships):
        raise RuntimeRefuses(refusals)
    return _write(options, source, preprocess, profile, ships, golden, refusals)


def _no_tflite(name: str) -> Refusal:
    return Refusal(name, "(model)", "tflite", "it does not read TFLite files", "give the model as ONNX")


def _in_openvino(source: ImportedTflite, precision: Precision, golden: list[Golden]) -> Candidate | Refusal:
    """The file as IR, where OpenVINO reads it and gives LiteRT's answers."""
    from edgekit.compile.openvino.float_emission import BIN, XML, canonical_ir

    def refusal(reason: str) -> Refusal:
        return Refusal("openvino", "(model)", "tflite", reason, "use litert, or give the model as ONNX")

    import openvino

    with tempfile.TemporaryDirectory(prefix="edgekit-tflite-") as folder:
        path = Path(folder) / TFLITE
        path.write_bytes(source.content)
        try:
            xml, weights = canonical_ir(openvino.Core().read_model(path), {p.name for p in source.outputs})
        except RuntimeError as error:
            return refusal(str(error).strip().splitlines()[-1][:200])
    candidate = Candidate("openvino", precision, None, Emitted({XML: xml, BIN: weights}, source.inputs, source.outputs))
    try:
        prove(candidate, golden, threads=1)
    except RuntimeRefuses as error:
        return refusal(error.why)
    worst = max((e for errors in candidate.errors.values() for e in errors.values()), default=0.0)
    return candidate if worst <= 0.1 else refusal(f"its answers differ from LiteRT's by {worst:.2g} of their size")


def _write(
    options: BuildOptions,
    source: ImportedTflite,
    preprocess: Mapping[str, Preprocess],
    profile: DeviceProfile,
    ships: list[Candidate],
    golden: list[Golden],
    refusals: list[Refusal],
) -> tuple[Manifest, Recipe]:
    samples, blobs = assemble.golden_of(golden)
    recipe = Recipe(
        model_sha256=source.source_sha256,
        runtimes={c.runtime: Choice(c.precision, None, _WHY) for c in ships},
        order=tuple(c.label for c in ships),
    )
    entries = []
    for candidate in ships:
        entry, more = assemble.entry_of(candidate, golden, None, profile)
        entries.append(replace(entry, golden=tuple(map(_room, entry.golden)), notes=(_WHY,)))
        blobs |= more
    manifest = Manifest(
        model=options.output.stem,
        version=edgekit.__version__,
        inputs=source.inputs,
        outputs=source.outputs,
        artifacts=tuple(entries),
        profile=profile.name,
        preprocess=preprocess,
        postprocess=resolve.task_for(options),
        golden=samples,
        refusals=tuple(refusals),
        provenance=Provenance(
            source.source_sha256, assemble.sha256(recipe.to_json().encode()), edgekit.__version__, tool_versions()
        ),
        notes=source.notes,
        requires=assemble.requires(),
    )
    if not options.dry_run:
        output, report, reference = resolve.output_paths(options.output)
        files = {"recipe.json": recipe.to_json().encode()}
        assemble.write_all(output, report, reference, (manifest, blobs), None, None, files)
    return manifest, recipe


def _room(error: GoldenError) -> GoldenError:
    """The same file in the same engine: a device may differ by what its kernels round otherwise."""
    return replace(error, limit={name: ROOM * e + LEAST_ROOM for name, e in error.nrmse.items()})
