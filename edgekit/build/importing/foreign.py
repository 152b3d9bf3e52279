"""Model formats that are not taken: each is refused with the command that converts it to one that is.

A row per format, told apart by the file's name and, for folders, by what is in them. Nothing is ever converted here.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from edgekit.core.errors import BadInput, Unsupported

TAKEN: Final = ".onnx, .pt2, file.py:factory or .tflite"


@dataclass(frozen=True, slots=True)
class _Format:
    """What it is called, how it is known, and how to convert it (`{path}` is the model's)."""

    name: str
    is_it: Callable[[Path], bool]
    remedy: str


def _named(*suffixes: str) -> Callable[[Path], bool]:
    return lambda path: path.suffix.lower() in suffixes


_FORMATS: Final = (
    _Format(
        "a TensorFlow SavedModel",
        lambda path: (path / "saved_model.pb").is_file() or path.name == "saved_model.pb",
        "pip install tf2onnx, then python -m tf2onnx.convert --saved-model {folder} --opset 17 --output model.onnx",
    ),
    _Format(
        "a frozen TensorFlow graph",
        _named(".pb", ".pbtxt"),
        "pip install tf2onnx, then python -m tf2onnx.convert --graphdef {path} --inputs INPUT:0 --outputs OUTPUT:0 "
        "--opset 17 --output model.onnx",
    ),
    _Format(
        "a Keras model",
        _named(".keras", ".h5", ".hdf5"),
        "in Python: keras.saving.load_model('{path}').export('model.onnx', format='onnx')",
    ),
    _Format(
        "a PyTorch checkpoint (weights without the network)",
        _named(".pt", ".pth", ".ckpt", ".bin", ".safetensors"),
        "in Python: torch.export.save(torch.export.export(net.eval(), inputs), 'model.pt2'); or give file.py:factory",
    ),
    _Format(
        "an OpenVINO model", _named(".xml", ".blob"), "export the network that it was made from to ONNX with opset 17"
    ),
    _Format("a TensorRT engine", _named(".engine", ".plan", ".trt"), "give the ONNX file that it was built from"),
    _Format("a Core ML model", _named(".mlmodel", ".mlpackage"), "export the network that it was made from to ONNX"),
    _Format("an ONNX Runtime model", _named(".ort"), "give the ONNX file that it was made from"),
    _Format("a Paddle model", _named(".pdmodel", ".pdiparams"), "pip install paddle2onnx, then paddle2onnx --help"),
)


def refuse_foreign(path: Path) -> None:
    """Raises `Unsupported` naming the format and its conversion, `BadInput` for any other folder; else does nothing."""
    if not path.exists():
        return
    for each in _FORMATS:
        if each.is_it(path):
            folder = path if path.is_dir() else path.parent
            remedy = each.remedy.format(path=path, folder=folder)
            raise Unsupported(str(path), f"{each.name} is not taken ({TAKEN} is)", remedy)
    if path.is_dir():
        raise BadInput(str(path), "a folder that holds no model of a known kind", f"give a {TAKEN}")
