"""The report beside a bundle: what was measured, for people and for scripts."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict

from edgekit.build.accuracy import Accuracy
from edgekit.build.assemble import as_json, refusals_json
from edgekit.build.candidates import Candidate, Golden
from edgekit.build.decide import Decision, Pair
from edgekit.core.manifest import Manifest
from edgekit.core.profile import DeviceProfile


def report_files(
    manifest: Manifest,
    decisions: Sequence[Decision],
    golden: Sequence[Golden],
    pairs: Sequence[Pair],
    profile: DeviceProfile,
    accuracy: Mapping[str, Accuracy],
) -> dict[str, bytes]:
    """File name -> content."""
    measurements = {
        "profile": profile.name,
        "runtimes": {
            d.runtime: {
                "ships": [c.label for c in d.ships],
                "why": d.choice.why,
                "ratio": None if d.ratio is None else asdict(d.ratio),
            }
            for d in decisions
        },
        "candidates": {c.label: _candidate(c) for p in pairs for c in (p.fp32, p.int8) if c is not None},
        "accuracy": {name: asdict(each) for name, each in accuracy.items()},
        "refusals": refusals_json(manifest.refusals),
        "remarks": list(manifest.notes),
        "golden": [g.name for g in golden],
    }
    return {"measurements.json": as_json(measurements)}


def _candidate(candidate: Candidate) -> dict[str, object]:
    return {
        "size": candidate.size,
        "weights": candidate.weights,
        "integer_share": candidate.integer_share,
        "float_nodes": list(candidate.float_nodes),
        "errors": {
            s: {n: e if e == e and e != float("inf") else None for n, e in errors.items()}
            for s, errors in candidate.errors.items()
        },
    }
