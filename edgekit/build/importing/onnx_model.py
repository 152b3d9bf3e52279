"""ONNX in, canonical graph out: the stages of importing in reading order; each is a module of its own."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import onnx
import onnx_ir as ir

from edgekit.build.importing import binding, precision, shapes
from edgekit.build.importing.admission import admit_operators, admit_opset, settle_inference
from edgekit.build.importing.branches import settle_branches
from edgekit.build.importing.engine import admit_by_engine
from edgekit.build.importing.imported import ImportedModel
from edgekit.build.importing.onnx_file import read_onnx
from edgekit.build.importing.opset import to_canonical_opset
from edgekit.build.importing.ports import numpy_name, port
from edgekit.build.importing.structure import (
    DEFAULT_DOMAINS,
    all_nodes,
    lift_constants,
    name_all,
    separate_outputs,
    to_ir,
)
from edgekit.quantize.canonical import CANONICAL_OPSET


def import_onnx(
    path: Path, input_shapes: Mapping[str, Sequence[int]], fixed: Mapping[str, float | int]
) -> ImportedModel:
    """Read, check and canonicalise an ONNX file. Raises `BadInput`, `Unsupported`, `UsageError`."""
    file = read_onnx(path)
    return import_proto(file.proto, file.sha256, str(path), input_shapes, fixed)


def import_proto(
    proto: onnx.ModelProto,
    sha256: str,
    label: str,
    input_shapes: Mapping[str, Sequence[int]],
    fixed: Mapping[str, float | int],
) -> ImportedModel:
    """Check and canonicalise an ONNX model in memory; `label` names it in errors."""
    opset = admit_opset(proto.opset_import, label)
    for function in proto.functions:
        if any(node.domain in DEFAULT_DOMAINS for node in function.node):
            admit_opset(function.opset_import, f"{label}, function '{function.name}'")
    model = to_ir(proto, label)
    name_all(model)
    admit_operators(model)
    lift_constants(model)
    settle_inference(model)
    dtypes = {value.name: numpy_name(value) for value in model.graph.inputs}
    binding.name_free_axes(model)
    notes = binding.bind(model, input_shapes, fixed)
    shapes.infer_shapes(model)
    outputs = [numpy_name(value) for value in model.graph.outputs]
    names = [str(value.name) for value in model.graph.outputs]
    to_canonical_opset(model)
    notes += precision.to_float32(model)
    separate_outputs(model)
    name_all(model)
    if opset != CANONICAL_OPSET:
        notes += (f"opset {opset} is brought to {CANONICAL_OPSET}",)
    shapes.infer_shapes(model, are_noted_true=True)
    settle_branches(model)
    admit_by_engine(model)
    notes += _renamed(names, model.graph.outputs)
    from edgekit.build.rewrite import canonicalize  # it works with this package's own parts

    model, rewritten = canonicalize(model)
    read = {id(value) for node in all_nodes(model) for value in node.inputs}
    return ImportedModel(
        model,
        tuple(port(v, dtypes[v.name], is_unused=id(v) not in read) for v in model.graph.inputs),
        tuple(port(v, dtype, is_unused=False) for v, dtype in zip(model.graph.outputs, outputs, strict=True)),
        sha256,
        (*notes, *rewritten),
    )


def _renamed(names: Sequence[str], outputs: Sequence[ir.Value]) -> tuple[str, ...]:
    return tuple(
        f"output '{name}' is named '{value.name}': an input or another output has that name"
        for name, value in zip(names, outputs, strict=True)
        if name != value.name
    )
