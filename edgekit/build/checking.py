"""Which runtimes can take a model, each node that they cannot take, and what importing changed. Writes nothing.

The answers come from the targets themselves (`Target.refusals`), so that they are never a list kept by hand.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from edgekit.build.importing import ImportedModel, import_model, import_tflite, is_tflite
from edgekit.compile.targets import SAME_FILE, target, target_names
from edgekit.core.artifact import LoadableArtifact, Port
from edgekit.core.errors import EdgekitError, Refusal, UsageError
from edgekit.core.record import Plain, to_plain
from edgekit.core.threads import usable_cpus
from edgekit.quantize.roles import role
from edgekit.runtimes.registry import names as runtime_names
from edgekit.runtimes.registry import runtime

TFLITE_RUNTIMES: Final = ("litert", "tflite-runtime")


@dataclass(frozen=True, slots=True)
class Verdict:
    """One runtime's answer: no refusal means that it takes the model."""

    runtime: str
    refusals: tuple[Refusal, ...]

    @property
    def takes_it(self) -> bool:
        """Whether a build for it can start."""
        return not self.refusals


@dataclass(frozen=True, slots=True)
class NodeEntry:
    """A node as a recipe's `keep_float` names it. `is_quantizable`: the quantizer has a row for it that holds."""

    name: str
    op: str
    is_quantizable: bool


@dataclass(frozen=True, slots=True)
class CheckReport:
    """What `edgekit check` says. `nodes` is empty for a `.tflite` file, which ships as it is."""

    model: str
    source_sha256: str
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    operators: Mapping[str, int]
    nodes: tuple[NodeEntry, ...]
    verdicts: tuple[Verdict, ...]
    notes: tuple[str, ...]

    @property
    def is_taken(self) -> bool:
        """Whether some runtime takes the model."""
        return any(verdict.takes_it for verdict in self.verdicts)

    def to_json(self) -> dict[str, Plain]:
        """The JSON document of `edgekit check --json`."""
        return {
            "model": self.model,
            "source_sha256": self.source_sha256,
            "inputs": [_port_json(port) for port in self.inputs],
            "outputs": [_port_json(port) for port in self.outputs],
            "operators": dict(self.operators),
            "nodes": [to_plain(node) for node in self.nodes],
            "runtimes": {
                v.runtime: {"takes": v.takes_it, "refusals": [to_plain(refusal) for refusal in v.refusals]}
                for v in self.verdicts
            },
            "notes": list(self.notes),
        }


def check_model(
    path: Path | str,
    runtimes: Sequence[str] = (),
    *,
    input_shapes: Mapping[str, Sequence[int]] | None = None,
    fixed: Mapping[str, float | int] | None = None,
) -> CheckReport:
    """Import a model and ask each runtime; no runtimes: all that a build can write for.

    Raises what `import_model` raises, and `UsageError` for an unknown runtime, or a binding of a `.tflite` file.
    """
    known = tuple(name for name in runtime_names() if SAME_FILE.get(name, name) in target_names())
    for name in runtimes:
        if name not in known:
            raise UsageError(f"--runtime {name}", "no such runtime to build for", "use one of " + ", ".join(known))
    asked = tuple(runtimes) or target_names()
    if is_tflite(path):
        if input_shapes or fixed:
            raise UsageError(str(path), "a .tflite file is taken as it is: nothing can be bound", "drop the flag")
        return _check_tflite(path, asked)
    imported = import_model(path, input_shapes=input_shapes, fixed=fixed)
    verdicts = tuple(Verdict(name, _named(target(name).refusals(imported.model), name)) for name in asked)
    return _report(str(path), imported, verdicts)


def _report(label: str, imported: ImportedModel, verdicts: tuple[Verdict, ...]) -> CheckReport:
    nodes = [NodeEntry(str(n.name), n.op_type, role(n) is not None) for n in imported.model.graph]
    counts = Counter(node.op for node in nodes)
    return CheckReport(
        label,
        imported.source_sha256,
        imported.inputs,
        imported.outputs,
        dict(sorted(counts.items())),
        tuple(nodes),
        verdicts,
        imported.notes,
    )


def _check_tflite(path: Path | str, asked: Sequence[str]) -> CheckReport:
    imported = import_tflite(path)
    artifact = LoadableArtifact({"model.tflite": imported.content}, imported.inputs, imported.outputs, Path(path).name)
    verdicts = tuple(Verdict(name, _tried(name, artifact)) for name in asked)
    counts = Counter(imported.operators)
    return CheckReport(
        str(path),
        imported.source_sha256,
        imported.inputs,
        imported.outputs,
        dict(sorted(counts.items())),
        (),
        verdicts,
        imported.notes,
    )


def _tried(name: str, artifact: LoadableArtifact) -> tuple[Refusal, ...]:
    """A TFLite file's fate is seen by loading it."""
    if name not in TFLITE_RUNTIMES:
        remedy = "use --runtime litert, or give the ONNX file that it was made from"
        return (Refusal(name, "(model)", "TFLite file", "this runtime is not given TFLite files", remedy),)
    try:
        runtime(name).load(artifact, threads=usable_cpus())
    except EdgekitError as error:
        return (Refusal(name, "(model)", "TFLite file", error.why, error.remedy),)
    return ()


def _named(refusals: Sequence[Refusal], name: str) -> tuple[Refusal, ...]:
    """Under the name that was asked for: `tflite-runtime` runs the files of `litert`."""
    return tuple(Refusal(name, r.node, r.op, r.reason, r.remedy) for r in refusals)


def _port_json(port: Port) -> dict[str, Plain]:
    return {"name": port.name, "dtype": port.dtype, "shape": list(port.shape), "unused": port.unused}
