"""What a bundle is: one JSON file that names the model, how to feed it, its artifacts and how each was proved.

Reading rules. `format` and `requires` are looked at first: what a newer edgekit wrote and this one must not guess is
refused by name (`Unsupported`). Within a format, unknown fields are ignored, but for those of `preprocess` and
`postprocess`: an unknown one there would change what the model sees. No clock reading enters a manifest: equal inputs
give equal bytes.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, cast

from edgekit.core.artifact import Port
from edgekit.core.errors import BadInput, Refusal, Unsupported
from edgekit.core.postprocess import Postprocess, Raw, postprocess_from_plain
from edgekit.core.preprocess import Preprocess
from edgekit.core.record import Plain, UnknownWord, from_plain, parse_json, to_json
from edgekit.core.version import demand, parse_requirement, satisfies

FORMAT: Final = 1
MANIFEST_LIMIT: Final = 16 * 1024 * 1024
HISTOGRAM_BINS_LIMIT: Final = 256

Precision = Literal["int8", "fp16", "fp32"]
ANY_CPU: Final = "any"  # right on every CPU
VNNI: Final = "vnni"  # full 8-bit weights: wrong where products saturate in 16 bits (x86 without VNNI)
SATURATION_SAFE: Final = "saturation-safe"  # weights that cannot saturate: right on every CPU

_SHA256: Final = re.compile(r"[0-9a-f]{64}\Z")
_FILE_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}\Z")


@dataclass(frozen=True, slots=True)
class FileRef:
    """A file of the bundle: the name its runtime wants, its content's hash and its size in bytes."""

    name: str
    sha256: str
    size: int

    def __post_init__(self) -> None:
        if not _SHA256.match(self.sha256):
            raise BadInput(f"file '{self.name}'", f"'{self.sha256[:80]}' is no SHA-256", "write 64 hex digits")
        if not _FILE_NAME.match(self.name):
            raise BadInput(f"file {self.name[:80]!r}", "not a plain file name", "use letters, digits, dot, dash")
        if self.size < 0:
            raise BadInput(f"file '{self.name}'", f"size {self.size}", "give its size in bytes")


@dataclass(frozen=True, slots=True)
class GoldenSample:
    """One proof input and what the float model gives for it, each an `.npz` (see `tensors.py`) keyed by port names.

    `name` is for people: "calibration-0", "zeros", "full-range", "largest-shape".
    """

    name: str
    inputs: FileRef
    outputs: FileRef


@dataclass(frozen=True, slots=True)
class GoldenError:
    """How far one artifact was from a golden sample on the machine that built it, and how far it may be.

    Errors are `metrics.nrmse` per output. A device whose own error is above `limit` refuses the artifact. `expected`:
    the artifact's own exact outputs where they, not the float model's, are what a device must reproduce.
    """

    sample: str
    nrmse: Mapping[str, float]
    limit: Mapping[str, float]
    expected: FileRef | None = None


@dataclass(frozen=True, slots=True)
class ArtifactEntry:
    """The files of one runtime and precision. Entries of a manifest stand in order of preference.

    `isa` says on which CPUs its numbers are right: `ANY_CPU`, `VNNI` or `SATURATION_SAFE`. `requires` holds the runtime
    versions it needs by name (">=1.20"). `integer_share`: share of multiply-accumulates done in integers, read from the
    runtime; None: not read. `notes` are sentences for people, such as why float was preferred.
    """

    runtime: str
    precision: Precision
    files: tuple[FileRef, ...]
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    isa: str = ANY_CPU
    speed: Literal["measured", "unmeasured"] = "unmeasured"
    integer_share: float | None = None
    requires: Mapping[str, str] = field(default_factory=dict)
    golden: tuple[GoldenError, ...] = ()
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        names = [file.name for file in self.files]
        if not names or len(set(names)) != len(names):
            raise BadInput(f"artifact {self.label}", "needs files with distinct names", "list each file once")
        if self.integer_share is not None and not 0 <= self.integer_share <= 1:
            raise BadInput(f"artifact {self.label}", f"integer share {self.integer_share}", "give a share from 0 to 1")
        for requirement in self.requires.values():
            parse_requirement(requirement)

    @property
    def label(self) -> str:
        """For messages: "litert int8", "onnxruntime int8 (saturation-safe)"."""
        return f"{self.runtime} {self.precision}" + (f" ({self.isa})" if self.isa != ANY_CPU else "")

    @property
    def size(self) -> int:
        """Bytes of all its files."""
        return sum(file.size for file in self.files)


@dataclass(frozen=True, slots=True)
class Histogram:
    """How often values of a tensor fell into equal bins from `low` to `high`; at most 256 bins."""

    tensor: str
    low: float
    high: float
    counts: tuple[int, ...]

    def __post_init__(self) -> None:
        if not 1 <= len(self.counts) <= HISTOGRAM_BINS_LIMIT or min(self.counts) < 0 or not self.low < self.high:
            why = f"{len(self.counts)} bins from {self.low} to {self.high}"
            raise BadInput(f"histogram of '{self.tensor}'", why, f"give 1 to {HISTOGRAM_BINS_LIMIT} counts, low < high")


@dataclass(frozen=True, slots=True)
class Calibration:
    """What the integers were decided on."""

    samples: int
    observer: str
    granularity: str


