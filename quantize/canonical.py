"""The canonical graph: the one form of a float model that quantization and every writer read.

`edgekit.build` brings each model to it; nothing below has to handle another form. Promises of a canonical `ir.Model`:

1. Default domain only, opset `CANONICAL_OPSET`; no local functions. Subgraphs (If, Loop, Scan) may stay and are float.
2. Every node has a unique, non-empty name (the model's own where it had one). Every value has a unique name; inputs and
   outputs keep the model's own names and order. A graph output is never directly a graph input or an initializer:
   an Identity stands between; no other Identity, no Dropout in inference mode, no Constant node.
3. Constants are initializers, not graph inputs; external data is in memory. Constant subexpressions are folded.
4. Shapes and dtypes of all values outside subgraphs are known as far as inference can tell; free axes are named.
5. Float tensors are float32 (models in float16 are widened inside; the ports keep the model's dtype).
6. Conv, ConvTranspose and pools: `auto_pad` is NOTSET with explicit `pads`, `strides`, `dilations`, `kernel_shape`,
   `group`; a constant zero Pad before a Conv or a padding-excluding pool is part of its `pads`. BatchNormalization is
   folded where a linear node is its only producer, otherwise it is Mul and Add. A Mul or Add by a per-channel constant
   behind a Conv, ConvTranspose, Gemm or MatMul is folded into it.
7. Gemm has transA = 0, transB = 1, alpha = beta = 1 and, if present, a constant 1-D bias of N values whenever its B is
   constant; a Gemm that cannot be brought to this is MatMul, Transpose, Mul and Add. MatMul with constant 2-D B and
   an Add of a constant 1-D bias stays as it is.
8. Clip has constant scalar bounds as inputs 1 and 2, or empty ones. Relu stays Relu. HardSwish and HardSigmoid,
   Gelu and LayerNormalization are single nodes where a known decomposition was recognised.
9. Transpose pairs that cancel, Shape chains with static results, no-op Reshape, Cast, Slice and Pad are gone.

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
