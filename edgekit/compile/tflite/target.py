"""The LiteRT target: a canonical graph to one `model.tflite`, float or int8."""

from collections.abc import Mapping, Sequence
from typing import Final

import ai_edge_litert.schema_py_generated as schema
import numpy as np
import onnx_ir as ir

from edgekit.compile.target import Emitted
from edgekit.compile.tflite import layout
from edgekit.compile.tflite.axes import Axes, arranged, as_is
from edgekit.compile.tflite.dims import dims
from edgekit.compile.tflite.first_sizes import first_sizes
from edgekit.compile.tflite.flatfile import DTYPES, FREE, FlatFile, Tensor
from edgekit.compile.tflite.forms import Form, Forms
from edgekit.compile.tflite.lowering import Lower, Need, broken, dtype_of
from edgekit.compile.tflite.plan import plan
from edgekit.compile.tflite.site import Site
from edgekit.compile.tflite.table import ROWS
from edgekit.core.artifact import Port
from edgekit.core.errors import Refusal, RuntimeRefuses, Unsupported
from edgekit.quantize.quantized import QuantizedModel

FILE: Final = "model.tflite"


class LiteRtTarget:
    """Implements `edgekit.compile.target.Target`."""

    name = "litert"

    def refusals(self, model: ir.Model) -> tuple[Refusal, ...]:
        """Each node that no row of the operator table takes, with the condition that it breaks."""
        ports = (_untyped(self.name, value) for value in model.graph.inputs)
        nodes = (self._refusal(node) for node in model.graph)
        return tuple(found for found in (*ports, *nodes) if found is not None)

    def emit_float(self, model: ir.Model) -> Emitted:
        """One float file. Raises `RuntimeRefuses`."""
        return self._emit(model, None)

    def emit_integer(self, quantized: QuantizedModel) -> Emitted:
        """One file with 8-bit and float parts; inputs and outputs keep the model's types. Raises `RuntimeRefuses`."""
        return self._emit(quantized.model, quantized)

    def supported_operators(self) -> tuple[tuple[str, str, str], ...]:
        """(operator, conditions, int8) for the table of the documentation."""
        return tuple(
            (
                row.op,
                "; ".join(need.words for need in row.needs),
                "float kernel between 8-bit tensors"
                if row.int8 is None
                else "; ".join(n.words for n in row.int8) or "yes",
            )
            for op in sorted(ROWS)
            for row in ROWS[op]
        )

    def _refusal(self, node: ir.Node) -> Refusal | None:
        found = select(node)
        if isinstance(found, Lower):
            return None
        reason, remedy = found
        return Refusal(self.name, str(node.name), node.op_type, reason, remedy)

    def _emit(self, model: ir.Model, quantized: QuantizedModel | None) -> Emitted:
        refused = self.refusals(model)
        if refused:
            raise RuntimeRefuses(refused)
        graph = model.graph
        rows = {str(n.name): row for n in graph if isinstance(row := select(n), Lower)}
        chosen = layout.solve(graph, {name: row.layout for name, row in rows.items()})
        file = FlatFile()
        file.reserve([str(v.name) for v in (*graph.inputs, *graph.outputs)])
        forms = Forms(file)
        inputs = _inputs(graph.inputs, chosen.inputs, forms)
        for step in plan(graph, rows, chosen.frames, quantized):
            site = Site(step, forms, quantized)
            step.row.emit(site)
            site.finish()
        outputs = _outputs(graph.outputs, forms, inputs)
        data = file.finish(
            {name: form.tensor for name, form in inputs.items()},
            {name: form.tensor for name, form in outputs.items()},
            _first_shapes(model, inputs),
        )
        return Emitted({FILE: data}, _ports(graph.inputs, inputs), _ports(graph.outputs, outputs))


def _inputs(values: Sequence[ir.Value], orders: Mapping[str, Axes], forms: Forms) -> dict[str, Form]:
    found = {}
    for value in values:
        name = str(value.name)
        tensor = forms.file.rename(forms.declare(value, orders[name], None), name)
        found[name] = Form(orders[name], tensor)
        forms.put(value, found[name])
    return found


def _outputs(values: Sequence[ir.Value], forms: Forms, inputs: Mapping[str, Form]) -> dict[str, Form]:
    """A tensor of its own for every output, under the model's name."""
    taken = {form.tensor.index for form in inputs.values()}
    found = {}
    for value in values:
        form = forms.get(value, layout.port_orders(value), None)
        tensor = form.tensor
        if tensor.index in taken or forms.file.is_constant(tensor):
            tensor = _copy(forms.file, tensor)
        taken.add(tensor.index)
        found[str(value.name)] = Form(form.axes, forms.file.rename(tensor, str(value.name)))
    return found


def _first_shapes(model: ir.Model, inputs: Mapping[str, Form]) -> dict[int, tuple[int, ...]]:
    """Shapes of the file's inputs until the caller resizes them."""
    sizes = first_sizes(model)
    found = {}
    for value in model.graph.inputs:
        form = inputs[str(value.name)]
        shape = [d if isinstance(d, int) else sizes[d] for d in dims(value)]
        found[form.tensor.index] = arranged(shape, form.axes)
    return found


def _ports(values: Sequence[ir.Value], forms: Mapping[str, Form]) -> tuple[Port, ...]:
    ports = []
    for value in values:
        axes = forms[str(value.name)].axes
        as_model = axes == as_is(len(axes))
        ports.append(Port(str(value.name), dtype_of(value), dims(value), None if as_model else axes))
    return tuple(ports)


def select(node: ir.Node) -> Lower | tuple[str, str]:
    """The row that takes this node, or (reason, remedy)."""
    rows = ROWS.get(node.op_type) if node.domain in ("", "ai.onnx") else None
    if rows is None:
        where = f"{node.domain}.{node.op_type}" if node.domain else node.op_type
        return f"no lowering for operator {where}", "run it on another runtime, or replace it before export"
    reasons = []
    for row in rows:
        found = broken((*_COMMON, *row.needs), node)
        if found is None:
            return row
        reasons.append((found[1], found[0].remedy))
    return reasons[-1]  # later rows are the more general ones


def _untyped(runtime: str, value: ir.Value) -> Refusal | None:
    """An input of a type that no file can hold, or of unknown rank."""
    try:
        dims(value)
        reason = None if dtype_of(value) in DTYPES else f"'{value.name}' has type {dtype_of(value)}"
    except Unsupported as unknown:
        reason = unknown.why
    if reason is None:
        return None
    return Refusal(runtime, str(value.name), "input", reason, "cast it before export, or bind its shape")


def _typed(node: ir.Node) -> str | None:
    for value in (*node.inputs, *node.outputs):
        if value is None or not value.name:
            continue
        if dtype_of(value) not in DTYPES:
            return f"'{value.name}' has type {dtype_of(value)}"
        dims(value)
    return None


_COMMON: Final = (Need("known shapes and types", _typed),)


def _copy(file: FlatFile, tensor: Tensor) -> Tensor:
    made = file.tensor(tensor.name, tensor.shape, tensor.dtype, tensor.q)
    if not tensor.shape:
        shape = file.constant("shape", np.zeros(0, np.int32))
        file.operator("RESHAPE", [tensor, shape], [made], schema.ReshapeOptionsT([]))
        return made
    rank = len(tensor.shape)
    begin, size = (file.constant(n, np.full(rank, v, np.int32)) for n, v in (("begin", 0), ("size", FREE)))
    file.operator("SLICE", [tensor, begin, size], [made], schema.SliceOptionsT())
    return made


TARGET: Final = LiteRtTarget()
