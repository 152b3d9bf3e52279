"""A compiled form is taken only as it was written, and never fails a load."""

from pathlib import Path

import pytest

from edgekit.runtimes.compiled_cache import CompiledCache


def entry(folder: Path, *parts: bytes) -> CompiledCache:
    return CompiledCache.of(folder, engine="engine 1.0", parts=parts or (b"model",))


def test_what_was_written_is_read(tmp_path: Path) -> None:
    assert entry(tmp_path).read() is None
    entry(tmp_path).write(b"compiled")
    assert entry(tmp_path).read() == b"compiled"


def test_every_part_and_the_engine_have_an_entry_of_their_own(tmp_path: Path) -> None:
    keys = {entry(tmp_path, b"ab", b"c").key, entry(tmp_path, b"a", b"bc").key, entry(tmp_path, b"abc").key}
    assert len(keys) == 3
    other = CompiledCache.of(tmp_path, engine="engine 1.1", parts=[b"model"])
    assert other.key != entry(tmp_path).key


def test_a_cut_or_altered_entry_is_missing(tmp_path: Path) -> None:
    entry(tmp_path).write(b"compiled form of a model")
    whole = entry(tmp_path).path.read_bytes()
    for size in range(len(whole)):
        entry(tmp_path).path.write_bytes(whole[:size])
        assert entry(tmp_path).read() is None
    for at in range(len(whole)):
        entry(tmp_path).path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        assert entry(tmp_path).read() is None


def test_a_folder_that_cannot_be_written_is_no_error(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("no folder")
    entry(blocked / "cache").write(b"compiled")
    assert entry(blocked / "cache").read() is None


def test_nothing_but_the_entry_is_left_behind(tmp_path: Path) -> None:
    entry(tmp_path).write(b"compiled")
    assert [path.name for path in tmp_path.iterdir()] == [entry(tmp_path).path.name]


def test_onnxruntime_starts_from_its_optimised_form_and_rewrites_a_damaged_one(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    import numpy as np
    from onnx import TensorProto, helper, numpy_helper

    from edgekit.core.artifact import LoadableArtifact, Port
    from edgekit.runtimes.onnxruntime import RUNTIME

    weight = np.random.default_rng(0).standard_normal((4, 3, 3, 3)).astype(np.float32)
    graph = helper.make_graph(
        [helper.make_node("Conv", ["x", "w"], ["c"]), helper.make_node("Relu", ["c"], ["y"])],
        "tiny",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 8, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 4, 6, 6])],
        [numpy_helper.from_array(weight, "w")],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    artifact = LoadableArtifact(
        {"model.onnx": proto.SerializeToString()},
        (Port("x", "float32", (1, 3, 8, 8)),),
        (Port("y", "float32", (1, 4, 6, 6)),),
    )
    x = np.random.default_rng(1).standard_normal((1, 3, 8, 8)).astype(np.float32)
    want = RUNTIME.load(artifact, threads=1)({"x": x})["y"]

    def answers() -> None:
        np.testing.assert_array_equal(RUNTIME.load(artifact, threads=1, cache=tmp_path)({"x": x})["y"], want)

    answers()
    (saved,) = (tmp_path / "onnxruntime").iterdir()
    content = saved.read_bytes()
    answers()
    assert saved.read_bytes() == content
    saved.write_bytes(content[:-7])
    answers()
    assert saved.read_bytes() == content
