"""An If whose condition is known becomes its branch.

Done here and not left to ONNX Runtime: version 1.32 ends in a segmentation fault when it inlines Ifs within Ifs (seen
with a voice detector that chooses by sampling rate and, inside, by the rank of its state).
"""

from typing import Final

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from edgekit.build.importing.shapes import infer_shapes
from edgekit.build.importing.structure import subgraphs
from edgekit.quantize.canonical import CANONICAL_OPSET, constant, integer

Array = NDArray[np.generic]
_LIMIT: Final = 1024  # elements: conditions are made of shapes and flags
_NEVER: Final = frozenset({"RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike", "Bernoulli"})


def settle_branches(model: ir.Model) -> None:
    """Inline the branch of each If whose condition follows from constants and known shapes; `model` has shapes."""
    while decided := _decided(model.graph):
        for node, takes_then in decided:
            _inline(model.graph, node, takes_then=takes_then)
        infer_shapes(model, are_noted_true=True)


def _decided(graph: ir.Graph) -> list[tuple[ir.Node, bool]]:
    """Ifs of the graph whose way is known. Those inside an open If wait: its branches may contradict each other."""
    known: dict[int, Array | None] = {}
    choices = [(node, _value(node.inputs[0], known)) for node in graph if node.op_type == "If"]
    return [(node, bool(value.all())) for node, value in choices if value is not None]


def _inline(graph: ir.Graph, node: ir.Node, *, takes_then: bool) -> None:
    chosen, other = node.attributes["then_branch"].as_graph(), node.attributes["else_branch"].as_graph()
    if not takes_then:
        chosen, other = other, chosen
    results = tuple(chosen.outputs)
    chosen.outputs.clear()
    for value in tuple(chosen.initializers.values()):
        chosen.initializers.pop(str(value.name))
        graph.register_initializer(value)
    moved = tuple(chosen)
    chosen.remove(moved)
    graph.insert_before(node, moved)
    for old, new in zip(node.outputs, results, strict=True):
        name = old.name if old.is_graph_output() else None
        ir.convenience.replace_all_uses_with(old, new, replace_graph_outputs=True)
        if name is not None:
            old.name, new.name = None, name
            new.shape = old.shape if new.shape is None else new.shape
    graph.remove(node, safe=True)
    _detach(node)
    for each in ir.traversal.RecursiveGraphIterator(other):
        _detach(each)


def _detach(node: ir.Node) -> None:
    """A node that is gone reads nothing any more, or its inputs would still count it as a reader."""
    for index in range(len(node.inputs)):
        node.replace_input_with(index, None)


def _value(value: ir.Value | None, known: dict[int, Array | None]) -> Array | None:
    """What a value is in every run, or None."""
    if value is None:
        return None
    if id(value) not in known:
        known[id(value)] = None  # until it is found; a value cannot wait for itself
        known[id(value)] = _found(value, known)
    return known[id(value)]


def _found(value: ir.Value, known: dict[int, Array | None]) -> Array | None:
    if value.const_value is not None:
        return constant(value) if value.const_value.size <= _LIMIT else None
    node = value.producer()
    if node is None or node.op_type in _NEVER or any(True for _ in subgraphs(node)):
        return None
    if node.op_type in ("Shape", "Size"):
        return _measured(node)
    inputs = [_value(each, known) for each in node.inputs if each is not None]
    arrays = [array for array in inputs if array is not None]
    if len(arrays) != len(inputs):
        return None
    return _computed(node, value, arrays)


def _measured(node: ir.Node) -> Array | None:
    """Shape or Size of a tensor whose size is known."""
    source = node.inputs[0]
    if source is None or source.shape is None:
        return None
    sizes = list(source.shape)
    if node.op_type == "Shape":
        sizes = sizes[integer(node, "start", 0) : integer(node, "end", len(sizes))]
    numbers = [size for size in sizes if isinstance(size, int)]
    if len(numbers) != len(sizes):
        return None
    return np.asarray(numbers if node.op_type == "Shape" else np.prod(numbers, dtype=np.int64), np.int64)


def _computed(node: ir.Node, value: ir.Value, arrays: list[Array]) -> Array | None:
    """One node's answer by ONNX's reference implementation; None where it has none."""
    from onnx.reference import ReferenceEvaluator

    proto = ir.to_proto(node)
    names = [name for name in proto.input if name]
    try:
        evaluator = ReferenceEvaluator(proto, opsets={"": CANONICAL_OPSET})
        results = evaluator.run(None, dict(zip(names, arrays, strict=True)))
    except (NotImplementedError, RuntimeError, TypeError, ValueError, AttributeError, IndexError, KeyError):
        return None
    assert isinstance(results, list)
    result = np.asarray(results[list(proto.output).index(value.name)])
    return result if result.size <= _LIMIT else None
