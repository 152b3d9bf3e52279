"""Runs in a process of its own, under the user's Python with torch: a program or factory becomes an ONNX file.

Usage: torch_child.py SOURCE OUT.onnx. SOURCE is a `.pt2` file or `file.py:factory`; `factory()` gives (module, example
inputs) or (module, example inputs, dynamic_shapes). Prints one JSON object: {"notes": […]} or {"error": "…"}.
Imports nothing of edgekit: that Python need not have it. Torch itself prints: its words go to standard error.
"""

import contextlib
import importlib
import importlib.util
import json
import os
import sys
import traceback
from typing import Any, Final

OPSET: Final = 18  # the oldest that the exporter of torch.export writes without converting back


def main(source: str, output: str) -> dict[str, Any]:
    """Exports, and says what is worth knowing."""
    torch: Any = importlib.import_module("torch")

    has_onnxscript = importlib.util.find_spec("onnxscript") is not None
    if source.endswith(".pt2"):
        program = torch.export.load(source)
        if not has_onnxscript:
            return {"error": "the export of a .pt2 file needs the package onnxscript"}
        torch.onnx.export(program, (), output, dynamo=True, external_data=False, opset_version=OPSET)
        return {"notes": [f"exported by torch {torch.__version__}"]}
    module, inputs, dynamic_shapes = _made(source)
    module.eval()
    if has_onnxscript:
        how: dict[str, Any] = {"dynamo": True, "external_data": False, "dynamic_shapes": dynamic_shapes}
    elif dynamic_shapes is None:
        how = {"dynamo": False}
    else:
        return {"error": "dynamic_shapes needs the package onnxscript"}
    with torch.no_grad():
        torch.onnx.export(module, tuple(inputs), output, opset_version=OPSET, **how)
    return {"notes": [f"exported by torch {torch.__version__} in evaluation mode"]}


def _made(source: str) -> tuple[Any, Any, Any]:
    path, _, name = source.rpartition(":")
    sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
    spec = importlib.util.spec_from_file_location("edgekit_model_factory", path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is no Python file")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    made = getattr(module, name)()
    if not isinstance(made, tuple | list) or len(made) not in (2, 3):
        raise TypeError(f"{name}() gives {type(made).__name__}, not (module, example inputs)")
    return made[0], made[1], made[2] if len(made) == 3 else None


if __name__ == "__main__":
    with contextlib.redirect_stdout(sys.stderr):
        try:
            answer = main(sys.argv[1], sys.argv[2])
        except Exception as error:  # noqa: BLE001 - a supervisor: whatever the user's code or torch raises is reported
            traceback.print_exc()
            answer = {"error": f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error) else ''}"}
    sys.stdout.write(json.dumps(answer) + "\n")
