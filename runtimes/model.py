"""`edgekit.load`: from a bundle to a model that runs here, proved on this machine before its first answer.

Artifacts are tried in the bundle's order. The first one whose engine is here, that loads, and whose golden samples come
out within their limits is taken; what was passed over is said by name. Where the bundle says `unmeasured`, the
candidates are timed once and the order is remembered in the state folder.
"""

import hashlib
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from edgekit.core.artifact import LoadableArtifact
from edgekit.core.bundle import Bundle
from edgekit.core.errors import BadInput, EdgekitError, EnvironmentFault, RuntimeRefuses, Unsupported, UsageError
from edgekit.core.files import write_atomic
from edgekit.core.geometry import Geometry
from edgekit.core.manifest import ArtifactEntry, Manifest
from edgekit.core.metrics import nrmse
from edgekit.core.postprocess import Result
from edgekit.core.preprocess import ImageLike, Preprocess
from edgekit.core.state import state_folder
from edgekit.core.tensors import read_arrays, unpack_arrays
from edgekit.core.threads import usable_cpus
from edgekit.runtimes.compiled_cache import cpu_features
from edgekit.runtimes.registry import installed
from edgekit.runtimes.registry import runtime as find_runtime
from edgekit.runtimes.runtime import Arrays, Session

Array = NDArray[np.generic]
_TIMED_CALLS: Final = 15


@dataclass(frozen=True, slots=True)
class PassedOver:
    """An artifact that was not taken, and why."""

    label: str
    why: str


class Model:
    """A loaded bundle. `entry` is the artifact that runs, `passed_over` those that did not."""

    def __init__(
        self, manifest: Manifest, entry: ArtifactEntry, session: Session, passed_over: tuple[PassedOver, ...]
    ) -> None:
        self.manifest, self.entry, self.passed_over = manifest, entry, passed_over
        self._session = session

    def session(self) -> Session:
        """Arrays in, arrays out, by the model's own names."""
        return self._session

    def run(self, source: ImageLike | Mapping[str, Array]) -> Result:
        """A picture (path, encoded bytes, uint8 [H, W, 3] RGB), an .npy or .npz path, or arrays by input name.

        Gives what the bundle's task makes of the outputs. Raises `BadInput` for what the model cannot take.
        """
        return self.infer(source)[1]

    def outputs(self, source: ImageLike | Mapping[str, Array]) -> Arrays:
        """As `run`, without the task: the outputs by name."""
        inputs, _ = self._inputs(source)
        return self._session(inputs)

    def infer(self, source: ImageLike | Mapping[str, Array]) -> tuple[Arrays, Result]:
        """The outputs by name and what the task makes of them, in one run."""
        inputs, geometry = self._inputs(source)
        outputs = self._session(inputs)
        return outputs, self.manifest.postprocess(outputs, geometry)

    def _inputs(self, source: ImageLike | Mapping[str, Array]) -> tuple[Mapping[str, Array], Geometry | None]:
        if isinstance(source, Mapping):
            return source, None
        if isinstance(source, str | Path) and Path(source).suffix in (".npy", ".npz"):
            return self.arrays(Path(source)), None
        name, preprocess = self._image_input()
        tensor, geometry = preprocess.prepare(source)
        return {name: tensor}, geometry

    def arrays(self, path: Path) -> dict[str, Array]:
        """The inputs in an .npz by name, or in an .npy for a model of one input."""
        return read_arrays(path, where=str(path), only=self.manifest.inputs[0].name)

    def _image_input(self) -> tuple[str, Preprocess]:
        found = self.manifest.image_input()
        if found is None:
            raise BadInput(
                f"model {self.manifest.model}",
                "the bundle does not say how a picture becomes its input",
                "give arrays, or build with --preprocess",
            )
        return found


