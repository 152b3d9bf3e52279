import io
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray

from edgekit.core.errors import BadInput
from edgekit.core.tensors import pack_arrays, read_arrays, unpack_array, unpack_arrays

dtypes = st.sampled_from(["float32", "float64", "float16", "int8", "uint8", "int64", "bool", ">f4", ">i8"])
arrays = hnp.arrays(dtypes, hnp.array_shapes(min_dims=0, min_side=0, max_side=4))


@given(st.dictionaries(st.sampled_from(["x", "y/z", "ünï", "a b"]), arrays, max_size=3))
def test_arrays_come_back_equal_and_native(given_arrays: Mapping[str, NDArray[Any]]) -> None:
    back = unpack_arrays(pack_arrays(given_arrays), where="test")
    assert list(back) == list(given_arrays)
    for name, array in given_arrays.items():
        assert back[name].dtype == array.dtype.newbyteorder("=")
        np.testing.assert_array_equal(back[name], array)


def test_numpy_reads_what_is_packed_and_equal_arrays_give_equal_bytes() -> None:
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    packed = pack_arrays({"x": x})
    with np.load(io.BytesIO(packed)) as loaded:
        np.testing.assert_array_equal(loaded["x"], x)
    assert packed == pack_arrays({"x": np.asfortranarray(x)}) == pack_arrays({"x": x.astype(">f4")})


def test_numpys_own_files_are_read_compressed_or_in_fortran_order() -> None:
    x = np.asfortranarray(np.arange(6).reshape(2, 3))
    buffer = io.BytesIO()
    np.savez_compressed(buffer, x=x)
    np.testing.assert_array_equal(unpack_arrays(buffer.getvalue(), where="test")["x"], x)


def test_objects_are_never_unpickled() -> None:
    buffer = io.BytesIO()
    np.savez(buffer, x=np.array([{"a": 1}], dtype=object))
    with pytest.raises(BadInput, match="not numeric"):
        unpack_arrays(buffer.getvalue(), where="test")
    with pytest.raises(BadInput, match="not numeric"):
        pack_arrays({"x": np.array(["text"])})


def test_a_header_that_promises_more_than_there_is_takes_no_memory() -> None:
    buffer = io.BytesIO()
    np.lib.format.write_array_header_1_0(buffer, {"descr": "<f8", "fortran_order": False, "shape": (10**12, 10**6)})
    with pytest.raises(BadInput, match="truncated or too long"):
        unpack_array(buffer.getvalue() + bytes(8), where="test")


def test_an_archive_that_unpacks_to_too_much_is_refused() -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x.npy", bytes(10_000_000))
    with pytest.raises(BadInput, match="more than"):
        unpack_arrays(buffer.getvalue(), where="test", limit=1 << 20)


@settings(max_examples=500)
@given(st.data())
def test_damage_anywhere_is_a_named_refusal_or_numbers(data: st.DataObject) -> None:
    raw = bytearray(pack_arrays({"x": np.arange(4, dtype=np.float32), "y": np.zeros((2, 2), np.int64)}))
    for _ in range(data.draw(st.integers(1, 3))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    try:
        back = unpack_arrays(bytes(raw), where="test")
    except BadInput:
        return
    assert all(array.dtype.kind in "biufc" for array in back.values())


@pytest.mark.parametrize("raw", [b"", b"text", b"PK\3\4", b"\x93NUMPY"])
def test_what_is_no_array_file_is_refused(raw: bytes) -> None:
    with pytest.raises(BadInput):
        unpack_arrays(raw, where="test")
    with pytest.raises(BadInput):
        unpack_array(raw, where="test")


@pytest.mark.parametrize("name", ["x.npz", "x.npy"])
def test_a_damaged_file_of_arrays_is_refused_by_name(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    whole = {"x.npz": pack_arrays({"a": np.zeros(9)}), "x.npy": b"\x93NUMPY\x01\x00"}[name]
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(BadInput, match="sample 3"):
        read_arrays(path, where="sample 3", only="x")


def test_a_single_array_takes_the_name_it_is_given(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.arange(3))
    assert read_arrays(tmp_path / "x.npy", where="here", only="input")["input"].tolist() == [0, 1, 2]
