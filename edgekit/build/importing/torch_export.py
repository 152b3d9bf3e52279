"""PyTorch sources: `.pt2` and `file.py:factory` become ONNX in a child process, where torch is at home.

Torch is not a dependency: the Python that runs edgekit is asked, or the one named by EDGEKIT_TORCH_PYTHON.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from edgekit.build.importing.onnx_file import OnnxFile, read_onnx
from edgekit.core.errors import BadInput, EnvironmentFault, UsageError
from edgekit.core.files import read_input

PYTHON: Final = "EDGEKIT_TORCH_PYTHON"
REMEDY: Final = f"pip install torch onnxscript, or set {PYTHON} to a Python that has them, or give an .onnx file"
_FACTORY: Final = re.compile(r"(?P<file>.+\.py):(?P<name>[^\W\d]\w*)\Z")


@dataclass(frozen=True, slots=True)
class Exported:
    """An exported model and what the exporter said."""

    file: OnnxFile
    notes: tuple[str, ...]


def is_torch(source: str) -> bool:
    """Whether a source is one of PyTorch's: `.pt2`, or a Python file with or without its factory."""
    return source.lower().endswith((".pt2", ".py")) or _FACTORY.match(source) is not None


def export_torch(source: str) -> Exported:
    """Export to ONNX in memory.

    Raises `UsageError` where a Python file comes without a factory, `BadInput` where the file is missing or its code or
    the export fails, `EnvironmentFault` where no torch is at hand.
    """
    if source.lower().endswith(".py"):
        raise UsageError(source, "a Python file without the name of a factory", f"{source}:FUNCTION")
    factory = _FACTORY.match(source)
    read_input(Path(factory["file"] if factory else source))
    python = os.environ.get(PYTHON) or sys.executable
    _find_torch(python)
    with tempfile.TemporaryDirectory(prefix="edgekit-torch-") as folder:
        output = Path(folder) / "model.onnx"
        child = Path(__file__).with_name("torch_child.py")
        done = subprocess.run(  # -I: the user's folder must not shadow the standard library
            [python, "-I", str(child), source, str(output)], capture_output=True, text=True, check=False
        )
        answer = _answer(done.stdout)
        if "error" in answer or not output.exists():
            lines = [line for line in done.stderr.splitlines() if line.strip()]
            why = str(answer.get("error") or (lines[-1] if lines else f"the exporter ended with {done.returncode}"))
            if "needs the package" in why:
                raise EnvironmentFault(source, why, REMEDY)
            raise BadInput(source, f"cannot be exported: {why}", "see that torch.onnx.export takes the model")
        return Exported(read_onnx(output), tuple(str(note) for note in answer.get("notes", ())))


def _find_torch(python: str) -> None:
    probe = "import importlib.util, sys; sys.exit(importlib.util.find_spec('torch') is None)"
    try:
        found = subprocess.run([python, "-I", "-c", probe], capture_output=True, check=False).returncode == 0
    except OSError as error:
        raise EnvironmentFault(f"{PYTHON}={python}", error.strerror or str(error), "name a Python program") from None
    if not found:
        raise EnvironmentFault("PyTorch", f"torch is not installed for {python}", REMEDY)


def _answer(text: str) -> dict[str, list[str] | str]:
    try:
        answer = json.loads(text.splitlines()[-1])
    except (ValueError, IndexError):
        return {}
    return answer if isinstance(answer, dict) else {}