def load(
    bundle: str | Path,
    runtime: str | None = None,
    threads: int | None = None,
    *,
    precision: str | None = None,
    state: Path | None = None,
) -> Model:
    """The bundle's first artifact that runs and is right here. `runtime` and `precision` narrow the choice.

    `state`: folder for compiled forms and remembered proofs (None: `state_folder()`). Raises `Unsupported` where none
    is left, naming each and why; `RuntimeRefuses` where the build says that `runtime` cannot take the model.
    """
    folder = state or state_folder()
    with Bundle.open(Path(bundle)) as opened:
        manifest = opened.manifest
        wanted = _wanted(manifest, runtime, precision)
        memory = _Memory(folder / "proofs", manifest)
        count = threads or usable_cpus()
        proved: list[tuple[ArtifactEntry, Session]] = []
        passed: list[PassedOver] = []
        timed = any(e.speed == "unmeasured" for e in wanted) and len(wanted) > 1
        order = memory.order([e.label for e in wanted], count) if timed else None
        if order is not None:
            wanted = sorted(wanted, key=lambda e: order.index(e.label) if e.label in order else len(order))
        for entry in wanted:
            try:
                session = _proved(opened, entry, count, folder, memory)
            except (EnvironmentFault, Unsupported, BadInput) as error:
                if runtime is not None and isinstance(error, EnvironmentFault):
                    raise
                passed.append(PassedOver(entry.label, error.why))
                continue
            proved.append((entry, session))
            if not timed or order is not None:
                break
        if not proved:
            raise _none_left(manifest, passed)
        if len(proved) > 1:
            proved = _fastest_first(opened, proved)
            memory.remember_order([e.label for e, _ in proved], [e.label for e in wanted], count)
        entry, session = proved[0]
        return Model(manifest, entry, session, tuple(passed))


def _wanted(manifest: Manifest, runtime: str | None, precision: str | None) -> list[ArtifactEntry]:
    versions = {each.name: str(each.version()) for each in installed()}
    if runtime is not None:
        find_runtime(runtime)  # a name that does not exist is a usage error
        file_of = {"tflite-runtime": "litert"}.get(runtime, runtime)
        mine = [e for e in manifest.artifacts if e.runtime in (runtime, file_of)]
        if not mine and (refused := [r for r in manifest.refusals if r.runtime in (runtime, file_of)]):
            raise RuntimeRefuses(refused)
        if runtime != file_of:
            mine = [_for_runtime(e, runtime) for e in mine]
    else:
        mine = list(manifest.artifacts)
        if "tflite-runtime" in versions and "litert" not in versions:
            mine = [_for_runtime(e, "tflite-runtime") if e.runtime == "litert" else e for e in mine]
    if precision is not None:
        mine = [e for e in mine if e.precision == precision]
    if not mine:
        held = ", ".join(e.label for e in manifest.artifacts) or "none"
        raise Unsupported(
            f"model {manifest.model}",
            f"no artifact for {' '.join(filter(None, (runtime, precision)))}; the bundle holds {held}",
            "choose one of these, or build for it",
        )
    here = [e for e in mine if e.runtime in versions]
    return here or mine


def _for_runtime(entry: ArtifactEntry, runtime: str) -> ArtifactEntry:
    """The same files, run by another engine."""
    from dataclasses import replace

    return replace(entry, runtime=runtime, requires={})


