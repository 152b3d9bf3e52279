"""TFLite files as they stand: ports from the flatbuffer, damaged files refused whatever is damaged."""

import hashlib
import os
from pathlib import Path

import pytest

from edgekit.build.importing import import_model, import_tflite
from edgekit.compile.targets import target
from edgekit.core.errors import BadInput, EdgekitError, UsageError

ROOT = Path(__file__).resolve().parents[3]
SHARED = Path(os.environ.get("EDGEKIT_SHARED", ROOT / "../shared")) / "data/models"
FETCHED = ROOT / ".data/models"


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A float file of edgekit's own, from a model with a free batch."""
    import numpy as np
    import onnx_ir as ir
    from onnx import TensorProto, helper, numpy_helper

    graph = helper.make_graph(
        [helper.make_node("Conv", ["x", "w"], ["h"], "conv"), helper.make_node("Relu", ["h"], ["y"], "act")],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ("N", 3, 8, 8))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.ones((4, 3, 3, 3), np.float32), "w")],
    )
    folder = tmp_path_factory.mktemp("tflite")
    source = folder / "model.onnx"
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    source.write_bytes(model.SerializeToString())
    canonical: ir.Model = import_model(source).model
    path = folder / "model.tflite"
    path.write_bytes(target("litert").emit_float(canonical).files["model.tflite"])
    return path


def test_file_is_kept_as_it_is_with_its_ports_and_operators(written: Path) -> None:
    imported = import_tflite(written)
    assert imported.content == written.read_bytes()
    assert imported.source_sha256 == hashlib.sha256(imported.content).hexdigest()
    (port,) = imported.inputs
    assert port.dtype == "float32"
    assert port.shape[1:] == (8, 8, 3)
    assert isinstance(port.shape[0], str)
    assert "CONV_2D" in imported.operators
    assert imported.quantization == {}


@pytest.mark.parametrize(
    ("content", "why"),
    [(b"", "empty"), (b"not a model at all", "TFL3"), (b"\x1c\x00\x00\x00TFL3", "damaged or cut short")],
)
def test_other_content_is_refused(tmp_path: Path, content: bytes, why: str) -> None:
    path = tmp_path / "model.tflite"
    path.write_bytes(content)
    with pytest.raises(BadInput, match=why):
        import_tflite(path)
    with pytest.raises(BadInput, match="no such file"):
        import_tflite(tmp_path / "missing.tflite")


def test_file_cut_at_any_byte_is_refused(written: Path, tmp_path: Path) -> None:
    raw = written.read_bytes()
    path = tmp_path / "cut.tflite"
    for end in range(0, len(raw) - 16, 37):
        path.write_bytes(raw[:end])
        with pytest.raises(EdgekitError):
            import_tflite(path)


def test_file_with_any_byte_changed_ends_in_a_named_error_or_a_model(written: Path, tmp_path: Path) -> None:
    raw = written.read_bytes()
    path = tmp_path / "odd.tflite"
    for at in range(8, len(raw)):
        changed = bytearray(raw)
        changed[at] ^= 0xFF if at % 2 else 0x11
        path.write_bytes(changed)
        named_or_taken(path)


def named_or_taken(path: Path) -> None:
    try:
        import_tflite(path)
    except EdgekitError as error:
        if not error.remedy:
            raise


def test_import_model_points_to_the_other_way(written: Path) -> None:
    with pytest.raises(UsageError, match="taken as it is"):
        import_model(written)


@pytest.mark.parametrize(
    ("name", "dtype", "shape", "outputs", "scale"),
    [
        ("mobilenet_v1_0.25_128_quant.tflite", "uint8", (1, 128, 128, 3), [(1, 1001)], 1 / 128),
        ("mobilenet_v2_1.0_224_quant.tflite", "uint8", (1, 224, 224, 3), [(1, 1001)], 1 / 128),
        ("mediapipe_face_detection_short_range.tflite", "float32", (1, 128, 128, 3), [(1, 896, 16), (1, 896, 1)], None),
    ],
)
def test_ports_of_public_files(
    name: str, dtype: str, shape: tuple[int, ...], outputs: list[tuple[int, ...]], scale: float | None
) -> None:
    path = next((folder / name for folder in (SHARED, FETCHED) if (folder / name).exists()), None)
    if path is None:
        pytest.skip(f"{name} is not at hand")
    imported = import_tflite(path)
    (port,) = imported.inputs
    assert (port.dtype, port.shape) == (dtype, shape)
    assert [p.shape for p in imported.outputs] == outputs
    given = imported.quantization.get(port.name)
    assert (given.scale if given else None) == scale
