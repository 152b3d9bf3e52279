"""Linear nodes that make attention scores: the ones whose rounding a softmax can blow up."""

from collections.abc import Collection

import onnx_ir as ir

from edgekit.quantize.canonical import constant
from edgekit.quantize.roles import is_linear

GAIN_WANTED = 0.7  # keep them float where that leaves less than this share of the held-out error


def score_projections(model: ir.Model, integer: Collection[str]) -> frozenset[str]:
    """Names of integer linear nodes from which a product of two activations and then a Softmax are reached before
    another linear node (the query and key projections of attention)."""
    found = set()
    for node in model.graph:
        if node.name in integer and is_linear(node) and _reaches_scores(node):
            found.add(str(node.name))
    return frozenset(found)


def _reaches_scores(start: ir.Node) -> bool:
    seen: set[tuple[int, bool]] = set()
    ahead: list[tuple[ir.Node, bool]] = [(r, False) for v in start.outputs for r in v.consumers()]
    while ahead:
        node, multiplied = ahead.pop()
        if (id(node), multiplied) in seen or is_linear(node):
            continue
        seen.add((id(node), multiplied))
        if node.op_type == "Softmax" and multiplied:
            return True
        if node.op_type == "Softmax":
            continue
        is_product = node.op_type == "MatMul" and all(constant(v) is None for v in node.inputs)
        ahead += [(r, multiplied or is_product) for v in node.outputs for r in v.consumers()]
    return False
