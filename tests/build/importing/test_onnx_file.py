"""Files that are no ONNX model, and weights that lie beside it."""

import hashlib
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from edgekit.build.importing import import_model
from edgekit.core.errors import BadInput, EdgekitError, Unsupported

RELU = helper.make_node("Relu", ["x"], ["y"], "act")


def whole(small: Callable[..., Path]) -> bytes:
    weights = {"w": np.ones((4, 3, 3, 3), np.float32)}
    nodes = [helper.make_node("Conv", ["x", "w"], ["y"], "conv")]
    return small(nodes, inputs={"x": (1, 3, 8, 8)}, outputs=["y"], weights=weights).read_bytes()


def test_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"nowhere\.onnx: no such file"):
        import_model(tmp_path / "nowhere.onnx")


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "empty file"),
        (b"# a text, as README files are\n" * 20, "text file"),
        (b"hello", "text file"),
        (b"\x08\x08", "holds no ONNX graph"),
        (bytes(range(256)) * 4, "not an ONNX model|holds no ONNX graph"),
        (b"\x89PNG\r\n\x1a\n" + bytes(100), "not an ONNX model|holds no ONNX graph"),
    ],
)
def test_other_content_is_refused_in_one_line(tmp_path: Path, content: bytes, why: str) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(content)
    with pytest.raises(BadInput, match=why) as error:
        import_model(path)
    assert "\n" not in str(error.value)


def test_model_cut_at_any_byte_is_refused(small: Callable[..., Path], tmp_path: Path) -> None:
    raw = whole(small)
    path = tmp_path / "cut.onnx"
    for end in (*range(1, len(raw) - 1, 7), *range(len(raw) - 40, len(raw) - 1)):
        path.write_bytes(raw[:end])
        with pytest.raises(EdgekitError):
            import_model(path)


def test_model_with_any_byte_changed_ends_in_a_named_error_or_a_model(
    small: Callable[..., Path], tmp_path: Path
) -> None:
    raw = bytearray(whole(small))
    path = tmp_path / "odd.onnx"
    for at in range(0, len(raw), 3):
        changed = bytearray(raw)
        changed[at] ^= 0x15
        path.write_bytes(changed)
        try:
            import_model(path)
        except EdgekitError as error:
            assert error.remedy  # noqa: PT017 - either end is right; a traceback of another kind is not


def test_weights_that_do_not_fill_their_shape_are_refused(small: Callable[..., Path], tmp_path: Path) -> None:
    proto = onnx.load_from_string(whole(small))
    proto.graph.initializer[0].dims[0] = 5
    path = tmp_path / "odd.onnx"
    path.write_bytes(proto.SerializeToString())
    with pytest.raises(BadInput, match=r"tensor 'w' holds 432 bytes where its shape asks for 540"):
        import_model(path)


def external(folder: Path, location: str, *, data: bytes | None = None, **more: str) -> Path:
    """A model whose weight lies at `location`; `data` is written to weights.bin in the folder."""
    weight = numpy_helper.from_array(np.arange(3, dtype=np.float32), "w")
    weight.ClearField("raw_data")
    weight.data_location = TensorProto.EXTERNAL
    for key, value in {"location": location, **more}.items():
        weight.external_data.add(key=key, value=value)
    graph = helper.make_graph(
        [helper.make_node("Add", ["x", "w"], ["y"], "add")],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (3,))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, (3,))],
        [weight],
    )
    folder.mkdir(exist_ok=True)
    if data is not None:
        (folder / "weights.bin").write_bytes(data)
    path = folder / "model.onnx"
    path.write_bytes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]).SerializeToString())
    return path


WEIGHTS = np.asarray([1, 2, 3], np.float32).tobytes()


def test_external_weights_come_from_beside_the_model_and_count_in_its_hash(tmp_path: Path) -> None:
    path = external(tmp_path / "m", "weights.bin", data=b"----" + WEIGHTS, offset="4", length="12")
    before = sorted(os.listdir(path.parent))
    imported = import_model(path)
    weight = next(iter(imported.model.graph.initializers.values()))
    assert weight.const_value is not None
    np.testing.assert_array_equal(weight.const_value.numpy(), [1, 2, 3])
    assert imported.source_sha256 == hashlib.sha256(path.read_bytes() + WEIGHTS).hexdigest()
    assert sorted(os.listdir(path.parent)) == before
    (path.parent / "weights.bin").write_bytes(b"----" + WEIGHTS[::-1])
    assert import_model(path).source_sha256 != imported.source_sha256


@pytest.mark.parametrize(
    "location", ["../weights.bin", "/etc/hostname", "sub/../../weights.bin", "..\\weights.bin", ""]
)
def test_external_weights_outside_the_folder_are_refused(tmp_path: Path, location: str) -> None:
    (tmp_path / "weights.bin").write_bytes(WEIGHTS)
    path = external(tmp_path / "m", location)
    with pytest.raises(BadInput, match=r"tensor 'w'.*outside the model's own folder"):
        import_model(path)


def test_link_to_weights_outside_the_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "elsewhere.bin").write_bytes(WEIGHTS)
    path = external(tmp_path / "m", "weights.bin")
    (tmp_path / "m" / "weights.bin").symlink_to(tmp_path / "elsewhere.bin")
    with pytest.raises(BadInput, match="outside the model's own folder"):
        import_model(path)


def test_missing_and_short_external_weights_are_named(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"'weights\.bin' of tensor 'w': no such file"):
        import_model(external(tmp_path / "a", "weights.bin"))
    with pytest.raises(BadInput, match=r"12 bytes are wanted at 0 and 5 are there"):
        import_model(external(tmp_path / "b", "weights.bin", data=b"12345"))
    with pytest.raises(BadInput, match="no whole number"):
        import_model(external(tmp_path / "c", "weights.bin", data=WEIGHTS, offset="-4"))
    with pytest.raises(BadInput, match="holds 8 bytes"):
        import_model(external(tmp_path / "d", "weights.bin", data=WEIGHTS, length="8"))


def test_names_that_are_no_text_are_refused(small: Callable[..., Path]) -> None:
    path = small([helper.make_node("Relu", ["x"], ["y"], "named")], inputs={"x": (3,)}, outputs=["y"])
    path.write_bytes(path.read_bytes().replace(b"named", b"na\xff\xfed"))
    with pytest.raises(BadInput, match="no UTF-8 text"):
        import_model(path)


def test_ir_version_to_come_is_refused_by_number(small: Callable[..., Path]) -> None:
    path = small([RELU], inputs={"x": (3,)}, outputs=["y"], ir_version=73)
    with pytest.raises(Unsupported, match=rf"IR version 73 is newer than {onnx.IR_VERSION}"):
        import_model(path)


def test_weight_without_an_element_type_is_refused(small: Callable[..., Path]) -> None:
    path = small([RELU], inputs={"x": (3,)}, outputs=["y"], weights={"w": np.ones(2, np.float32)})
    proto = onnx.load(path)
    proto.graph.initializer[0].data_type = 0
    path.write_bytes(proto.SerializeToString())
    with pytest.raises(BadInput, match=r"'w'.*no element type"):
        import_model(path)
