"""Tensors that 8 bits blur: a few values so large that all others share a handful of levels."""

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
import onnx_ir as ir

from edgekit.quantize.interpreter import Array, float_step, walk
from edgekit.quantize.quantized import QParams

BLURRED: Final = (0.06, 0.03)
"""Rounding error over standard deviation from which a tensor is too blurred to be 8-bit, mild first. In networks that
quantize well all tensors stay below 0.03."""


def rounding_errors(
    model: ir.Model, activations: Mapping[str, QParams], samples: Sequence[Mapping[str, Array]], *, threads: int
) -> dict[str, float]:
    """Per 8-bit tensor: root mean square of its own rounding error over its standard deviation, in float."""
    errors: dict[str, float] = {}
    for _, tensors in walk(model, samples, float_step(threads)):
        for name, column in tensors.items():
            params = activations.get(name)
            if params is None:
                continue
            noise = spread = 0.0
            for array in column:
                x = np.asarray(array, np.float32)
                noise += float(((params.dequantize(params.quantize(x)) - x) ** 2).sum())
                spread += float(((x - x.mean()) ** 2).sum())
            errors[name] = float(np.sqrt(noise / spread)) if spread else 0.0
    return errors


def touching(model: ir.Model, tensors: set[str], integer: frozenset[str]) -> frozenset[str]:
    """Integer nodes that read or write one of the tensors."""
    return frozenset(
        str(node.name)
        for node in model.graph
        if node.name in integer and any(v is not None and v.name in tensors for v in (*node.inputs, *node.outputs))
    )
