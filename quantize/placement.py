"""Which nodes compute in integers: linear nodes, and what lies between them.

8 bits pay where the multiply–accumulates are. What comes after the last linear node (decoding, softmax, a join of
boxes and scores) stays float: there is nothing to gain there, and a shared 8-bit scale would destroy small values.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence

import onnx_ir as ir

from edgekit.quantize.interpreter import captured
from edgekit.quantize.roles import Kind, Role, data_inputs, role

Name = str | None  # as the graph has it; every node of a canonical graph has one
Rows = Mapping[Name, Role]


def integer_nodes(model: ir.Model, keep_float: Collection[str] = ()) -> frozenset[str]:
    """Names of the nodes that compute in integers. `keep_float`: names that must not."""
    graph = model.graph
    rows = {n.name: r for n in graph if (r := role(n)) is not None and n.name not in keep_float}
    readers: dict[int, list[ir.Node]] = defaultdict(list)
    for node in graph:
        for value in (*node.inputs, *captured(node)):
            if value is not None:
                readers[id(value)].append(node)
    outputs = {id(v) for v in graph.outputs}

    def sole_reader(value: ir.Value) -> ir.Node | None:
        found = readers[id(value)]
        return found[0] if len(found) == 1 and id(value) not in outputs else None

    chosen = set(rows)
    while True:
        behind = _reached_from_linear(graph, rows, chosen)
        before = _reaching_linear(graph, rows, chosen, readers)
        kept = set()
        for node in graph:
            if node.name not in chosen:
                continue
            kind = rows[node.name].kind
            producer = node.inputs[0].producer() if node.inputs and node.inputs[0] is not None else None
            is_fused = (
                kind is Kind.CLAMP
                and producer is not None
                and producer.name in chosen
                and rows[producer.name].kind is Kind.LINEAR
                and sole_reader(producer.outputs[0]) is node
            )
            if kind is Kind.LINEAR or is_fused or (node.name in behind and node.name in before):
                kept.add(node.name)
        if kept == chosen:
            return frozenset(str(name) for name in chosen)
        chosen = kept


def _reached_from_linear(graph: ir.Graph, rows: Rows, chosen: Collection[Name]) -> set[Name]:
    """Chosen nodes whose every activation comes from a linear node (or straight from an input) through chosen nodes."""
    inputs = {id(v) for v in graph.inputs}
    passing = set(inputs)  # values that only moved since they entered: as good as the input itself
    reached: set[Name] = set()
    for node in graph:
        if node.name not in chosen:
            continue
        row = rows[node.name]
        feeds = [v for v in data_inputs(node, row) if v.const_value is None]
        if row.kind is Kind.LINEAR:
            reached.add(node.name)
        elif feeds and all(
            id(v) in passing or ((p := v.producer()) is not None and p.name in reached and p.name in chosen)
            for v in feeds
        ):
            reached.add(node.name)
            if row.kind is Kind.SAME and all(id(v) in passing for v in feeds):
                passing |= {id(v) for v in node.outputs}
    return reached


def _reaching_linear(
    graph: ir.Graph, rows: Rows, chosen: Collection[Name], readers: Mapping[int, Sequence[ir.Node]]
) -> set[Name]:
    """Chosen nodes with a linear node among their descendants through chosen nodes."""
    reaching: set[Name] = set()
    for node in reversed(graph):
        if node.name in chosen and (
            rows[node.name].kind is Kind.LINEAR
            or any(
                r.name in reaching and any(d is v for d in data_inputs(r, rows[r.name]))
                for v in node.outputs
                for r in readers[id(v)]
            )
        ):
            reaching.add(node.name)
    return reaching
