"""BatchNormalization at inference is a Mul and an Add per channel; `channel_constants` folds them into linear nodes.

y = x * s + (B - mean * s), s = scale / sqrt(var + epsilon). https://onnx.ai/onnx/operators/onnx__BatchNormalization.html
"""

import numpy as np
import onnx_ir as ir

from edgekit.build.importing.editing import become, constant_beside
from edgekit.build.rewrite.matching import floats, nodes, rank
from edgekit.quantize.canonical import real


def split_batch_norms(model: ir.Model) -> bool:
    """True where the graph changed; a BatchNormalization whose parameters are computed stays."""
    changed = False
    for node in nodes(model, "BatchNormalization"):
        x, count = node.inputs[0], rank(node.inputs[0])
        parameters = [floats(value) for value in node.inputs[1:5]]
        if x is None or count is None or count < 2 or any(p is None for p in parameters):
            continue
        scale, bias, mean, variance = (np.asarray(p, np.float64) for p in parameters)
        with np.errstate(all="ignore"):
            factor = scale / np.sqrt(variance + real(node, "epsilon", 1e-5))
            offset = bias - mean * factor
        shape = (-1, *(1,) * (count - 2))
        by = constant_beside(node, "factor", factor.astype(np.float32).reshape(shape))
        to = constant_beside(node, "offset", offset.astype(np.float32).reshape(shape))
        name = f"{node.name}.scaled"
        product = ir.node("Mul", [x, by], name=name, version=node.version)
        product.outputs[0].name = name
        product.outputs[0].shape, product.outputs[0].type = x.shape, x.type
        assert node.graph is not None
        node.graph.insert_before(node, product)
        become(node, "Add", [product.outputs[0], to])
        changed = True
    return changed