def _proved(bundle: Bundle, entry: ArtifactEntry, threads: int, folder: Path, memory: "_Memory") -> Session:
    """A session whose golden samples came out right here. Raises `Unsupported` by name where they do not."""
    engine = find_runtime(entry.runtime)
    version = engine.version()
    if version is None:
        raise EnvironmentFault(
            f"runtime {entry.runtime}",
            "it is not installed",
            f"pip install 'edgekit-sdk[{entry.runtime.split('-')[0]}]'",
        )
    if why := bundle.manifest.loadable_here(entry, {entry.runtime: version}):
        raise Unsupported(f"artifact {entry.label}", why, "install that version, or another runtime")
    artifact = LoadableArtifact(bundle.artifact_files(entry), entry.inputs, entry.outputs, entry.label)
    session = engine.load(artifact, threads=threads, cache=folder / "compiled")
    if memory.is_proved(entry, version):
        return session
    for golden in entry.golden:
        sample = next(s for s in bundle.manifest.golden if s.name == golden.sample)
        inputs = unpack_arrays(bundle.read(sample.inputs), where=f"golden sample '{sample.name}'")
        want = unpack_arrays(bundle.read(golden.expected or sample.outputs), where=f"golden sample '{sample.name}'")
        got = session(inputs)
        for name, limit in golden.limit.items():
            error = nrmse(got[name], want[name])
            if not error <= limit:
                raise Unsupported(
                    f"artifact {entry.label}",
                    f"golden sample '{sample.name}' is wrong on this CPU: '{name}' off by {error:.3g} of {limit:.3g}",
                    "build for this device's profile: 8-bit weights saturate on x86 CPUs without VNNI",
                )
    memory.remember_proof(entry, version)
    return session


def _fastest_first(
    bundle: Bundle, proved: Sequence[tuple[ArtifactEntry, Session]]
) -> list[tuple[ArtifactEntry, Session]]:
    """Timed in turn on the first golden sample; the median decides."""
    if not bundle.manifest.golden:
        return list(proved)
    sample = bundle.manifest.golden[0]
    inputs = unpack_arrays(bundle.read(sample.inputs), where=f"golden sample '{sample.name}'")
    times: list[list[float]] = [[] for _ in proved]
    for _ in range(_TIMED_CALLS):
        for row, (_, session) in zip(times, proved, strict=True):
            start = time.perf_counter()
            session(inputs)
            row.append(time.perf_counter() - start)
    ranked = sorted(range(len(proved)), key=lambda i: float(np.median(times[i])))
    return [proved[i] for i in ranked]


class _Memory:
    """What was proved and timed here before, for this CPU. Losing it costs time, never an answer."""

    def __init__(self, folder: Path, manifest: Manifest) -> None:
        self._folder = folder
        self._bundle = hashlib.sha256(manifest.to_json()).hexdigest()

    def _path(self, *parts: str) -> Path:
        key = hashlib.sha256("\0".join((self._bundle, cpu_features(), *parts)).encode()).hexdigest()
        return self._folder / f"{key}.json"

    def is_proved(self, entry: ArtifactEntry, version: str) -> bool:
        return self._path(entry.label, version).is_file()

    def remember_proof(self, entry: ArtifactEntry, version: str) -> None:
        self._write(self._path(entry.label, version), [entry.label])

    def order(self, labels: list[str], threads: int) -> list[str] | None:
        try:
            kept = json.loads(self._path("order", str(threads), *labels).read_text())
        except (OSError, ValueError):
            return None
        return [str(label) for label in kept] if isinstance(kept, list) and set(kept) <= set(labels) else None

    def remember_order(self, ranked: list[str], labels: list[str], threads: int) -> None:
        self._write(self._path("order", str(threads), *labels), ranked)

    @staticmethod
    def _write(path: Path, content: list[str]) -> None:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_atomic(path, [json.dumps(content).encode()])
        except (OSError, EdgekitError):
            return  # a read-only or full disk: proved again at the next start


def _none_left(manifest: Manifest, passed: Sequence[PassedOver]) -> EdgekitError:
    each = "; ".join(f"{p.label}: {p.why}" for p in passed)
    if passed and all("not installed" in p.why for p in passed):
        return EnvironmentFault(f"model {manifest.model}", each, "install one of these runtimes")
    if not passed:
        return UsageError(f"model {manifest.model}", "the bundle holds no artifact", "build it again")
    return Unsupported(
        f"model {manifest.model}", f"no artifact is right here: {each}", "build it for this device's profile"
    )
