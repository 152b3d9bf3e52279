"""A view that keeps the first axis and joins all others is Flatten, however it was written."""

from math import prod

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
        if (node.op_type == "Squeeze" or target is not None) and _keeps_first(source, result, target):
            become(node, "Flatten", [source], axis=1)
            changed = True
    return changed


def _keeps_first(source: ir.Value, result: ir.Value, target: tuple[int, ...] | None) -> bool:
    assert source.shape is not None
    if result.shape is not None and same_size(source.shape[0], result.shape[0]):
        return True
    rest = [dim for dim in list(source.shape)[1:] if isinstance(dim, int)]
    is_rest = target is not None and len(rest) == len(source.shape) - 1 and prod(rest) == target[1]
    return target is not None and (target[0] == 0 or (target[0] == -1 and is_rest))
