"""Shape inference from the inputs alone: what an exporter noted counts only where nothing can be inferred."""

import logging
from typing import Final

import onnx_ir as ir
import onnx_ir.passes.common as passes

from edgekit.build.importing.binding import NAMELESS
from edgekit.build.importing.structure import all_graphs

_LIKE_FIRST_INPUT: Final = ("GroupNormalization", "MeanVarianceNormalization")


def infer_shapes(model: ir.Model) -> None:
    """Fill in shapes and dtypes of all values as far as inference can tell.

    Shapes noted in the file may be of another binding (another batch), so they are set aside first. An output's
    declared shape fills what inference leaves open (its numbers only where no input is free: exporters freeze the batch
    of their example), and remaining free sizes are named `output.axis`.
    """
    trusts_numbers = all(_is_static(value.shape) for value in model.graph.inputs)
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
            value.shape = _merged(value.shape, shape, str(value.name), trusts_numbers)
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
    log = logging.getLogger("onnx_ir.passes.common.shape_inference")
    level = log.level
    log.setLevel(logging.CRITICAL)  # where inference fails, a later stage names the node; a traceback helps no one
    try:
        passes.ShapeInferencePass(check_type=False, strict_mode=False, data_prop=True)(model)
    finally:
        log.setLevel(level)


def _is_static(shape: ir.Shape | None) -> bool:
    return shape is not None and all(isinstance(dim, int) for dim in shape)


def _merged(inferred: ir.Shape | None, declared: ir.Shape | None, name: str, trusts_numbers: bool) -> ir.Shape | None:
    """Inferred sizes first, then declared ones, then a name."""
    if inferred is None:
        inferred = declared
    if inferred is None:
        return None
    hints = list(declared) if declared is not None and len(declared) == len(inferred) else list(inferred)
    merged: list[int | ir.SymbolicDim] = []
    for axis, (dim, hint) in enumerate(zip(inferred, hints, strict=True)):
        known = dim if _is_known(dim) or (isinstance(hint, int) and not trusts_numbers) else hint
        merged.append(known if _is_known(known) else ir.SymbolicDim(f"{name}.{axis}"))
    return ir.Shape(merged)


def _is_known(dim: int | ir.SymbolicDim) -> bool:
    return dim >= 0 if isinstance(dim, int) else bool(dim.value) and dim.value not in NAMELESS
