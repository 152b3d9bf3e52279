"""Ties a model's ports to the tensors of a file: checks, axes, dtypes, batches. Knows no engine.

`PortSession` is the `Session` of every engine: an adapter gives it the file's tensors and a function that takes arrays
in file order and returns fresh arrays in file order. The rule a newcomer would break: what the engine returns must
stay valid after its next call, so an adapter copies where its engine reuses memory.

A call whose arrays look like the last accepted ones (class, dtype, shape) goes straight to the engine; everything else
takes the careful way, which finds and names what is wrong.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from edgekit.core.artifact import Dim, LoadableArtifact, Port
from edgekit.core.errors import BadInput, Unsupported, UsageError
from edgekit.runtimes.runtime import Arrays

Array = NDArray[np.generic]
Engine = Callable[[list[Array]], Sequence[Array]]
"""Arrays in file order to fresh arrays in file order; raises `EngineFault` where the engine fails."""

CASTS: Final = frozenset(  # model's dtype, file's dtype: what a session converts; anything else is a damaged artifact
    {
        ("float16", "float32"),
        ("float64", "float32"),
        ("int64", "int32"),
        ("uint64", "int64"),
        ("uint64", "int32"),
        ("uint32", "int64"),
        ("uint32", "int32"),
        ("int16", "int32"),
        ("uint16", "int32"),
        ("int8", "int32"),
        ("uint8", "int32"),
        ("bool", "uint8"),
    }
)


class EngineFault(Exception):
    """An engine failed while it ran; the adapter's word for its library's exceptions."""


@dataclass(frozen=True, slots=True)
class FileTensor:
    """One input or output as the file has it. `shape` is None where even the rank is free, a dimension where it is."""

    dtype: np.dtype[np.generic]
    shape: tuple[int | None, ...] | None


@dataclass(frozen=True, slots=True)
class _Input:
    port: Port
    dtype: np.dtype[np.generic]
    shape: tuple[Dim, ...]  # what a call must have: the port's, with what the file fixes
    splits: bool  # the model's batch is free, the file's is 1
    is_fed: bool  # False: nothing reads it and the file has dropped it
    file_dtype: np.dtype[np.generic] | None  # None: as the port

    def to_file(self, array: Array, label: str) -> Array:
        """The array in the file's axes and dtype."""
        if self.file_dtype is not None:
            array = _narrowed(array, self.file_dtype, self.port.name, label)
        return array if self.port.axes is None else np.ascontiguousarray(array.transpose(self.port.axes))

    def zeros(self) -> Array:
        """What an unused input holds when it is left out."""
        return np.zeros([dim if isinstance(dim, int) else 1 for dim in self.shape], self.dtype)


@dataclass(frozen=True, slots=True)
class _Output:
    name: str
    dtype: np.dtype[np.generic] | None  # None: as the file
    axes: tuple[int, ...] | None  # model shape[i] = file_shape[axes[i]]
    is_batched: bool

    def from_file(self, array: Array) -> Array:
        """The array in the model's axes and dtype."""
        if self.axes is not None:
            array = np.ascontiguousarray(array.transpose(self.axes))
        return array if self.dtype is None else array.astype(self.dtype)


