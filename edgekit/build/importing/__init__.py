"""From a model file to an `ImportedModel`: a graph at the canonical opset, with the user's own ports.

Each kind of source has a module: ONNX (`onnx_model`), PyTorch (`torch_export`), TFLite (`tflite`); what cannot be
taken is refused in `foreign` with the command that converts it. Optimising is the work of `edgekit.build.rewrite`.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from edgekit.build.importing.imported import ImportedModel
from edgekit.build.importing.onnx_model import import_onnx

__all__ = ["ImportedModel", "import_model"]


def import_model(
    path: Path,
    *,
    input_shapes: Mapping[str, Sequence[int]] | None = None,
    fixed: Mapping[str, float | int] | None = None,
) -> ImportedModel:
    """Bring a model to the canonical graph.

    `input_shapes` binds shapes of inputs by name; `fixed` turns inputs into constants. Raises `BadInput` (no model, or
    a damaged one), `Unsupported` (operator, opset or type by name), `UsageError` (a name or shape that does not fit).
    """
    return import_onnx(Path(path), input_shapes or {}, fixed or {})
