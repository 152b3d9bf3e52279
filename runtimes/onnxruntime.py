"""ONNX Runtime on the CPU. The only device file that knows this library.

An artifact is one `.onnx` file. ORT's own optimised form is specific to the machine, so it is never shipped: it is
made on the device and kept in the cache folder.
"""

import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import numpy as np

from edgekit.core.artifact import LoadableArtifact
from edgekit.core.errors import BadInput, EdgekitError, Unsupported
from edgekit.runtimes.binding import Array, EngineFault, FileTensor, PortSession, checked_threads, first_line
from edgekit.runtimes.installed import engine_module, engine_version
from edgekit.runtimes.runtime import Session

_DAMAGED: Final = ("InvalidProtobuf", "NoSuchFile", "NoModel")  # ORT's exceptions for what is no model at all
_DTYPES: Final = {"float": "float32", "double": "float64", "string": "object"}  # where ORT's word is not numpy's


class OnnxRuntime:
    """The `Runtime` named onnxruntime."""

    name: str = "onnxruntime"

    def version(self) -> str | None:
        """See `Runtime.version`."""
        return engine_version("onnxruntime", "onnxruntime")

    def load(self, artifact: LoadableArtifact, *, threads: int, cache: Path | None = None) -> Session:
        """See `Runtime.load`."""
        checked_threads(threads)
        ort = engine_module("onnxruntime", runtime=self.name, extra="onnxruntime")
        model = artifact.content(".onnx")
        faults = _faults()
        try:
            native = _native_session(ort, model, threads, cache)
        except faults as error:
            raise _load_error(artifact.label, error) from error
        return bound(artifact, native)


RUNTIME: Final = OnnxRuntime()


def bound(artifact: LoadableArtifact, native: Any) -> PortSession:  # noqa: ANN401  (the engine has no types)
    """A session over ORT's own."""
    faults = _faults()
    inputs, outputs = native.get_inputs(), native.get_outputs()
    input_names = [each.name for each in inputs]
    output_names = [each.name for each in outputs]
    run = native.run

    def engine(feeds: list[Array]) -> Sequence[Array]:
        try:
            results: Sequence[Array] = run(output_names, dict(zip(input_names, feeds, strict=True)))
        except faults as error:
            raise EngineFault(first_line(error)) from error
        return results

    return PortSession(artifact, engine, [_tensor(each) for each in inputs], [_tensor(each) for each in outputs])


def session_options(ort: ModuleType, threads: int) -> Any:  # noqa: ANN401
    """Options of every session: that many threads, none of them spinning while it waits."""
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 4  # errors come as exceptions; the log would say them twice
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.add_session_config_entry("session.inter_op.allow_spinning", "0")
    return options


def _native_session(ort: ModuleType, model: bytes, threads: int, folder: Path | None) -> Any:  # noqa: ANN401
    options = session_options(ort, threads)
    if folder is None:
        return _start(ort, model, options)
    from edgekit.runtimes.compiled_cache import CompiledCache  # brings hashlib; not every load has a cache

    entry = CompiledCache.of(folder / "onnxruntime", engine=f"onnxruntime {ort.__version__}", parts=[model])
    optimised = entry.read()
    if optimised is not None:
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL  # it has been done
        return _start(ort, optimised, options)
    with tempfile.TemporaryDirectory(prefix="edgekit-ort-") as scratch:
        saved = Path(scratch) / "optimised.onnx"
        options.optimized_model_filepath = str(saved)
        native = _start(ort, model, options)
        entry.write(saved.read_bytes())
    return native


def _start(ort: ModuleType, model: bytes, options: Any) -> Any:  # noqa: ANN401
    return ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def _faults() -> tuple[type[Exception], ...]:
    """ORT's exceptions share no base class but Exception."""
    state = engine_module("onnxruntime.capi.onnxruntime_pybind11_state", runtime="onnxruntime", extra="onnxruntime")
    own = [each for each in vars(state).values() if isinstance(each, type) and issubclass(each, Exception)]
    return (*own, RuntimeError, ValueError)


def _load_error(label: str, error: Exception) -> EdgekitError:
    if type(error).__name__ in _DAMAGED:
        return BadInput(f"{label} is no ONNX model", first_line(error), "fetch or build it again")
    return Unsupported(f"onnxruntime refuses {label}", first_line(error), "update onnxruntime, or use another runtime")


def _tensor(node: Any) -> FileTensor:  # noqa: ANN401
    word = node.type.removeprefix("tensor(").removesuffix(")")
    try:
        dtype = np.dtype(_DTYPES.get(word, word))
    except TypeError as error:
        raise Unsupported(
            f"'{node.name}' is {node.type}", "only tensors cross this border", "cast it in the model"
        ) from error
    return FileTensor(dtype, tuple(dim if isinstance(dim, int) and dim >= 0 else None for dim in node.shape))
