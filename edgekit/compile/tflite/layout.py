"""Chooses the frame of every node of a graph, so that as little as possible is transposed.

A labelling problem: nodes with one frame are given, the others take the label at which the transposes on their edges
cost least. Labels come from the neighbours; regions that can change together are tried together. Inputs and outputs of
the graph with four axes are free to be channels-last (the caller's transpose costs nothing there).
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import onnx_ir as ir

from edgekit.compile.tflite.axes import Axes, as_is, channels_last, same_memory
from edgekit.compile.tflite.dims import dims, elements, rank, static
from edgekit.compile.tflite.views import Rule, View

CALL_COST: Final = 2000
"""What one more operator costs, in elements moved."""
MAX_LABELS: Final = 6
SWEEPS: Final = 8


@dataclass(frozen=True, slots=True)
class Layout:
    """The choice. `frames` by node name; `inputs`: the order in which the file takes each graph input."""

    frames: Mapping[str, Axes]
    inputs: Mapping[str, Axes]


def port_orders(value: ir.Value) -> tuple[Axes, ...]:
    """The orders in which a file may hold this graph input or output."""
    found = rank(value)
    return (as_is(found), channels_last(found)) if found == 4 else (as_is(found),)


def solve(graph: ir.Graph, rules: Mapping[str, Rule]) -> Layout:
    """`rules` by node name."""
    return _Solver(graph, rules).solve()


class _Solver:
    """The labelling in progress: a label per node name, and per graph input under the key "input:name"."""

    def __init__(self, graph: ir.Graph, rules: Mapping[str, Rule]) -> None:
        self.rules = rules
        self.nodes = {str(n.name): n for n in graph}
        self.order = list(self.nodes)
        self.place = {name: i for i, name in enumerate(self.order)}
        self.values: dict[str, ir.Value] = {}
        self.readers: dict[str, list[tuple[str, int]]] = defaultdict(list)
        self.writer: dict[str, tuple[str, int]] = {}
        self.exits = {str(v.name) for v in graph.outputs}
        for value in graph.inputs:
            self.values[str(value.name)] = value
            self.writer[str(value.name)] = (f"input:{value.name}", 0)
        for name, node in self.nodes.items():
            for index, value in enumerate(v for v in node.outputs if v.name):
                self.values[str(value.name)] = value
                self.writer[str(value.name)] = (name, index)
            for index, read in enumerate(node.inputs):
                if read is not None and read.const_value is None:
                    self.readers[str(read.name)].append((name, index))
        self.inputs = {f"input:{v.name}": v for v in graph.inputs}
        self.labels: dict[str, list[Axes]] = {}
        self.chosen: dict[str, Axes] = {}
        self.cache: dict[tuple[str, Axes], View] = {}

    def solve(self) -> Layout:
        self._propose()
        for key, labels in self.labels.items():
            self.chosen[key] = labels[0]
        self._follow_inputs()
        for _ in range(SWEEPS):
            before = dict(self.chosen)
            for key in (*self.order, *self.inputs, *reversed(self.order)):
                self._improve(key)
            if self.chosen == before:
                break
        frames = {k: v for k, v in self.chosen.items() if k in self.nodes}
        return Layout(frames, {str(v.name): self.chosen[k] for k, v in self.inputs.items()})

    def _view(self, name: str, frame: Axes) -> View:
        key = (name, frame)
        if key not in self.cache:
            self.cache[key] = self.rules[name].view(self.nodes[name], frame)
        return self.cache[key]

    def _written(self, value: str) -> Axes:
        key, index = self.writer[value]
        return self.chosen[key] if key in self.inputs else self._view(key, self.chosen[key]).outputs[index]

    def _propose(self) -> None:
        """Label sets: what a node can do by itself, then what its neighbours would like, to a fixed point."""
        for key, value in self.inputs.items():
            self.labels[key] = list(port_orders(value))
        for name, node in self.nodes.items():
            rule = self.rules[name]
            self.labels[name] = list(rule.fixed(node)) if rule.fixed is not None else [rule.default(node)]
        queue = [*self.order, *reversed(self.order)]
        while queue:
            changed = [name for name in queue if self._adopt(name)]
            queue = sorted(
                {n for name in changed for n in self._neighbours(name) if n in self.nodes}, key=self.place.__getitem__
            )

    def _neighbours(self, name: str) -> list[str]:
        node = self.nodes[name]
        near = [self.writer[str(v.name)][0] for v in node.inputs if v is not None and str(v.name) in self.writer]
        return near + [r for v in node.outputs for r, _ in self.readers.get(str(v.name), ())] + [name]

    def _adopt(self, name: str) -> bool:
        node, rule = self.nodes[name], self.rules[name]
        if rule.fixed is not None:
            return False
        labels, grown = self.labels[name], False
        for frame in (*self._from_writers(node, rule), *self._from_readers(node, rule)):
            if frame is not None and frame not in labels and len(labels) < MAX_LABELS and rule.allows(node, frame):
                labels.append(frame)
                grown = True
        return grown

    def _from_writers(self, node: ir.Node, rule: Rule) -> list[Axes | None]:
        found: list[Axes | None] = []
        for index, value in enumerate(node.inputs):
            if value is None or str(value.name) not in self.writer:
                continue
            key, output = self.writer[str(value.name)]
            for label in self.labels[key]:
                axes = label if key in self.inputs else self._view(key, label).outputs[output]
                found.append(rule.from_input(node, index, axes))
        return found

    def _from_readers(self, node: ir.Node, rule: Rule) -> list[Axes | None]:
        found: list[Axes | None] = []
        for index, value in enumerate(v for v in node.outputs if v.name):
            for reader, position in self.readers.get(str(value.name), ()):
                for label in self.labels[reader]:
                    wanted = self._view(reader, label).inputs[position]
                    found.extend(rule.from_output(node, index, axes) for axes in wanted or ())
            if str(value.name) in self.exits:
                found.extend(rule.from_output(node, index, axes) for axes in port_orders(value))
        return found

    def _follow_inputs(self) -> None:
        """A first guess: each node takes the label at which its inputs cost least."""
        for name in self.order:
            node = self.nodes[name]
            read = [str(v.name) for v in node.inputs if v is not None and str(v.name) in self.writer]
            self.chosen[name] = min(self.labels[name], key=lambda f: self._cost_with(name, f, read))

    def _cost_with(self, key: str, label: Axes, values: Sequence[str]) -> int:
        old, self.chosen[key] = self.chosen[key], label
        cost = sum(self._edge_cost(v) for v in dict.fromkeys(values))
        self.chosen[key] = old
        return cost

    def _touched(self, key: str) -> list[str]:
        if key in self.inputs:
            return [str(self.inputs[key].name)]
        node = self.nodes[key]
        read = [str(v.name) for v in node.inputs if v is not None and str(v.name) in self.writer]
        return read + [str(v.name) for v in node.outputs if v.name]

    def _edge_cost(self, value: str) -> int:
        """What its readers' orders cost, each other order once."""
        written, shape = self._written(value), dims(self.values[value])
        others = set()
        for reader, position in self.readers.get(value, ()):
            wanted = self._view(reader, self.chosen[reader]).inputs[position]
            if wanted is not None and written not in wanted:
                others.add(wanted[0])
        if value in self.exits and written not in (ports := port_orders(self.values[value])):
            others.add(ports[0])
        sizes = static(shape)
        return sum(CALL_COST + (0 if same_memory(sizes, written, o) else elements(shape)) for o in others)

    def _improve(self, key: str) -> None:
        """Try each other label for this node, alone and with the region that would follow it."""
        for label in self.labels[key]:
            if label == self.chosen[key]:
                continue
            for move in ({key: label}, self._region(key, label)):
                if self._gain(move) > 0:
                    self.chosen.update(move)
                    break

    def _gain(self, move: Mapping[str, Axes]) -> int:
        values = dict.fromkeys(v for key in move for v in self._touched(key))
        before = sum(map(self._edge_cost, values))
        old = {key: self.chosen[key] for key in move}
        self.chosen.update(move)
        after = sum(map(self._edge_cost, values))
        self.chosen.update(old)
        return before - after

    def _region(self, key: str, label: Axes) -> dict[str, Axes]:
        """The node and all that can follow it without a transpose between them."""
        move, queue = {key: label}, [key]
        while queue:
            at = queue.pop()
            for value in self._touched(at):
                axes = self._axes_at(at, move[at], value)
                for near, frame in self._followers(value, at, axes):
                    if near not in move and frame in self.labels[near] and frame != self.chosen[near]:
                        move[near] = frame
                        queue.append(near)
        return move

    def _axes_at(self, key: str, label: Axes, value: str) -> Axes | None:
        """The order that `key` gives or wants for `value` under `label`."""
        if key in self.inputs:
            return label
        view = self._view(key, label)
        writer, index = self.writer[value]
        if writer == key:
            return view.outputs[index]
        position = next(p for r, p in self.readers[value] if r == key)
        wanted = view.inputs[position]
        return wanted[0] if wanted else None

    def _followers(self, value: str, source: str, axes: Axes | None) -> list[tuple[str, Axes]]:
        if axes is None:
            return []
        found: list[tuple[str, Axes | None]] = []
        writer, index = self.writer[value]
        if writer != source:
            frame = axes if writer in self.inputs else self._proposal(writer, None, index, axes)
            found.append((writer, frame))
        found += [(r, self._proposal(r, p, 0, axes)) for r, p in self.readers.get(value, ()) if r != source]
        return [(key, frame) for key, frame in found if frame is not None]

    def _proposal(self, name: str, position: int | None, index: int, axes: Axes) -> Axes | None:
        rule, node = self.rules[name], self.nodes[name]
        if rule.fixed is not None:
            return None
        return rule.from_output(node, index, axes) if position is None else rule.from_input(node, position, axes)
