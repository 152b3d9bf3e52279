"""A mean over all spatial axes is GlobalAveragePool; where it drops them, Flatten follows."""

import onnx_ir as ir

from edgekit.build.importing.editing import become, put_before
from edgekit.build.rewrite.matching import input_of, nodes, rank, whole
from edgekit.quantize.canonical import integer


def form_global_pools(model: ir.Model) -> bool:
    """True where the graph changed."""
    changed = False
    for node in nodes(model, "ReduceMean"):
        source, axes, count = node.inputs[0], whole(input_of(node, 1)), rank(node.inputs[0])
        if source is None or source.shape is None or axes is None or count is None or count < 4:
            continue
        if source.dtype is not ir.DataType.FLOAT or sorted(axis % count for axis in axes) != list(range(2, count)):
            continue
        if integer(node, "keepdims", 1):
            become(node, "GlobalAveragePool", [source])
        else:
            pooled = put_before(node, "GlobalAveragePool", [source], "pooled")
            pooled.shape = ir.Shape([source.shape[0], source.shape[1], *(1,) * (count - 2)])
            become(node, "Flatten", [pooled], axis=1)
        changed = True
    return changed
