"""An If whose condition is constant becomes the branch that it takes, in place.

Done before ONNX Runtime folds: where sizes are bound, its own inlining of an If inside an If has been seen to crash
(1.32, a network of three levels).
"""

import onnx_ir as ir

from edgekit.build.rewrite.matching import nodes
from edgekit.quantize.canonical import constant


def take_branches(model: ir.Model) -> bool:
    """True where the graph changed."""
    changed = False
    for node in nodes(model, "If"):
        condition = constant(node.inputs[0])
        if condition is not None and condition.size == 1:
            _inline(node, "then_branch" if bool(condition.reshape(-1)[0]) else "else_branch", model.graph)
            changed = True
    return changed


def _inline(node: ir.Node, which: str, graph: ir.Graph) -> None:
    branch = node.attributes[which].as_graph()
    results = list(branch.outputs)
    branch.outputs.clear()
    for name, value in tuple(branch.initializers.items()):
        del branch.initializers[name]
        count = 0
        while value.name in graph.initializers:
            count += 1
            value.name = f"{name}_{count}"
        graph.register_initializer(value)
    inner = tuple(branch)
    branch.remove(inner)
    graph.insert_before(node, inner)
    for old, new in zip(node.outputs, results, strict=True):
        copy = ir.node("Identity", [new], name=f"{node.name}.{old.name}", version=node.version)
        copy.outputs[0].shape, copy.outputs[0].type = new.shape, new.type
        graph.insert_before(node, copy)
        given = old.name
        ir.convenience.replace_all_uses_with(old, copy.outputs[0], replace_graph_outputs=True)
        old.name = None
        copy.outputs[0].name = given
    graph.remove(node, safe=True)