@dataclass(frozen=True, slots=True)
class Provenance:
    """What the bundle was made from: hashes of source model and recipe, versions of edgekit and its tools."""

    source_sha256: str
    recipe_sha256: str | None = None
    edgekit: str = ""
    tools: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Manifest:
    """The whole of it. `preprocess` holds one entry per input that takes pictures, by the input's name.

    `requires` holds what the agent itself must be ({"edgekit": ">=0.1"}). `refusals` are the runtimes that were asked
    and cannot take the model. `histograms` are of inputs and outputs over the calibration set, for drift.
    """

    model: str
    version: str
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    artifacts: tuple[ArtifactEntry, ...]
    profile: str = ""
    preprocess: Mapping[str, Preprocess] = field(default_factory=dict)
    postprocess: Postprocess = field(default_factory=Raw)
    golden: tuple[GoldenSample, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    histograms: tuple[Histogram, ...] = ()
    calibration: Calibration | None = None
    provenance: Provenance | None = None
    notes: tuple[str, ...] = ()
    requires: Mapping[str, str] = field(default_factory=lambda: {"edgekit": ">=0.1"})
    format: int = FORMAT

    def __post_init__(self) -> None:
        for requirement in self.requires.values():
            parse_requirement(requirement)
        _distinct("input", [port.name for port in self.inputs])
        _distinct("output", [port.name for port in self.outputs])
        _distinct("golden sample", [sample.name for sample in self.golden])
        unknown = set(self.preprocess) - {port.name for port in self.inputs}
        if unknown:
            raise BadInput("manifest", f"preprocess for '{min(unknown)}', which is no input", "name an input")
        samples = {sample.name for sample in self.golden}
        for entry in self.artifacts:
            for error in entry.golden:
                if error.sample not in samples:
                    raise BadInput(f"artifact {entry.label}", f"no golden sample '{error.sample}'", "add the sample")

    def image_input(self) -> tuple[str, Preprocess] | None:
        """The input that takes a picture, where there is exactly one."""
        return next(iter(self.preprocess.items())) if len(self.preprocess) == 1 else None

    def blobs(self) -> Iterator[FileRef]:
        """Every file that the bundle must hold, in the order of the manifest; one content may come twice."""
        for entry in self.artifacts:
            yield from entry.files
            yield from (error.expected for error in entry.golden if error.expected is not None)
        for sample in self.golden:
            yield sample.inputs
            yield sample.outputs

    def to_json(self) -> bytes:
        """Canonical JSON; equal manifests give equal bytes. Raises `BadInput` for NaN."""
        return to_json(self)

    @classmethod
    def from_json(cls, raw: bytes, *, where: str = "manifest", edgekit: str | None = None) -> "Manifest":
        """The manifest in `raw`, as far as the edgekit of that version (None: this one) may read it.

        Raises `Unsupported` for another format or a version asked for that is not here, `BadInput` for anything
        damaged.
        """
        plain = parse_json(raw, where=where, limit=MANIFEST_LIMIT)
        if not isinstance(plain, dict):
            raise BadInput(where, "not a manifest: no JSON object", "give a bundle made by 'edgekit build'")
        _check_readable(plain, where, edgekit or _this_edgekit())
        try:
            manifest = from_plain(cls, plain, where=where, unknown="ignore")
            _check_decisions(plain, where)
        except UnknownWord as error:
            raise Unsupported(error.what, error.why, "install a newer edgekit") from error
        return manifest

    def loadable_here(self, entry: ArtifactEntry, versions: Mapping[str, str]) -> str | None:
        """Why an artifact cannot be loaded with these runtime versions (name -> version), or None where it can."""
        if entry.runtime not in versions:
            return f"{entry.runtime} is not installed"
        for name, requirement in entry.requires.items():
            if name not in versions or not satisfies(versions[name], requirement):
                return f"needs {name} {requirement}, here is {versions.get(name, 'none')}"
        return None


def _this_edgekit() -> str:
    from edgekit import __version__

    return __version__


def _check_readable(plain: Mapping[str, Plain], where: str, edgekit: str) -> None:
    written = plain.get("format")
    if type(written) is not int or written < 1:
        raise BadInput(where, f"format {written!r} is no format number", "give a bundle made by 'edgekit build'")
    if written != FORMAT:
        why = f"format {written}; edgekit {edgekit} reads format {FORMAT}"
        raise Unsupported(where, why, "install a newer edgekit")
    requires = plain.get("requires")
    if not isinstance(requires, dict) or not all(isinstance(value, str) for value in requires.values()):
        raise BadInput(where, "'requires' is not a table of versions", "give a bundle made by 'edgekit build'")
    for name, requirement in requires.items():
        if name != "edgekit":
            why = f"requires '{name}', which edgekit {edgekit} does not know"
            raise Unsupported(where, why, "install a newer edgekit")
        demand(where, "edgekit", edgekit, cast(str, requirement))


def _check_decisions(plain: Mapping[str, Plain], where: str) -> None:
    """Once more, strictly: unknown fields in what decides the model's input and meaning must not be skipped."""
    for name, content in cast(dict[str, Plain], plain.get("preprocess", {})).items():
        Preprocess.from_plain(content, where=f"{where}.preprocess.{name}")
    if "postprocess" in plain:
        postprocess_from_plain(plain["postprocess"], where=f"{where}.postprocess")


def _distinct(what: str, names: list[str]) -> None:
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise BadInput("manifest", f"two {what}s are named '{twice}'", "give each its own name")
