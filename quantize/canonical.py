"""The canonical graph: the one form of a float model that quantization and every writer read.

`edgekit.build` brings each model to it; nothing below has to handle another form. Promises of a canonical `ir.Model`:

1. Default domain only, opset `CANONICAL_OPSET`; no local functions. Subgraphs (If, Loop, Scan) may stay and are float.
2. Every node has a unique, non-empty name (the model's own where it had one). Every value has a unique name; inputs and
   outputs keep the model's own names and order (an output that has an input's name gets another, with a note). A graph
   output is never directly a graph input or an initializer: an Identity stands between; no other Identity, no Dropout
   in inference mode, no Constant node. Attributes that say what is so without them are left out (but see 6), the
   others are in order of their names.
3. Constants are initializers, not graph inputs; external data is in memory. Constant subexpressions are folded, but for
   results more than twice the size of the largest constant.
4. Shapes and dtypes of all values outside subgraphs are known as far as inference can tell; free axes are named.
5. Float tensors are float32 (float16 and bfloat16 are widened inside, float64 is narrowed; ports keep the model's
   dtype).
6. Conv, ConvTranspose and pools: `auto_pad` is NOTSET with explicit `pads`, `strides`, `dilations`, `kernel_shape`,
   `group`; a constant Pad before a Conv or pool that pads with what these pad with is part of their `pads`.
   BatchNormalization is folded where a linear node is its only producer, otherwise it is Mul and Add; it stays where
   its parameters are computed or the number of axes is not known. A Mul, Div, Add or Sub by a per-channel constant
   behind a Conv, ConvTranspose, Gemm or MatMul that nothing else reads is folded into it (into MatMul: factors only).
7. Gemm has a constant B [N, K] and transB = 1, no other attribute and, if present, a constant 1-D bias of N values; a
   Gemm that cannot be brought to this is MatMul, Transpose, Mul and Add. MatMul with constant 2-D B and an Add of a
   constant 1-D bias stays as it is.
8. Clip has constant scalar bounds as inputs 1 and 2, or empty ones; Max and Min with a constant scalar are Clip, Clip
   from 0 without an upper bound is Relu, computed bounds are Max and Min. HardSwish and HardSigmoid, Gelu and
   LayerNormalization are single nodes where a known decomposition was recognised.
9. Transpose pairs that cancel, Shape chains with static results, no-op Reshape, Cast, Slice, Pad and Resize are gone.
   A Reshape to sizes of its input has a constant target. A mean over all spatial axes is GlobalAveragePool; a view of
   two axes that keeps the first is Flatten. An If that constants and known shapes decide is the branch that it takes.

Tests: `tests/build/test_canonical.py` checks each promise on every model at hand.
"""

from typing import Final

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

CANONICAL_OPSET: Final = 21


def constant(value: ir.Value | None) -> NDArray[np.generic] | None:
    """The array behind an initializer, or None where the value is absent or computed."""
    if value is None or value.const_value is None:
        return None
    return value.const_value.numpy()


def input_name(node: ir.Node, index: int) -> str:
    """The name of an input that is there."""
    value = node.inputs[index]
    assert value is not None
    return str(value.name)


def ints(node: ir.Node, name: str, default: tuple[int, ...] = ()) -> tuple[int, ...]:
    """An INTS attribute as a tuple."""
    attribute = node.attributes.get(name)
    return default if attribute is None else tuple(attribute.as_ints())


def integer(node: ir.Node, name: str, default: int) -> int:
    """An INT attribute."""
    attribute = node.attributes.get(name)
    return default if attribute is None else attribute.as_int()


def real(node: ir.Node, name: str, default: float) -> float:
    """A FLOAT attribute."""
    attribute = node.attributes.get(name)
    return default if attribute is None else attribute.as_float()


def text(node: ir.Node, name: str, default: str) -> str:
    """A STRING attribute."""
    attribute = node.attributes.get(name)
    return default if attribute is None else attribute.as_string()


def clamp_bounds(clamp: ir.Node) -> tuple[float, float]:
    """Bounds of a Relu or of a Clip with constant bounds."""
    if clamp.op_type == "Relu":
        return 0.0, np.inf
    lo, hi = [*(constant(v) for v in clamp.inputs[1:]), None, None][:2]
    return (-np.inf if lo is None else float(lo.flat[0])), (np.inf if hi is None else float(hi.flat[0]))
