"""OpenVINO on the CPU. The only device file that knows this library.

An artifact is an `.xml` and a `.bin` file. Precision is pinned to float32 where the model says float (OpenVINO would
choose by CPU), threads are not pinned to cores, and the compiled form is kept by OpenVINO itself in the cache folder.
"""

from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, Final

import numpy as np

from edgekit.core.artifact import LoadableArtifact
from edgekit.core.errors import Unsupported
from edgekit.runtimes.binding import Array, EngineFault, FileTensor, PortSession, checked_threads, first_line
from edgekit.runtimes.installed import engine_module, engine_version
from edgekit.runtimes.runtime import Session


class OpenVino:
    """The `Runtime` named openvino."""

    name: str = "openvino"

    def version(self) -> str | None:
        """See `Runtime.version`."""
        return engine_version("openvino", "openvino")

    def load(self, artifact: LoadableArtifact, *, threads: int, cache: Path | None = None) -> Session:
        """See `Runtime.load`."""
        checked_threads(threads)
        try:
            compiled = compiled_model(artifact, threads, cache)
            request = compiled.create_infer_request()
            inputs = [_narrow(_tensor(port)) for port in compiled.inputs]
            outputs = [_tensor(port) for port in compiled.outputs]
        except (RuntimeError, ValueError, TypeError) as error:
            why = first_line(error)
            raise Unsupported(
                f"openvino refuses {artifact.label}", why, "build it again, or use another runtime"
            ) from error
        return PortSession(artifact, _engine(request, inputs, len(outputs)), inputs, outputs)


RUNTIME: Final = OpenVino()


@cache
def _core() -> Any:  # noqa: ANN401  (the engine has no types)
    """One per process: making it loads the plugins."""
    return engine_module("openvino", runtime="openvino", extra="openvino").Core()


def read_model(artifact: LoadableArtifact) -> Any:  # noqa: ANN401
    """The artifact as OpenVINO's own graph. Raises what OpenVINO raises."""
    openvino = engine_module("openvino", runtime="openvino", extra="openvino")
    weights = np.frombuffer(artifact.content(".bin"), np.uint8)
    return _core().read_model(artifact.content(".xml"), openvino.Tensor(weights) if weights.size else b"")


def compiled_model(artifact: LoadableArtifact, threads: int, cache: Path | None = None) -> Any:  # noqa: ANN401
    """The artifact compiled for this CPU. Raises what OpenVINO raises."""
    model, options = read_model(artifact), compile_options(threads=threads)
    if cache is not None:
        # a full disk or a read-only folder costs the time to compile, not the answer
        with suppress(RuntimeError):
            return _core().compile_model(model, "CPU", {**options, "CACHE_DIR": str(cache / "openvino")})
    return _core().compile_model(model, "CPU", options)


def compile_options(*, threads: int) -> dict[str, object]:
    """Options of every compilation."""
    return {
        "INFERENCE_PRECISION_HINT": "f32",
        "ENABLE_CPU_PINNING": False,
        "INFERENCE_NUM_THREADS": threads,
        "NUM_STREAMS": 1,
        "PERFORMANCE_HINT": "LATENCY",
    }


def _engine(request: Any, inputs: Sequence[FileTensor], outputs: int) -> Any:  # noqa: ANN401
    """Copies into the request's own input tensors: an order of magnitude cheaper than its handling of dicts."""
    tensors = [request.get_input_tensor(index) for index in range(len(inputs))]
    shapes: list[tuple[int, ...] | None] = [
        None if each.shape is None or None in each.shape else tuple(tensor.shape)
        for each, tensor in zip(inputs, tensors, strict=True)
    ]
    views: list[Any] = [None if shape is None else tensor.data for shape, tensor in zip(shapes, tensors, strict=True)]

    def engine(feeds: list[Array]) -> Sequence[Array]:
        try:
            for index, array in enumerate(feeds):
                if array.shape != shapes[index]:
                    tensors[index].shape = array.shape
                    shapes[index], views[index] = array.shape, tensors[index].data
                np.copyto(views[index], array, casting="unsafe")  # `_narrow` has made sure that it fits
            request.infer({}, share_inputs=True, share_outputs=True)
            return [request.get_output_tensor(index).data.copy() for index in range(outputs)]
        except (RuntimeError, ValueError) as error:
            raise EngineFault(first_line(error)) from error

    return engine


def _tensor(port: Any) -> FileTensor:  # noqa: ANN401
    dtype = np.dtype(port.get_element_type().to_dtype())
    partial = port.get_partial_shape()
    if partial.rank.is_dynamic:
        return FileTensor(dtype, None)
    return FileTensor(dtype, tuple(dim.get_length() if dim.is_static else None for dim in partial))


def _narrow(tensor: FileTensor) -> FileTensor:
    """The CPU plugin computes 64-bit integers in 32 bits: an input that does not fit is refused, not wrapped."""
    return (
        FileTensor(np.dtype(np.int32), tensor.shape)
        if tensor.dtype.kind in "iu" and tensor.dtype.itemsize == 8
        else tensor
    )
