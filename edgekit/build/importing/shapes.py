"""Shape inference from the inputs alone: what an exporter noted counts only where nothing can be inferred."""

import re
from typing import Final

import onnx
import onnx_ir as ir

from edgekit.build.importing.binding import NAMELESS
from edgekit.build.importing.structure import all_graphs, proto_graphs

_INVENTED: Final = re.compile(r"unk__\d+\Z")
_LARGE: Final = 1024  # bytes: no shape, pad or axis list is longer
_LIKE_FIRST_INPUT: Final = ("GroupNormalization", "MeanVarianceNormalization")


def infer_shapes(model: ir.Model, *, are_noted_true: bool = False) -> None:
    """Fill in shapes and dtypes of all values as far as inference can tell.

    Shapes noted in the file may be of another binding (another batch), so they are set aside first; `are_noted_true`
    says that they came from here and complete what is inferred now. An output's declared shape fills what inference
    leaves open (its numbers only where no input is free: exporters freeze the batch of their example), and remaining
    free sizes are named `output.axis`.
    """
    inputs = model.graph.inputs
    trusts_numbers = are_noted_true or all(_is_static(value.shape) for value in inputs)
    own = frozenset(str(dim.value) for v in inputs for dim in v.shape or () if isinstance(dim, ir.SymbolicDim))
    noted: list[tuple[ir.Value, ir.Shape | None]] = []
    for graph in all_graphs(model):
        for node in graph:
            for value in node.outputs:
                noted.append((value, value.shape))
                value.shape = None
    _run_to_the_end(model)
    outputs = {id(value) for value in model.graph.outputs}
    is_filled = False
    for value, shape in noted:
        if id(value) in outputs:
            value.shape = _merged(value.shape, shape, str(value.name), own, trusts_numbers)
        elif are_noted_true and value.shape is not None and shape is not None:
            value.shape = _completed(value.shape, shape, own)
        elif value.shape is None and shape is not None:
            value.shape, is_filled = shape, True
    if is_filled:
        _run_to_the_end(model)


def _run_to_the_end(model: ir.Model) -> None:
    """Inference, again behind each node of an operator that `onnx` has no rule for."""
    _run(model)
    stuck = [node for graph in all_graphs(model) for node in graph if node.op_type in _LIKE_FIRST_INPUT]
    while stuck:
        waiting = []
        for node in stuck:
            source, result = node.inputs[0], node.outputs[0]
            if source is not None and source.shape is not None:
                result.shape = result.shape or source.shape
            else:
                waiting.append(node)
        if len(waiting) == len(stuck):
            return
        _run(model)
        stuck = waiting


def _run(model: ir.Model) -> None:
    """One pass of `onnx`'s inference; sequence and optional types are kept, which onnx-ir's own pass turns to tensors.

    Where inference fails the graph is left as it was: a later stage names the node.
    """
    proto = _without_weights(model)
    try:
        inferred = onnx.shape_inference.infer_shapes(proto, check_type=False, strict_mode=False, data_prop=True)
    except (onnx.shape_inference.InferenceError, ValueError, RuntimeError, TypeError):
        return
    found = {info.name: info for graph in proto_graphs(inferred.graph) for info in (*graph.value_info, *graph.output)}
    for graph in all_graphs(model):
        for node in graph:
            for value in node.outputs:
                info = found.get(str(value.name))
                if info is None:
                    continue
                kind, shape = _read(info.type)
                value.type = value.type if kind is None else kind
                value.shape = value.shape if shape is None else shape


def _without_weights(model: ir.Model) -> onnx.ModelProto:
    """The model with its large weights as inputs: their values tell nothing of shapes, and protobuf ends at 2 GB."""
    graph = model.graph
    for each in all_graphs(model):
        for value in each.initializers.values():
            if value.const_value is not None:
                value.shape = ir.Shape(value.const_value.shape.numpy())
                value.type = ir.TensorType(value.const_value.dtype)
    large = [v for v in graph.initializers.values() if v.const_value is not None and v.const_value.nbytes > _LARGE]
    kept = len(graph.inputs)
    for value in large:
        graph.initializers.pop(str(value.name))
        graph.inputs.append(value)
    try:
        return ir.to_proto(model)
    finally:
        del graph.inputs[kept:]
        for value in large:
            graph.register_initializer(value)


def _read(kind: onnx.TypeProto) -> tuple[ir.TypeProtocol | None, ir.Shape | None]:
    return ir.serde.deserialize_type_proto_for_type(kind), ir.serde.deserialize_type_proto_for_shape(kind)


def _is_static(shape: ir.Shape | None) -> bool:
    return shape is not None and all(isinstance(dim, int) for dim in shape)


def _merged(
    inferred: ir.Shape | None, declared: ir.Shape | None, name: str, own: frozenset[str], trusts_numbers: bool
) -> ir.Shape | None:
    """Inferred sizes first, then declared ones, then a name."""
    if inferred is None:
        inferred = declared
    if inferred is None:
        return None
    hints = list(declared) if declared is not None and len(declared) == len(inferred) else list(inferred)
    merged: list[int | ir.SymbolicDim] = []
    for axis, (dim, hint) in enumerate(zip(inferred, hints, strict=True)):
        is_final = _is_known(dim, own) or (isinstance(hint, int) and not trusts_numbers)
        known = dim if is_final else hint
        merged.append(known if _is_known(known, own) else ir.SymbolicDim(f"{name}.{axis}"))
    return ir.Shape(merged)


def _completed(inferred: ir.Shape, noted: ir.Shape, own: frozenset[str]) -> ir.Shape:
    """Sizes that were known before, where a rewritten node hides them from inference now."""
    if len(inferred) != len(noted):
        return inferred
    return ir.Shape([a if _is_known(a, own) else b for a, b in zip(inferred, noted, strict=True)])


def _is_known(dim: int | ir.SymbolicDim, own: frozenset[str]) -> bool:
    """A size, or a name that says something: inference invents names that no input has."""
    if isinstance(dim, int):
        return dim >= 0
    return dim.value is not None and dim.value not in NAMELESS and (dim.value in own or not _INVENTED.match(dim.value))
