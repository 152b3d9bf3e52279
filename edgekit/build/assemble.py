"""From what was decided to files: bundle, reference folder, report folder. Each is written whole or not at all."""

import hashlib
import json
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Final

import numpy as np

import edgekit
from edgekit.build.candidates import Candidate, Golden, limits
from edgekit.build.decide import Decision
from edgekit.core.bundle import file_ref, write_bundle
from edgekit.core.errors import EnvironmentFault, Refusal
from edgekit.core.files import write_atomic
from edgekit.core.manifest import (
    HISTOGRAM_BINS_LIMIT,
    ArtifactEntry,
    GoldenError,
    GoldenSample,
    Histogram,
    Manifest,
)
from edgekit.core.profile import DeviceProfile
from edgekit.core.tensors import pack_arrays
from edgekit.quantize import observers
from edgekit.runtimes.reference import REFERENCE_BUNDLE

LEAST_VERSION: Final = {"onnxruntime": ">=1.20", "openvino": ">=2025.0", "litert": ">=2.0"}
KEPT_IN_BUNDLE: Final = 2


def entry_of(
    candidate: Candidate, golden: Sequence[Golden], decision: Decision | None, profile: DeviceProfile
) -> tuple[ArtifactEntry, dict[str, bytes]]:
    """The manifest's entry and its blobs by hash."""
    refs = [file_ref(name, content) for name, content in candidate.emitted.files.items()]
    blobs = {ref.sha256: content for ref, content in zip(refs, candidate.emitted.files.values(), strict=True)}
    entry = ArtifactEntry(
        runtime=candidate.runtime,
        precision=candidate.precision,
        files=tuple(refs),
        inputs=candidate.emitted.inputs,
        outputs=candidate.emitted.outputs,
        isa=profile.isa_of(candidate.runtime, candidate.precision),
        speed="measured" if decision is not None and decision.choice.measured else "unmeasured",
        integer_share=candidate.integer_share,
        requires={candidate.runtime: LEAST_VERSION[candidate.runtime]},
        golden=tuple(
            GoldenError(
                g.name, {n: float(f"{e:.4g}") for n, e in candidate.errors[g.name].items()}, limits(candidate, g.name)
            )
            for g in golden
            if g.is_kept and g.name in candidate.errors
        ),
        notes=(decision.choice.why,) if decision is not None and candidate is decision.ships[0] else (),
    )
    return entry, blobs


def golden_of(golden: Sequence[Golden]) -> tuple[tuple[GoldenSample, ...], dict[str, bytes]]:
    """The kept golden samples and their blobs by hash."""
    samples: list[GoldenSample] = []
    blobs: dict[str, bytes] = {}
    for sample in golden:
        if not sample.is_kept:
            continue
        inputs, outputs = pack_arrays(sample.inputs), pack_arrays(sample.outputs)
        refs = file_ref("inputs.npz", inputs), file_ref("outputs.npz", outputs)
        samples.append(GoldenSample(sample.name, *refs))
        blobs |= {refs[0].sha256: inputs, refs[1].sha256: outputs}
    return tuple(samples), blobs


def bounded(name: str, histogram: observers.Histogram) -> Histogram | None:
    """A streaming histogram in at most HISTOGRAM_BINS_LIMIT bins; None for a tensor that never moved."""
    counts, edges = histogram.counts, histogram.edges()
    if len(counts) < 2:
        return None
    group = -(-len(counts) // HISTOGRAM_BINS_LIMIT)
    padded = np.pad(counts, (0, -len(counts) % group)).reshape(-1, group).sum(axis=1)
    width = float(edges[1] - edges[0]) * group
    return Histogram(name, float(edges[0]), float(edges[0]) + width * len(padded), tuple(int(c) for c in padded))


def requires() -> dict[str, str]:
    """What an agent must be to read this."""
    major, minor = edgekit.__version__.split(".")[:2]
    return {"edgekit": f">={major}.{minor}"}


def write_all(
    output: Path,
    report: Path,
    reference: Path,
    bundle: tuple[Manifest, Mapping[str, bytes]],
    floats: tuple[Manifest, Mapping[str, bytes]] | None,
    float_model: bytes | None,
    texts: Mapping[str, bytes],
) -> None:
    """Written beside its place first, then one rename for each, the bundle last: where the bundle is, all of it is.

    `floats` and `float_model` make the reference folder. Raises `EnvironmentFault`; then nothing of it is left.
    """
    try:
        stage = Path(tempfile.mkdtemp(prefix=f".{output.name}.", dir=output.parent))
        try:
            _write_folder(stage / "report", texts)
            if floats is not None and float_model is not None:
                _write_folder(stage / "reference", {"model.onnx": float_model})
                write_bundle(stage / "reference" / REFERENCE_BUNDLE, *floats)
            write_bundle(stage / "bundle", *bundle)
            _swap(stage / "report", report)
            _swap(stage / "reference", reference)
            (stage / "bundle").replace(output)
        finally:
            shutil.rmtree(stage, ignore_errors=True)
    except OSError as error:
        raise EnvironmentFault(
            str(output), f"cannot be written: {error.strerror or error}", "check rights and the disk"
        ) from error
    except EnvironmentFault as error:  # which names a file in the stage, a name that the user never gave
        raise EnvironmentFault(str(output), error.why, error.remedy) from error


def _write_folder(path: Path, files: Mapping[str, bytes]) -> None:
    path.mkdir()
    for name, content in files.items():
        write_atomic(path / name, [content])


def _swap(made: Path, path: Path) -> None:
    """`made` in the place of `path`; what was there goes with the stage. Nothing made: nothing stays there."""
    if path.exists():
        path.rename(made.with_name(f"{made.name}.old"))
    if made.exists():
        made.rename(path)


def refusals_json(refusals: Sequence[Refusal]) -> list[dict[str, str]]:
    """For the report."""
    return [asdict(r) for r in refusals]


def sha256(content: bytes) -> str:
    """Hexadecimal."""
    return hashlib.sha256(content).hexdigest()


def as_json(value: object) -> bytes:
    """Indented, sorted, one newline at the end."""
    return (json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False, allow_nan=False) + "\n").encode()
