"""How much of a tensor's range its readers can tell apart: what they cannot needs no 8-bit levels.

A network of conv, sigmoid and mul (SiLU) sends values of -100 into a function that is zero below -8; covering them
leaves a step of 1 for everything that matters.
"""

from math import inf
from typing import Final

import onnx_ir as ir

from edgekit.quantize.canonical import clamp_bounds, real
from edgekit.quantize.observers import Interval

_SIGMOID_FLAT: Final = 8.0  # beyond it a sigmoid is within 0.0004 of its end, x * sigmoid(x) within 0.003
_TANH_FLAT: Final = 4.5
_ALL: Final = Interval(-inf, inf)


def useful_range(value: ir.Value) -> Interval:
    """The part of the value's range that some reader depends on; everything for a graph output."""
    if value.is_graph_output() or not value.uses():
        return _ALL
    lo, hi = inf, -inf
    for reader in value.consumers():
        seen = _seen_by(reader, value)
        lo, hi = min(lo, seen.lo), max(hi, seen.hi)
    return Interval(min(lo, 0.0), max(hi, 0.0))


def _seen_by(node: ir.Node, value: ir.Value) -> Interval:
    match node.op_type:
        case "Sigmoid":
            return Interval(-_SIGMOID_FLAT, _SIGMOID_FLAT)
        case "Tanh":
            return Interval(-_TANH_FLAT, _TANH_FLAT)
        case "HardSwish":
            return Interval(-3.0, inf)
        case "HardSigmoid":
            alpha, beta = real(node, "alpha", 0.2), real(node, "beta", 0.5)
            return Interval(-beta / alpha, (1 - beta) / alpha) if alpha > 0 else _ALL
        case "Relu" | "Clip":
            return Interval(*clamp_bounds(node))
        case "Mul":
            gate = next((v for v in node.inputs if v is not None and v is not value), None)
            producer = gate.producer() if gate is not None else None
            if producer is not None and producer.op_type == "Sigmoid" and producer.inputs[0] is value:
                return Interval(-_SIGMOID_FLAT, inf)
    return _ALL
