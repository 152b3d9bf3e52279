"""What is decided about each node before anything is written: how it computes, and which clamp it swallows.

Pure: a graph, the rows of the table and the integers in, one `Step` per node out.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

import ai_edge_litert.schema_py_generated as schema
import numpy as np
import onnx_ir as ir

from edgekit.compile.tflite.axes import Axes
from edgekit.compile.tflite.lowering import Lower, broken
from edgekit.compile.tflite.views import View
from edgekit.quantize.canonical import clamp_bounds, constant
from edgekit.quantize.quantized import QParams, QuantizedModel

INF: Final = float("inf")
_CODES: Final = {
    (0.0, INF): schema.ActivationFunctionType.RELU,
    (0.0, 6.0): schema.ActivationFunctionType.RELU6,
    (-1.0, 1.0): schema.ActivationFunctionType.RELU_N1_TO_1,
}


class Mode(Enum):
    """How a node computes."""

    FLOAT = "float"
    INTEGER = "integer"  # 8-bit in, 8-bit out
    ROUNDED = "rounded"  # 8-bit tensors around a float kernel: there is no integer one


@dataclass(frozen=True, slots=True)
class Clamp:
    """Bounds of a Relu or Clip; infinite where absent."""

    lo: float
    hi: float

    @property
    def code(self) -> int | None:
        """The fused activation that does this, or None."""
        found: int | None = _CODES.get((self.lo, self.hi))
        return found

    def first(self, q: QParams) -> int:
        """The lowest 8-bit value that passes."""
        return 0 if self.lo == -INF else int(np.clip(np.rint(self.lo / q.scale) + q.zero_point, 0, 255))

    def last(self, q: QParams) -> int:
        """The highest 8-bit value that passes."""
        return 255 if self.hi == INF else int(np.clip(np.rint(self.hi / q.scale) + q.zero_point, 0, 255))


@dataclass(frozen=True, slots=True)
class Step:
    """One node to be emitted. `tail`: the clamp behind it that is part of it, so that it writes the clamp's output."""

    node: ir.Node
    row: Lower
    frame: Axes
    view: View
    mode: Mode
    tail: ir.Node | None = None
    clamp: Clamp | None = None

    def result(self, index: int) -> ir.Value:
        """The value that output `index` of the emitted operator stands for."""
        return self.tail.outputs[0] if self.tail is not None and index == 0 else self.node.outputs[index]


def clamp_of(node: ir.Node | None) -> Clamp | None:
    """The bounds if the node is a Relu or a Clip with constant bounds of a float tensor."""
    if node is None or node.outputs[0].dtype != ir.DataType.FLOAT:
        return None
    if node.op_type not in ("Relu", "Clip") or any(v is not None and constant(v) is None for v in node.inputs[1:]):
        return None
    return Clamp(*clamp_bounds(node))


def plan(
    graph: ir.Graph, rows: Mapping[str, Lower], frames: Mapping[str, Axes], quantized: QuantizedModel | None
) -> list[Step]:
    """Steps in execution order; clamps that became part of the node before them are left out. Keys are node names."""
    swallowed: set[str] = set()
    steps = []
    for node in graph:
        name = str(node.name)
        if name in swallowed:
            continue
        row, frame = rows[name], frames[name]
        step = _decide(Step(node, row, frame, row.layout.view(node, frame), Mode.FLOAT), quantized)
        if step.tail is not None:
            swallowed.add(str(step.tail.name))
        steps.append(step)
    return steps


def _decide(step: Step, quantized: QuantizedModel | None) -> Step:
    node, view, row = step.node, step.view, step.row
    tail = _sole_clamp(node)
    clamp = clamp_of(tail)
    fusible = row.fuses and clamp is not None and clamp.code is not None
    with_tail = Step(node, row, step.frame, view, Mode.FLOAT, tail, clamp)
    if quantized is None or node.name not in quantized.integer_nodes:
        is_float = tail is not None and (quantized is None or tail.name not in quantized.integer_nodes)
        return with_tail if fusible and is_float else step
    swallows = (
        tail is not None and tail.name in quantized.integer_nodes and node.outputs[0].name not in quantized.activations
    )
    if _has_kernel(step, quantized):
        for candidate in (with_tail, step) if swallows else (step,):
            if _has_outputs(candidate, quantized):
                return Step(node, row, step.frame, view, Mode.INTEGER, candidate.tail, candidate.clamp)
    if swallows and fusible:
        return Step(node, row, step.frame, view, Mode.ROUNDED, tail, clamp)
    return Step(node, row, step.frame, view, Mode.ROUNDED)


def out_params(step: Step, index: int, quantized: QuantizedModel) -> QParams | None:
    """Parameters of an 8-bit output: what the solver gave, or its hint for tensors that it left to the runtime."""
    name = str(step.result(index).name)
    return quantized.activations.get(name) or quantized.output_hint.get(name)


def _has_outputs(step: Step, quantized: QuantizedModel) -> bool:
    """Every float output has parameters, and such that the kernel rounds once."""
    found = [out_params(step, i, quantized) for i in range(_written(step.node))]
    source = step.node.inputs[0]
    if (
        step.row.one_scale
        and source is not None
        and any(q != quantized.activations.get(str(source.name)) for q in found)
    ):
        return False
    return all(q is not None for q in found)


def _written(node: ir.Node) -> int:
    return len([v for v in node.outputs if v.name and v.dtype == ir.DataType.FLOAT])


def _has_kernel(step: Step, quantized: QuantizedModel) -> bool:
    """The table has an integer kernel, and every tensor that it reads as 8-bit has parameters."""
    node, row = step.node, step.row
    if row.int8 is None or broken(row.int8, node) is not None:
        return False
    for value, accepted in zip(node.inputs, step.view.inputs, strict=True):
        if value is None or accepted is None or value.dtype != ir.DataType.FLOAT:
            continue
        if value.name not in quantized.activations:
            return False
    return True


def _sole_clamp(node: ir.Node) -> ir.Node | None:
    value = node.outputs[0]
    readers = [use.node for use in value.uses()]
    if len(readers) != 1 or value.is_graph_output() or readers[0].inputs[0] is not value:
        return None
    return readers[0] if clamp_of(readers[0]) is not None else None
