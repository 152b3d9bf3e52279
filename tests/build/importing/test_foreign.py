"""Formats that are not taken: each is refused with its conversion, and only where the file is there."""

from pathlib import Path

import pytest

from edgekit.build.importing import import_model
from edgekit.core.errors import BadInput, Unsupported


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("frozen.pb", r"TensorFlow.*tf2onnx.*--graphdef"),
        ("net.h5", "Keras.*onnx"),
        ("net.keras", "Keras.*onnx"),
        ("net.pt", "PyTorch.*torch"),
        ("net.safetensors", "weights"),
        ("net.engine", "TensorRT"),
    ],
)
def test_other_format_is_refused_with_its_conversion(tmp_path: Path, name: str, words: str) -> None:
    path = tmp_path / name
    path.write_bytes(b"\x00\x01\x02")
    with pytest.raises(Unsupported, match=words) as error:
        import_model(path)
    assert "\n" not in str(error.value)


def test_saved_model_folder_is_refused_with_its_conversion(tmp_path: Path) -> None:
    (tmp_path / "saved_model.pb").write_bytes(b"\x08\x01")
    with pytest.raises(Unsupported, match=rf"SavedModel.*tf2onnx.*--saved-model {tmp_path}"):
        import_model(tmp_path)


def test_missing_file_and_other_folder_are_bad_input(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="no such file"):
        import_model(tmp_path / "missing.pb")
    with pytest.raises(BadInput, match="folder"):
        import_model(tmp_path)