class PortSession:
    """A `Session` over an engine's function. Not thread-safe."""

    def __init__(
        self,
        artifact: LoadableArtifact,
        engine: Engine,
        inputs: Sequence[FileTensor],
        outputs: Sequence[FileTensor],
    ) -> None:
        """`inputs` and `outputs` are in file order. Raises `BadInput` where they do not fit the artifact's ports."""
        self.inputs, self.outputs = artifact.inputs, artifact.outputs
        self._label = artifact.label
        self._engine = engine
        self._wants = _bound_inputs(artifact, inputs)
        self._gives = _bound_outputs(artifact, outputs)
        self._names = tuple(port.name for port in artifact.outputs)
        self._by_name = {want.port.name: want for want in self._wants}
        self._converts_outputs = any(give.dtype is not None or give.axes is not None for give in self._gives)
        self._accepted: tuple[tuple[str, np.dtype[np.generic], tuple[int, ...], _Input | None], ...] | None = None

    def __call__(self, inputs: Mapping[str, Array]) -> Arrays:
        """See `Session.__call__`."""
        accepted = self._accepted
        if accepted is None or len(inputs) != len(accepted):
            return self._carefully(inputs)
        feeds: list[Array] = []
        for name, dtype, shape, conversion in accepted:
            array = inputs.get(name)
            if array.__class__ is not np.ndarray or array.shape != shape or array.dtype != dtype:
                return self._carefully(inputs)
            feeds.append(array if conversion is None else conversion.to_file(array, self._label))
        return self._run(feeds)

    def _run(self, feeds: list[Array]) -> Arrays:
        try:
            results = self._engine(feeds)
        except EngineFault as fault:
            raise BadInput(
                f"{self._label} failed on these inputs", str(fault), "check that the sizes and values suit the model"
            ) from fault
        if self._converts_outputs:
            return {give.name: give.from_file(result) for give, result in zip(self._gives, results, strict=True)}
        return dict(zip(self._names, results, strict=True))

    def _carefully(self, inputs: Mapping[str, Array]) -> Arrays:
        """Every check in words, then the run; remembers what it accepted."""
        arrays = self._checked(inputs)
        batch = self._batch_to_split(arrays)
        if batch is not None:
            return self._one_by_one(arrays, batch)
        fed = [want for want in self._wants if want.is_fed]
        feeds = [want.to_file(arrays[want.port.name], self._label) for want in fed]
        is_fast = len(inputs) == len(fed) == len(self._wants)
        self._accepted = (
            tuple(
                (
                    want.port.name,
                    want.dtype,
                    arrays[want.port.name].shape,
                    None if want.file_dtype is None and want.port.axes is None else want,
                )
                for want in fed
            )
            if is_fast
            else None
        )
        return self._run(feeds)

    def _checked(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        known = ", ".join(f"'{name}'" for name in self._by_name) or "none"
        for name in inputs:
            if name not in self._by_name:
                raise BadInput(f"{self._label} has no input '{name}'", f"its inputs are {known}", "use these names")
        arrays: dict[str, Array] = {}
        sizes: dict[str, tuple[int, str]] = {}  # free dimension -> its size and the input that set it
        for want in self._wants:
            if want.port.name not in inputs:
                if not want.port.unused:
                    raise BadInput(
                        f"{self._label} misses input '{want.port.name}'",
                        "nothing was given under this name",
                        _wish(want),
                    )
                arrays[want.port.name] = want.zeros()
                continue
            array = inputs[want.port.name]
            if not isinstance(array, np.ndarray | np.generic):
                raise BadInput(
                    _subject(self._label, want), f"it is no numpy array but {type(array).__name__}", _wish(want)
                )
            arrays[want.port.name] = np.asarray(array)
            _check_array(self._label, want, arrays[want.port.name], sizes)
        return arrays

    def _batch_to_split(self, arrays: Mapping[str, Array]) -> int | None:
        """The batch where it must run sample by sample; the shared name has made sure that all inputs agree."""
        batches = {len(arrays[want.port.name]) for want in self._wants if want.splits}
        if not batches or batches == {1}:
            return None
        if len(batches) > 1:
            raise BadInput(
                f"{self._label} got batches of {sorted(batches)}", "its file runs one sample", "give equal batches"
            )
        return batches.pop()

    def _one_by_one(self, arrays: Mapping[str, Array], batch: int) -> Arrays:
        runs: list[Arrays] = []
        for index in range(batch):
            feeds = [
                want.to_file(
                    arrays[want.port.name][index : index + 1] if want.splits else arrays[want.port.name], self._label
                )
                for want in self._wants
                if want.is_fed
            ]
            runs.append(self._run(feeds))
        return {
            give.name: np.concatenate([run[give.name] for run in runs]) if give.is_batched else runs[0][give.name]
            for give in self._gives
        }


def _bound_inputs(artifact: LoadableArtifact, tensors: Sequence[FileTensor]) -> tuple[_Input, ...]:
    """A file has all ports, or all that are read: both happen, since some converters drop an unused input."""
    has_all = len(tensors) == len(artifact.inputs)
    fed = [port for port in artifact.inputs if has_all or not port.unused]
    _check_count(artifact, "input", len(fed), len(tensors))
    by_name = dict(zip((port.name for port in fed), tensors, strict=True))
    return tuple(_bound_input(artifact.label, port, by_name.get(port.name)) for port in artifact.inputs)


def _bound_input(label: str, port: Port, tensor: FileTensor | None) -> _Input:
    dtype = _numpy_dtype(label, port)
    if tensor is None:
        return _Input(port, dtype, port.shape, splits=False, is_fed=False, file_dtype=None)
    fixed = _fixed_by_file(label, port, tensor)
    splits = bool(port.shape) and isinstance(port.shape[0], str) and fixed[0] == 1
    shape = tuple(
        own if isinstance(own, int) or file is None or (splits and axis == 0) else file
        for axis, (own, file) in enumerate(zip(port.shape, fixed, strict=True))
    )
    return _Input(port, dtype, shape, splits, is_fed=True, file_dtype=_conversion(label, port, dtype, tensor.dtype))


def _bound_outputs(artifact: LoadableArtifact, tensors: Sequence[FileTensor]) -> tuple[_Output, ...]:
    _check_count(artifact, "output", len(artifact.outputs), len(tensors))
    gives = []
    for port, tensor in zip(artifact.outputs, tensors, strict=True):
        dtype = _numpy_dtype(artifact.label, port)
        _fixed_by_file(artifact.label, port, tensor)
        needs_cast = _conversion(artifact.label, port, dtype, tensor.dtype) is not None
        inverse = None if port.axes is None else tuple(int(axis) for axis in np.argsort(port.axes))
        is_batched = bool(port.shape) and isinstance(port.shape[0], str)
        gives.append(_Output(port.name, dtype if needs_cast else None, inverse, is_batched))
    return tuple(gives)


def _fixed_by_file(label: str, port: Port, tensor: FileTensor) -> tuple[int | None, ...]:
    """The file's sizes in the model's axes. Raises `BadInput` where port and file cannot be the same tensor."""
    rank = len(port.shape)
    if tensor.shape is None:
        return (None,) * rank
    axes = port.axes if port.axes is not None else tuple(range(rank))
    if len(tensor.shape) != rank or sorted(axes) != list(range(rank)):
        raise _mismatch(label, port, f"the file holds it with shape {_words(tensor.shape)}")
    sizes: list[int | None] = [None] * rank
    for position, axis in enumerate(axes):
        sizes[axis] = tensor.shape[position]
    for own, file in zip(port.shape, sizes, strict=True):
        if isinstance(own, int) and file is not None and own != file:
            raise _mismatch(label, port, f"the file holds it with shape {_words(tensor.shape)}")
    return tuple(sizes)


def _conversion(
    label: str, port: Port, own: np.dtype[np.generic], file: np.dtype[np.generic]
) -> np.dtype[np.generic] | None:
    if own == file:
        return None
    if (own.name, file.name) not in CASTS:
        raise _mismatch(label, port, f"the file holds it as {file.name}")
    return file


def _numpy_dtype(label: str, port: Port) -> np.dtype[np.generic]:
    try:
        return np.dtype(port.dtype)
    except TypeError as error:
        raise Unsupported(
            f"{label}: '{port.name}' is {port.dtype}", "numpy has no such type", "cast it in the model"
        ) from error


def _narrowed(array: Array, dtype: np.dtype[np.generic], name: str, label: str) -> Array:
    """`array` as `dtype`; an integer that does not fit is refused, never wrapped."""
    if dtype.kind == "i" and array.dtype.kind in "iu" and array.size and array.dtype.itemsize >= dtype.itemsize:
        limits = np.iinfo(np.dtype(dtype.name))
        lowest, highest = int(array.min()), int(array.max())
        if lowest < limits.min or highest > limits.max:
            raise BadInput(
                f"{label}: input '{name}' holds {lowest if lowest < limits.min else highest}",
                f"this runtime's file keeps it as {dtype.name}",
                "use a runtime that computes in 64 bits (onnxruntime)",
            )
    return array.astype(dtype)


def _check_array(label: str, want: _Input, array: Array, sizes: dict[str, tuple[int, str]]) -> None:
    if array.dtype != want.dtype:
        raise BadInput(_subject(label, want), f"it is {array.dtype.name}", _wish(want))
    if array.ndim != len(want.shape):
        raise BadInput(_subject(label, want), f"it has {array.ndim} dimensions: {_words(array.shape)}", _wish(want))
    for size, dim in zip(array.shape, want.shape, strict=True):
        if isinstance(dim, int):
            if size != dim:
                raise BadInput(_subject(label, want), f"its shape is {_words(array.shape)}", _wish(want))
            continue
        if size == 0:
            raise BadInput(_subject(label, want), f"it is empty: {_words(array.shape)}", _wish(want))
        known, owner = sizes.setdefault(dim, (size, want.port.name))
        if size != known:
            why = f"its '{dim}' is {size}, and '{owner}' has {known}"
            raise BadInput(_subject(label, want), why, "give both the same size")


def _check_count(artifact: LoadableArtifact, kind: str, ports: int, tensors: int) -> None:
    if ports != tensors:
        raise BadInput(
            f"{artifact.label} is not what its manifest says",
            f"{ports} {kind}s are named and the file has {tensors}",
            "build the bundle again",
        )


def _mismatch(label: str, port: Port, why: str) -> BadInput:
    return BadInput(
        f"{label} is not what its manifest says",
        f"'{port.name}' is {port.dtype} {_words(port.shape)}, {why}",
        "build the bundle again",
    )


def _subject(label: str, want: _Input) -> str:
    return f"{label}: input '{want.port.name}' does not fit"


def _wish(want: _Input) -> str:
    return f"give {want.dtype.name} {_words(want.shape)}"


def _words(shape: Sequence[Dim | None]) -> str:
    return "[" + ", ".join("?" if dim is None else str(dim) for dim in shape) + "]"


def checked_threads(threads: int) -> int:
    """`threads` as it is. Raises `UsageError` where it is no positive integer."""
    if isinstance(threads, bool) or not isinstance(threads, int) or threads < 1:
        raise UsageError(f"{threads!r} threads", "a session needs at least one", "give a whole number from 1 up")
    return threads


def first_line(error: Exception) -> str:
    """The first line of an engine's message that says something; engines put file names and stacks around it."""
    lines = [line.strip() for line in str(error).splitlines()]
    told = [line for line in lines if line and not line.startswith(("Exception from", "Check '"))]
    return (told or [line for line in lines if line] or [type(error).__name__])[0].rstrip(".")
