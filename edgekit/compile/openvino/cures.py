"""Rewrites of an ONNX graph around what OpenVINO's CPU plugin gets wrong; each keeps the graph's values.

Seen with OpenVINO 2026.4; `tests/compile/openvino/test_cures.py` holds each of them.
"""

from collections import Counter
from collections.abc import Iterable

import numpy as np
import onnx
from onnx import helper, numpy_helper

_PASSES_VALUES = {"QuantizeLinear", "DequantizeLinear", "Identity"}


def cure(model: onnx.ModelProto) -> None:
    """Rewrites `model` in place; what needs no cure keeps its nodes and their order."""
    names = _Names(model.graph)
    _lift_slopes(model.graph, names)
    _part_attention(model.graph, names)


class _Names:
    """Tensor and node names that the graph does not use."""

    def __init__(self, graph: onnx.GraphProto) -> None:
        self._taken = {name for node in graph.node for name in (node.name, *node.input, *node.output)}
        self._taken |= {each.name for each in (*graph.input, *graph.output, *graph.initializer)}

    def fresh(self, name: str) -> str:
        while name in self._taken:
            name += "_"
        self._taken.add(name)
        return name


def _lift_slopes(graph: onnx.GraphProto, names: _Names) -> None:
    """A slope along the last axis gets a leading axis.

    ONNX broadcasts a PRelu's 1-D slope along the last axis; OpenVINO reads it as one slope per channel wherever its
    size is also the number of channels.
    """
    ranks = {each.name: len(each.dims) for each in graph.initializer}
    for node in graph.node:
        if node.op_type in _PASSES_VALUES and node.input[0] in ranks:
            ranks[node.output[0]] = ranks[node.input[0]]
    nodes: list[onnx.NodeProto] = []
    axes = ""
    for node in graph.node:
        if node.op_type == "PRelu" and ranks.get(node.input[1]) == 1:
            axes = axes or _constant(graph, names.fresh("leading_axis"), np.array([0], np.int64))
            lifted = names.fresh(f"{node.input[1]}/lifted")
            nodes.append(
                helper.make_node("Unsqueeze", [node.input[1], axes], [lifted], name=names.fresh(f"{lifted}/node"))
            )
            node.input[1] = lifted
        nodes.append(node)
    _replace(graph, nodes)


def _part_attention(graph: onnx.GraphProto, names: _Names) -> None:
    """Where the result of softmax(q k) v is read more than once, its readers get it through a maximum with -max.

    The plugin fuses the reader (an Add, say) into the attention although the result is needed elsewhere, and crashes
    in `compile_model`. Nothing but the fusion changes: max(x, lowest float) is x.
    """
    uses = Counter(name for node in graph.node for name in node.input) + Counter(each.name for each in graph.output)
    producers = {name: node for node in graph.node for name in node.output}
    parted: dict[str, str] = {}
    nodes: list[onnx.NodeProto] = []
    lowest = ""
    for node in graph.node:
        node.input[:] = [parted.get(name, name) for name in node.input]
        nodes.append(node)
        if node.op_type == "MatMul" and uses[node.output[0]] > 1 and _is_softmax(producers, node.input[0]):
            low = np.float32(np.finfo(np.float32).min)
            lowest = lowest or _constant(graph, names.fresh("lowest"), np.asarray(low))
            result = node.output[0]
            parted[result] = names.fresh(f"{result}/parted")
            name = names.fresh(f"{parted[result]}/node")
            nodes.append(helper.make_node("Max", [result, lowest], [parted[result]], name=name))
    _replace(graph, nodes)


def _is_softmax(producers: dict[str, onnx.NodeProto], name: str) -> bool:
    node = producers.get(name)
    while node is not None and node.op_type in _PASSES_VALUES:
        node = producers.get(node.input[0])
    return node is not None and node.op_type == "Softmax"


def _constant(graph: onnx.GraphProto, name: str, array: "np.ndarray[tuple[int, ...], np.dtype[np.generic]]") -> str:
    graph.initializer.append(numpy_helper.from_array(array, name))
    return name


def _replace(graph: onnx.GraphProto, nodes: Iterable[onnx.NodeProto]) -> None:
    copies = list(nodes)
    if len(copies) != len(graph.node):
        kept = [onnx.NodeProto.FromString(node.SerializeToString()) for node in copies]
        del graph.node[:]
        graph.node.extend(kept)
