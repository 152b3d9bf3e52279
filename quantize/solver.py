"""Parameters of every 8-bit tensor, solved once for all runtimes.

Pure: ranges in, parameters out. Tensors that must share a scale form classes (union-find); a class takes the union of
its members' ranges; operators with a result scale of their own (sigmoid, tanh) pin their class. What cannot be solved
is not patched: the node that ties two incompatible classes is named, and the caller computes it in float.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import onnx_ir as ir

from edgekit.quantize.canonical import constant, text
from edgekit.quantize.interpreter import captured
from edgekit.quantize.observers import Interval
from edgekit.quantize.quantized import QParams
from edgekit.quantize.roles import Kind, data_inputs, role
from edgekit.quantize.useful import useful_range

SMALLEST_SCALE: Final = 1e-9  # the product with a weight scale must stay a normal float32
_EMPTY: Final = QParams(float(np.float32(1 / 255)), 0)


def params_for(interval: Interval) -> QParams:
    """The 8-bit parameters that cover the interval: zero exact, each end missed by at most half a step."""
    lo, hi = min(interval.lo, 0.0), max(interval.hi, 0.0)
    if hi == lo:
        return _EMPTY
    scale = max((hi - lo) / 255, SMALLEST_SCALE)
    return QParams(float(np.float32(scale)), int(np.clip(np.rint(-lo / scale), 0, 255)))


@dataclass(frozen=True, slots=True)
class Parameters:
    """`activations` and `output_hint` as in `QuantizedModel`; `demoted`: nodes whose scales cannot agree."""

    activations: Mapping[str, QParams]
    output_hint: Mapping[str, QParams]
    demoted: frozenset[str]


@dataclass(frozen=True, slots=True)
class Reading:
    """Which tensors of a graph are 8-bit, given the integer nodes."""

    rounded: tuple[str, ...]
    hinted: tuple[str, ...]


def fused_outputs(graph: ir.Graph, integer: Collection[str]) -> frozenset[str]:
    """Results of linear nodes that only their clamp reads: they stay in the accumulator."""
    outputs = {id(v) for v in graph.outputs}
    found = set()
    for node in graph:
        row = role(node) if node.name in integer else None
        if row is None or row.kind is not Kind.LINEAR:
            continue
        value = node.outputs[0]
        readers = value.consumers()
        if len(value.uses()) == 1 and id(value) not in outputs:
            reader = readers[0]
            reader_row = role(reader) if reader.name in integer else None
            if reader_row is not None and reader_row.kind is Kind.CLAMP and not _read_by_subgraph(graph, value):
                found.add(str(value.name))
    return frozenset(found)


def _read_by_subgraph(graph: ir.Graph, value: ir.Value) -> bool:
    return any(v is value for node in graph for v in captured(node))


def read(graph: ir.Graph, integer: Collection[str]) -> Reading:
    """Tensors that hold 8-bit values, and results of linear nodes that only float readers take."""
    fused = fused_outputs(graph, integer)
    rounded: dict[str, None] = {}
    results: dict[str, Kind] = {}
    for node in graph:
        row = role(node) if node.name in integer else None
        if row is None:
            continue
        for value in data_inputs(node, row):
            if str(value.name) not in fused:
                rounded[str(value.name)] = None
        for value in node.outputs:
            if value.name and value.name not in fused:
                results[str(value.name)] = row.kind
    hinted = tuple(n for n, k in results.items() if k is Kind.LINEAR and n not in rounded)
    rounded |= {n: None for n in results if n not in hinted}
    return Reading(tuple(rounded), hinted)


class _Classes:
    """Union-find over tensor names."""

    def __init__(self) -> None:
        self._parent: dict[str, str] = {}

    def find(self, name: str) -> str:
        while (up := self._parent.get(name, name)) != name:
            name = up
        return name

    def join(self, names: Iterable[str]) -> None:
        first, *rest = names
        for name in rest:
            self._parent[self.find(name)] = self.find(first)


def solve(
    model: ir.Model,
    integer: Collection[str],
    intervals: Mapping[str, Interval],
    fixed_inputs: Mapping[str, QParams] | None = None,
) -> Parameters:
    """Parameters for every tensor that an integer node reads or writes.

    `intervals`: observed range per float tensor. `fixed_inputs`: parameters of graph inputs that follow from the
    preprocessing (each 8-bit pixel an integer). Constant operands take the range of their values.
    """
    graph = model.graph
    reading = read(graph, integer)
    constants = {str(v.name): a for n in graph for v in n.inputs if v is not None and (a := constant(v)) is not None}
    useful = {str(v.name): useful_range(v) for n in graph for v in n.outputs if v.name}
    classes, pinned, ties = _Classes(), dict(fixed_inputs or {}), []
    for node in graph:
        row = role(node) if node.name in integer else None
        if row is None:
            continue
        if row.fixed is not None:
            pinned[str(node.outputs[0].name)] = row.fixed
        if row.kind is Kind.SAME:
            tied = [str(v.name) for v in (*data_inputs(node, row), *node.outputs) if v.name and v.name not in constants]
            classes.join(tied)
            ties.append((str(node.name), tied))

    members: dict[str, list[str]] = {}
    for name in reading.rounded:
        members.setdefault(classes.find(name), []).append(name)
    fills = _pad_fills(graph, integer)
    activations: dict[str, QParams] = {}
    conflicts: set[str] = set()
    for root, names in members.items():
        interval = Interval(0.0, 0.0)
        for name in names:
            interval = interval.union(_interval(name, intervals, constants, useful))
            for fill in fills.get(name, ()):
                interval = interval.union(Interval(min(fill, 0.0), max(fill, 0.0)))
        pins = {pinned[n] for n in names if n in pinned}
        params = params_for(interval)
        if pins:
            (params, *others) = sorted(pins, key=lambda p: -p.scale)
            slack = params.scale  # a sigmoid that reaches 1 ends one step above its last level
            if others or interval.lo < params.lo - slack or interval.hi > params.hi + slack:
                conflicts.add(root)
        activations |= dict.fromkeys(names, params)
    demoted = frozenset(node for node, tied in ties if classes.find(tied[0]) in conflicts)
    hints = {n: params_for(_interval(n, intervals, constants, useful)) for n in reading.hinted}
    return Parameters(activations, hints, demoted)


def _interval(
    name: str,
    intervals: Mapping[str, Interval],
    constants: Mapping[str, np.ndarray[tuple[int, ...], np.dtype[np.generic]]],
    useful: Mapping[str, Interval],
) -> Interval:
    if name in constants:
        array = constants[name]
        return Interval(float(min(array.min(initial=0), 0)), float(max(array.max(initial=0), 0)))
    seen = intervals.get(name, Interval(0.0, 0.0))
    needed = useful.get(name, seen)
    return Interval(max(seen.lo, needed.lo), min(seen.hi, needed.hi))


def _pad_fills(graph: ir.Graph, integer: Collection[str]) -> dict[str, list[float]]:
    """Numbers that Pad nodes write, by output tensor: they must lie in the range of its class."""
    fills: dict[str, list[float]] = {}
    for node in graph:
        if node.name in integer and node.op_type == "Pad" and text(node, "mode", "constant") == "constant":
            fill = constant(node.inputs[2]) if len(node.inputs) > 2 else None
            fills.setdefault(str(node.outputs[0].name), []).append(0.0 if fill is None else float(fill.flat[0]))
    return fills
