"""From a model file to an `ImportedModel`: a graph at the canonical opset, with the user's own ports.

Each kind of source has a module: ONNX (`onnx_model`), PyTorch (`torch_export`), TFLite (`tflite`); what cannot be
taken is refused in `foreign` with the command that converts it. Optimising is the work of `edgekit.build.rewrite`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from edgekit.build.importing.foreign import refuse_foreign
from edgekit.build.importing.imported import ImportedModel, ImportedTflite, Quantization
from edgekit.build.importing.onnx_model import import_onnx, import_proto
from edgekit.build.importing.torch_export import export_torch, is_torch
from edgekit.core.errors import UsageError

__all__ = ["ImportedModel", "ImportedTflite", "Quantization", "import_model", "import_tflite", "is_tflite"]


def import_model(
    path: Path | str,
    *,
    input_shapes: Mapping[str, Sequence[int]] | None = None,
    fixed: Mapping[str, float | int] | None = None,
) -> ImportedModel:
    """Bring an ONNX file, a `.pt2` file or `file.py:factory` to the canonical graph.

    `input_shapes` binds shapes of inputs by name; `fixed` turns inputs into constants. Raises `BadInput` (no model, or
    a damaged one), `Unsupported` (format, operator, opset or type, by name), `UsageError` (a name or shape that does
    not fit), `EnvironmentFault` (no torch for a source of PyTorch's).
    """
    shapes, values = input_shapes or {}, fixed or {}
    if is_torch(str(path)):
        exported = export_torch(str(path))
        imported = import_proto(exported.file.proto, exported.file.sha256, str(path), shapes, values)
        return replace(imported, notes=(*exported.notes, *imported.notes))
    if is_tflite(path):
        raise UsageError(str(path), "a .tflite file is taken as it is, not brought to ONNX", "use import_tflite")
    refuse_foreign(Path(path))
    return import_onnx(Path(path), shapes, values)


def is_tflite(path: Path | str) -> bool:
    """Whether a source is to be taken as TFLite: by its ending."""
    return str(path).lower().endswith((".tflite", ".lite"))


def import_tflite(path: Path | str) -> ImportedTflite:
    """Read a `.tflite` file as it stands; see `edgekit.build.importing.tflite`."""
    from edgekit.build.importing.tflite import import_tflite as read  # the schema is 20,000 lines

    return read(Path(path))
