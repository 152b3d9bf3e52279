"""What the quantization core hands to every target: a float graph and the integers that replace it.

Nothing here knows a runtime. A writer in `edgekit.compile` never changes a number that it finds here: what a runtime
cannot take is a constraint in the parameter solver or a refusal by name.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class QParams:
    """Per-tensor affine parameters of an 8-bit tensor, in the unsigned domain: real = scale * (q - zero_point).

    The signed form (TFLite) has the same scale and `zero_point - 128`. `scale` is a float32 value.
    """

    scale: float
    zero_point: int

    @property
    def lo(self) -> float:
        """Real value of q = 0."""
        return -self.scale * self.zero_point

    @property
    def hi(self) -> float:
        """Real value of q = 255."""
        return self.scale * (255 - self.zero_point)

    def quantize(self, x: NDArray[np.floating]) -> NDArray[np.uint8]:
        """Round half to even, saturate; any shape."""
        q = np.rint(np.asarray(x, np.float32) / np.float32(self.scale)) + self.zero_point
        return np.asarray(np.clip(q, 0, 255), np.uint8)

    def dequantize(self, q: NDArray[np.uint8]) -> NDArray[np.float32]:
        """Real values; any shape."""
        return (q.astype(np.int32) - self.zero_point).astype(np.float32) * np.float32(self.scale)


@dataclass(frozen=True, slots=True)
class QWeight:
    """A weight in int8, symmetric (zero point 0), with one scale per output channel.

    `values` has the shape of the ONNX initializer. `axis` is the output-channel axis in that shape, or None where one
    scale serves the whole tensor. For a grouped ConvTranspose (weight [C, M/group, kH, kW]) `scales` has M entries and
    `axis` is 1: output channel `g * M/group + m` scales `values[g-th slice of C, m]`.
    """

    values: NDArray[np.int8]
    scales: NDArray[np.float32]
    axis: int | None


@dataclass(frozen=True, slots=True)
class QuantizedModel:
    """A canonical float graph (see `edgekit.build.canonical`) with the integers that replace it.

    - `integer_nodes`: names of the nodes that compute in integers; all others compute in float.
    - `activations`: tensor name -> parameters. Holds activations and constant operands of elementwise nodes (PRelu
      slope, Add or Mul constant). Absent: the tensor is float. A tensor read by an integer node and by a float node
      is 8-bit for the one and dequantized for the other.
    - An integer node whose output has no entry and whose only consumer is an integer Relu or Clip is computed as one
      fused node with it (the accumulator is never rounded in between). An integer Conv, Gemm or MatMul whose output
      has no entry otherwise gives float straight from its accumulator where the runtime can, see `output_hint`.
    - `weights` and `biases`: by NODE name, since a shared initializer may need other integers in each node. A bias is
      int32 at scale `activations[input].scale * weights[node].scales`; absent: zero.
    - `output_hint`: parameters for tensors without an entry in `activations` that a runtime may round if it has no
      float result for an integer node (TFLite has none).
    """

    model: ir.Model
    integer_nodes: frozenset[str]
    activations: Mapping[str, QParams]
    weights: Mapping[str, QWeight]
    biases: Mapping[str, NDArray[np.int32]]
    output_hint: Mapping[str, QParams]
