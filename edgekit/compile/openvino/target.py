"""OpenVINO as a target: IR whose bytes depend on the graph only."""

from typing import Final

import onnx_ir as ir

from edgekit.compile.onnxruntime.float_emission import ports_of, serialized
from edgekit.compile.openvino.checks import refusals
from edgekit.compile.openvino.float_emission import emit_float, ir_from_onnx
from edgekit.compile.qdq import Policy, to_qdq
from edgekit.compile.target import Emitted
from edgekit.core.errors import Refusal
from edgekit.quantize.quantized import QuantizedModel

# convolutions and products have a float result here; clamps are fused with the rounding behind them
POLICY: Final = Policy(needs_rounded_result=frozenset(), keeps_clamps=True)


class OpenVinoTarget:
    """See `edgekit.compile.target.Target`."""

    name: str = "openvino"

    def refusals(self, model: ir.Model) -> tuple[Refusal, ...]:
        """Nodes that the engine cannot take, or computes wrongly."""
        return refusals(model)

    def emit_float(self, model: ir.Model) -> Emitted:
        """The canonical graph as IR, weights uncompressed."""
        return emit_float(model)

    def emit_integer(self, quantized: QuantizedModel) -> Emitted:
        """The QDQ graph as IR: OpenVINO reads the pairs as FakeQuantize and lowers them itself."""
        inputs, outputs = ports_of(quantized.model)
        return Emitted(ir_from_onnx(serialized(to_qdq(quantized, POLICY))), inputs, outputs)


TARGET: Final = OpenVinoTarget()
