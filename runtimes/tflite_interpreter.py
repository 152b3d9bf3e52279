"""TFLite files through an `Interpreter` class: what LiteRT and the legacy tflite-runtime have in common.

An artifact is one `.tflite` file. XNNPACK is on, as both engines have it by default. Tensors are mapped by the order
of the subgraph's inputs and outputs, which is the order of `get_input_details` and `get_output_details`.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from edgekit.core.artifact import LoadableArtifact
from edgekit.core.errors import BadInput, Unsupported
from edgekit.runtimes.binding import Array, EngineFault, FileTensor, PortSession, checked_threads, first_line
from edgekit.runtimes.flatbuffer_bounds import is_inside
from edgekit.runtimes.installed import engine_module, engine_version
from edgekit.runtimes.runtime import Session

_IDENTIFIER = b"TFL3"  # bytes 4..8 of every TFLite flatbuffer
_FAULTS = (RuntimeError, ValueError)


class InterpreterRuntime:
    """A `Runtime` over one package that has an `Interpreter`."""

    def __init__(self, *, name: str, distribution: str, module: str, extra: str) -> None:
        self.name = name
        self._distribution, self._module, self._extra = distribution, module, extra

    def version(self) -> str | None:
        """See `Runtime.version`."""
        return engine_version(self._module.partition(".")[0], self._distribution)

    def load(self, artifact: LoadableArtifact, *, threads: int, cache: Path | None = None) -> Session:
        """See `Runtime.load`. Nothing is cached: an interpreter starts in milliseconds."""
        checked_threads(threads)
        engine = engine_module(self._module, runtime=self.name, extra=self._extra)
        model = artifact.content(".tflite")
        if model[4:8] != _IDENTIFIER:
            raise BadInput(f"{artifact.label} is no TFLite model", "it lacks the mark TFL3", "fetch or build it again")
        if not is_inside(model):
            raise BadInput(f"{artifact.label} is damaged", "its parts lie beyond its end", "fetch or build it again")
        try:
            interpreter = engine.Interpreter(model_content=model, num_threads=threads)
            interpreter.allocate_tensors()
        except _FAULTS as error:
            why = first_line(error)
            raise Unsupported(f"{self.name} refuses {artifact.label}", why, "use another runtime") from error
        inputs, outputs = interpreter.get_input_details(), interpreter.get_output_details()
        run = _engine(interpreter, inputs, [each["index"] for each in outputs])
        return PortSession(artifact, run, [_tensor(each) for each in inputs], [_tensor(each) for each in outputs])


def _engine(
    interpreter: Any,  # noqa: ANN401  (the engine has no types)
    inputs: Sequence[dict[str, Any]],
    outputs: Sequence[int],
) -> Callable[[list[Array]], Sequence[Array]]:
    indices = [int(each["index"]) for each in inputs]
    shapes: list[tuple[int, ...]] = [tuple(int(size) for size in each["shape"]) for each in inputs]
    set_tensor, invoke, get_tensor = interpreter.set_tensor, interpreter.invoke, interpreter.get_tensor

    def engine(feeds: list[Array]) -> Sequence[Array]:
        try:
            if [array.shape for array in feeds] != shapes:
                _resize(interpreter, indices, feeds)
                shapes[:] = [array.shape for array in feeds]
            for index, array in zip(indices, feeds, strict=True):
                set_tensor(index, array)
            invoke()
            return [get_tensor(index) for index in outputs]
        except _FAULTS as error:
            shapes[:] = []  # whatever state it is in now, the next call allocates anew
            raise EngineFault(first_line(error)) from error

    return engine


def _resize(interpreter: Any, indices: Sequence[int], feeds: Sequence[Array]) -> None:  # noqa: ANN401
    for index, array in zip(indices, feeds, strict=True):
        interpreter.resize_tensor_input(index, array.shape)
    interpreter.allocate_tensors()


def _tensor(details: dict[str, Any]) -> FileTensor:
    signature = details["shape_signature"]
    free = signature if len(signature) else details["shape"]  # an empty signature: nothing is free
    return FileTensor(np.dtype(details["dtype"]), tuple(int(size) if size >= 0 else None for size in free))
