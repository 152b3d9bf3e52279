"""Artifacts that may ship: emitted, loaded and proved against the float model. Nothing is chosen here."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from edgekit.build.golden import EDGES, edge_input, relative_errors, usual_sizes
from edgekit.compile.target import Emitted, Target
from edgekit.compile.targets import target
from edgekit.core.artifact import LoadableArtifact, Port
from edgekit.core.errors import EdgekitError, Refusal, RuntimeRefuses
from edgekit.core.manifest import Precision
from edgekit.quantize.calibration import Calibration
from edgekit.quantize.quantized import QuantizedModel
from edgekit.quantize.weights import WeightSet
from edgekit.runtimes.registry import runtime
from edgekit.runtimes.runtime import Session

Array = NDArray[np.generic]
Reference = Callable[[Mapping[str, Array]], dict[str, Array]]
FLOAT_LIMIT: Final = 1e-3  # of an output's size: float kernels sum in another order, a wrong one is far off
ROOM: Final = 2.0  # how much larger a golden error may be on another machine than here
LEAST_ROOM: Final = 0.02


@dataclass(frozen=True, slots=True)
class Golden:
    """A proof input with the float model's outputs."""

    name: str
    inputs: Mapping[str, Array]
    outputs: Mapping[str, Array]
    is_kept: bool  # in the bundle, for devices; edges are made again where they are needed


@dataclass(slots=True)
class Candidate:
    """One artifact. `errors[sample][output]`; `session` is None where its engine is not on this host."""

    runtime: str
    precision: Precision
    weights: WeightSet | None
    emitted: Emitted
    session: Session | None = None
    errors: dict[str, dict[str, float]] = field(default_factory=dict)
    integer_share: float | None = None
    float_nodes: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """For messages and the recipe's order."""
        return f"{self.runtime} {self.precision}"

    @property
    def loadable(self) -> LoadableArtifact:
        """What the runtime loads."""
        return self.emitted.loadable(self.label)

    @property
    def size(self) -> int:
        """Bytes of its files."""
        return sum(map(len, self.emitted.files.values()))


def golden_samples(
    reference: Reference,
    inputs: Sequence[Port],
    kept: Mapping[str, Mapping[str, Array]],
    calibration: Calibration | None,
) -> tuple[Golden, ...]:
    """Real samples first, then generated edges in the shapes of the first real one."""
    found = [Golden(name, arrays, reference(arrays), True) for name, arrays in kept.items()]
    if not found or calibration is None:
        return tuple(found)
    shapes = {name: a.shape for name, a in found[0].inputs.items()}
    ports = [p for p in inputs if p.name in shapes]
    for name in EDGES:
        arrays = edge_input(name, ports, shapes, calibration.intervals)
        outputs = reference(arrays)
        if all(np.isfinite(a).all() for a in outputs.values() if a.dtype.kind == "f"):
            found.append(Golden(name, arrays, outputs, False))
    return tuple(found)


def emit(
    name: str,
    model: ir.Model,
    quantized: QuantizedModel | None,
    weights: WeightSet | None,
    inputs: Sequence[Port],
    outputs: Sequence[Port],
) -> Candidate:
    """One artifact under the user's own ports (a float16 model keeps float16 ports). Raises `RuntimeRefuses`."""
    chosen: Target = target(name)
    emitted = chosen.emit_float(model) if quantized is None else chosen.emit_integer(quantized)
    emitted = Emitted(emitted.files, _own(emitted.inputs, inputs), _own(emitted.outputs, outputs))
    return Candidate(name, "fp32" if quantized is None else "int8", weights, emitted)


def _own(file_ports: Sequence[Port], own: Sequence[Port]) -> tuple[Port, ...]:
    """The file's ports in its order and layout, with what the model itself says of them."""
    by_name = {p.name: p for p in own}
    return tuple(
        replace(p, dtype=by_name[p.name].dtype, shape=by_name[p.name].shape, unused=by_name[p.name].unused)
        for p in file_ports
    )


def prove(candidate: Candidate, golden: Sequence[Golden], *, threads: int) -> None:
    """Load it where its engine is here, and fill in `errors`.

    Raises `RuntimeRefuses` where the engine refuses the file, or a float artifact does not compute the model.
    """
    engine = runtime(candidate.runtime)
    if engine.version() is None:
        return
    try:
        candidate.session = engine.load(candidate.loadable, threads=threads)
        least = usual_sizes([g.outputs for g in golden if g.is_kept])
        for sample in golden:
            got = candidate.session(sample.inputs)
            candidate.errors[sample.name] = relative_errors(sample.outputs, got, None if sample.is_kept else least)
    except EdgekitError as error:
        raise RuntimeRefuses(
            [Refusal(candidate.runtime, "(model)", candidate.precision, error.why, error.remedy)]
        ) from error
    if candidate.precision == "fp32":
        for sample in golden:
            name, worst = max(candidate.errors[sample.name].items(), key=lambda e: e[1], default=("", 0.0))
            if not worst <= FLOAT_LIMIT:
                reason = f"its float result '{name}' differs from ONNX Runtime's by {worst:.2g} on '{sample.name}'"
                raise RuntimeRefuses(
                    [
                        Refusal(
                            candidate.runtime,
                            "(model)",
                            "fp32",
                            reason,
                            "use another runtime; please report this model",
                        )
                    ]
                )


def limits(candidate: Candidate, sample: str) -> dict[str, float]:
    """How far each output of a golden sample may be off on a device."""
    return {
        name: FLOAT_LIMIT if candidate.precision == "fp32" else float(f"{ROOM * min(error, 1.0) + LEAST_ROOM:.4g}")
        for name, error in candidate.errors[sample].items()
    }
