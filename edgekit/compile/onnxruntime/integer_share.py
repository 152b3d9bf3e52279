"""What ONNX Runtime does in integers, from the events of a profiled run: one per kernel that really ran.

A QDQ pair that ORT could not fuse leaves a float kernel behind, however the file looks. Padding that ORT's own blocked
float layouts add to channels is counted as they compute it.
"""

import json
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnxruntime as ort
from numpy.typing import NDArray

from edgekit.compile.integer_share import (
    IntegerShare,
    Shape,
    Work,
    product_macs,
    recurrent_macs,
    transposed_macs,
)
from edgekit.core.artifact import LoadableArtifact
from edgekit.runtimes.onnxruntime import bound, session_options

Macs = Callable[[list[Shape], Shape], int]  # shapes of the inputs, shape of the first output


@dataclass(frozen=True, slots=True)
class _Kernel:
    macs: Macs
    is_integer: bool = False


def _convolution(weight: int) -> Macs:
    """The weight is [M, C/group, k…] for every kernel; the output's layout does not matter for its size."""
    return lambda inputs, output: int(np.prod(output)) * int(np.prod(inputs[weight][1:]))


def _product(b: int) -> Macs:
    return lambda inputs, output: product_macs(inputs[0], inputs[b], output)


def _recurrent(inputs: list[Shape], output: Shape) -> int:
    return recurrent_macs(inputs[0][0] * inputs[0][1], inputs[1:3])


def _attention(inputs: list[Shape], output: Shape) -> int:
    """x [B, S, I] times weights [I, 3H], then two products of S × S × H."""
    batch, length, _ = inputs[0]
    return batch * length * int(np.prod(inputs[1])) + 2 * batch * length * length * (inputs[1][1] // 3)


_KERNELS: Final[Mapping[str, _Kernel]] = {
    "Conv": _Kernel(_convolution(1)),
    "FusedConv": _Kernel(_convolution(1)),
    "NhwcFusedConv": _Kernel(_convolution(1)),
    "ConvTranspose": _Kernel(lambda inputs, output: transposed_macs(inputs[0], inputs[1])),
    "MatMul": _Kernel(_product(1)),
    "FusedMatMul": _Kernel(_product(1)),
    "TransposeMatMul": _Kernel(_product(1)),
    "Gemm": _Kernel(_product(1)),
    "FusedGemm": _Kernel(_product(1)),
    "LSTM": _Kernel(_recurrent),
    "GRU": _Kernel(_recurrent),
    "RNN": _Kernel(_recurrent),
    "Attention": _Kernel(_attention),
    "QLinearConv": _Kernel(_convolution(3), is_integer=True),
    "ConvInteger": _Kernel(_convolution(1), is_integer=True),
    "QLinearMatMul": _Kernel(_product(3), is_integer=True),
    "MatMulInteger": _Kernel(_product(1), is_integer=True),
    "MatMulIntegerToFloat": _Kernel(_product(1), is_integer=True),
    "DynamicQuantizeMatMul": _Kernel(_product(1), is_integer=True),
    "QGemm": _Kernel(_product(3), is_integer=True),
    "QAttention": _Kernel(_attention, is_integer=True),
    "DynamicQuantizeLSTM": _Kernel(_recurrent, is_integer=True),
}


def integer_share(artifact: LoadableArtifact, inputs: Mapping[str, NDArray[np.generic]]) -> IntegerShare:
    """Runs the artifact once, profiled. Raises what a session raises for wrong inputs."""
    with tempfile.TemporaryDirectory(prefix="edgekit-profile-") as folder:
        options = session_options(ort, 1)
        options.enable_profiling = True
        # a packed weight has no shape in the events
        options.add_session_config_entry("session.disable_prepacking", "1")
        options.profile_file_prefix = str(Path(folder) / "run")
        native = ort.InferenceSession(artifact.content(".onnx"), options, providers=["CPUExecutionProvider"])
        try:
            bound(artifact, native)(inputs)
        finally:
            trace = Path(native.end_profiling())
        events = json.loads(trace.read_text(encoding="utf-8", errors="replace"))
    return IntegerShare.of(_works(events))


def _works(events: list[dict[str, Any]]) -> Iterator[Work]:
    for event in events:
        details = event.get("args", {})
        kernel = _KERNELS.get(str(details.get("op_name")))
        if event.get("cat") != "Node" or kernel is None or not str(event["name"]).endswith("_kernel_time"):
            continue
        shapes = [_shape(each) for each in details["input_type_shape"]]
        macs = kernel.macs(shapes, _shape(details["output_type_shape"][0]))
        name = str(event["name"]).removesuffix("_kernel_time").removesuffix("_nchwc")
        yield Work(name, str(details["op_name"]), macs, kernel.is_integer)


def _shape(typed: dict[str, list[int]]) -> Shape:
    """`{"float": [1, 3]}`; an input that is left out has no entry."""
    return next(iter(typed.values()), [])
