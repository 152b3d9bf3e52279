"""From a model file to a canonical graph."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import onnx
import onnx_ir as ir
import onnx_ir.passes.common as passes

from edgekit.core.artifact import Port
from edgekit.core.errors import BadInput
from edgekit.quantize.canonical import CANONICAL_OPSET


@dataclass(frozen=True, slots=True)
class ImportedModel:
    """A canonical graph, the user's view of its ports, and what was changed on the way."""

    model: ir.Model
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    source_sha256: str
    notes: tuple[str, ...]


def import_model(
    path: Path,
    *,
    input_shapes: Mapping[str, Sequence[int]] | None = None,
    fixed: Mapping[str, float | int] | None = None,
) -> ImportedModel:
    """Read an ONNX file. Raises `BadInput`."""
    raw = path.read_bytes()
    try:
        proto = onnx.load_from_string(raw)
    except Exception as error:
        raise BadInput(str(path), f"not an ONNX model: {error}", "give a model") from None
    proto = onnx.version_converter.convert_version(proto, CANONICAL_OPSET)
    model = ir.from_proto(onnx.shape_inference.infer_shapes(proto, data_prop=True))
    passes.LiftConstantsToInitializersPass(lift_all_constants=True, size_limit=0)(model)
    for i, node in enumerate(model.graph):
        node.name = node.name or f"{node.op_type}_{i}"

    def port(value: ir.Value) -> Port:
        assert value.shape is not None
        assert value.dtype is not None
        dims = tuple(d if isinstance(d, int) else str(d) for d in value.shape)
        return Port(str(value.name), value.dtype.numpy().name, dims)

    return ImportedModel(
        model,
        tuple(map(port, model.graph.inputs)),
        tuple(map(port, model.graph.outputs)),
        hashlib.sha256(raw).hexdigest(),
        (),
    )
