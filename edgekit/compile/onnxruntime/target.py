"""ONNX Runtime as a target: plain ONNX in float, plain QDQ in 8 bits; the device optimises for its own CPU."""

from typing import Final

import onnx_ir as ir

from edgekit.compile.onnxruntime.checks import refusals
from edgekit.compile.onnxruntime.float_emission import emit_float, ports_of, serialized
from edgekit.compile.qdq import Policy, to_qdq
from edgekit.compile.target import Emitted
from edgekit.core.errors import Refusal
from edgekit.quantize.quantized import QuantizedModel

# a convolution between dequantize and nothing runs in float; matrix products have an integer kernel with float result
POLICY: Final = Policy(
    needs_rounded_result=frozenset({"Conv", "ConvTranspose"}),
    keeps_clamps=False,
    quantizes_unasked=frozenset({"Conv", "ConvTranspose", "Gemm"}),
)


class OnnxRuntimeTarget:
    """See `edgekit.compile.target.Target`."""

    name: str = "onnxruntime"

    def refusals(self, model: ir.Model) -> tuple[Refusal, ...]:
        """Nodes that the engine cannot take."""
        return refusals(model)

    def emit_float(self, model: ir.Model) -> Emitted:
        """The canonical graph as ONNX."""
        return emit_float(model)

    def emit_integer(self, quantized: QuantizedModel) -> Emitted:
        """QDQ with uint8 activations and int8 weights."""
        inputs, outputs = ports_of(quantized.model)
        return Emitted({"model.onnx": serialized(to_qdq(quantized, POLICY))}, inputs, outputs)


TARGET: Final = OnnxRuntimeTarget()
