"""Model formats that are not read: each refused with the command that turns it into one that is."""

from pathlib import Path
from typing import Final

from edgekit.core.errors import BadInput, Unsupported

_TF2ONNX: Final = "python -m tf2onnx.convert {how} {path} --output model.onnx --opset 17"
_BY_SUFFIX: Final = {
    ".pb": ("a TensorFlow graph", _TF2ONNX.format(how="--graphdef", path="{path} --inputs IN:0 --outputs OUT:0")),
    ".h5": ("a Keras model", _TF2ONNX.format(how="--keras", path="{path}")),
    ".keras": ("a Keras model", "keras' model.export('model.onnx', format='onnx')"),
    ".hdf5": ("a Keras model", _TF2ONNX.format(how="--keras", path="{path}")),
    ".pt": ("a PyTorch checkpoint, weights without a graph", "give file.py:factory, or torch.onnx.export(…)"),
    ".pth": ("a PyTorch checkpoint, weights without a graph", "give file.py:factory, or torch.onnx.export(…)"),
    ".safetensors": ("weights without a graph", "give file.py:factory that loads them, or torch.onnx.export(…)"),
    ".pdmodel": ("a Paddle model", "paddle2onnx --model_dir DIR --model_filename {path} --save_file model.onnx"),
    ".xml": ("an OpenVINO model", "give the ONNX file that it was converted from"),
    ".mlmodel": ("a Core ML model", "give the ONNX or PyTorch model that it was converted from"),
    ".caffemodel": ("a Caffe model", "export it to ONNX"),
    ".engine": ("a compiled TensorRT plan", "give the ONNX file that it was built from"),
    ".ekb": ("an edgekit bundle, built already", "edgekit inspect {path}"),
}
TAKEN: Final = ".onnx, .tflite, .pt2 or file.py:factory"


def refuse_foreign(path: Path) -> None:
    """Raises `Unsupported` for a known other format, `BadInput` for a folder that holds no model; else returns."""
    if path.is_dir():
        if (path / "saved_model.pb").is_file():
            remedy = _TF2ONNX.format(how="--saved-model", path=path)
            raise Unsupported(str(path), "a TensorFlow SavedModel, which is not read", remedy)
        raise BadInput(str(path), "a folder, where a model file is wanted", f"give {TAKEN}")
    known = _BY_SUFFIX.get(path.suffix.lower())
    if known is not None and path.exists():
        kind, remedy = known
        raise Unsupported(str(path), f"{kind}, which is not read", remedy.format(path=path))
