"""A view that keeps the first axis and joins all others is Flatten, however it was written."""

import onnx_ir as ir

from edgekit.build.importing.editing import become
from edgekit.build.rewrite.matching import nodes, rank, same_size, whole


def form_flattens(model: ir.Model) -> bool:
    """Reshape and Squeeze of three and more axes to two; True where the graph changed."""
    changed = False
    for node in nodes(model, "Reshape", "Squeeze"):
        source, result = node.inputs[0], node.outputs[0]
        count = rank(source)
        if source is None or source.shape is None or count is None or count < 3 or rank(result) != 2:
            continue
        target = whole(node.inputs[1]) if node.op_type == "Reshape" else None
        is_kept = (target is not None and target[0] == 0) or (
            result.shape is not None and same_size(source.shape[0], result.shape[0])
        )
        if is_kept and (node.op_type == "Squeeze" or target is not None):
            become(node, "Flatten", [source], axis=1)
            changed = True
    return changed
