"""Named arrays as one `.npz`: same arrays, same bytes, and nothing executable inside when read back."""

import io
import math
import struct
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from edgekit.core.errors import BadInput
from edgekit.core.files import read_input

_DATE: Final = (1980, 1, 1, 0, 0, 0)
_NUMERIC: Final = "biufc"
# What zipfile raises on damaged archives beside its own error, found by altering bytes at random.
_ARCHIVE_ERRORS: Final = (EOFError, OSError, RuntimeError, ValueError, struct.error, zlib.error)


def pack_arrays(arrays: Mapping[str, NDArray[np.generic]]) -> bytes:
    """An uncompressed `.npz` with its members in the mapping's order and fixed dates. Numeric arrays only."""
    import zipfile  # only where golden samples are read or written

    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for name, array in arrays.items():
            if array.dtype.kind not in _NUMERIC:
                raise BadInput(f"array '{name}'", f"dtype {array.dtype} is not numeric", "give numbers")
            member = io.BytesIO()
            little = np.asarray(array, array.dtype.newbyteorder("<"), order="C")
            np.lib.format.write_array(member, little, (1, 0), allow_pickle=False)
            archive.writestr(zipfile.ZipInfo(f"{name}.npy", _DATE), member.getvalue())
    return buffer.getvalue()


def read_arrays(path: Path, *, where: str, only: str) -> dict[str, NDArray[np.generic]]:
    """The arrays of an `.npz` by name, or the one of an `.npy` under the name `only`. Raises as `unpack_arrays`."""
    raw = read_input(path)
    return {only: unpack_array(raw, where=where)} if path.suffix == ".npy" else unpack_arrays(raw, where=where)


def unpack_arrays(raw: bytes, *, where: str, limit: int = 1 << 30) -> dict[str, NDArray[np.generic]]:
    """The arrays of an `.npz` by name. Raises `BadInput` for anything else, objects, more than `limit` bytes."""
    import zipfile

    arrays: dict[str, NDArray[np.generic]] = {}
    try:
        with zipfile.ZipFile(io.BytesIO(raw)) as archive:
            members = archive.infolist()
            if sum(member.file_size for member in members) > limit:
                raise BadInput(where, f"holds more than {limit >> 20} MiB", "give a smaller file")
            for member in members:
                if member.compress_type not in {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}:
                    raise BadInput(where, f"'{member.filename[:80]}' is packed in an unusual way", "use numpy.savez")
                with archive.open(member) as file:
                    content = file.read(member.file_size)
                name = member.filename.removesuffix(".npy")
                if name in arrays:
                    raise BadInput(where, f"the array '{name}' stands twice in it", "keep one of them")
                arrays[name] = unpack_array(content, where=f"{where}, array '{name}'")
    except (zipfile.BadZipFile, *_ARCHIVE_ERRORS) as error:
        raise BadInput(where, f"not a readable .npz: {error}", "write it with numpy.savez") from error
    return arrays


def unpack_array(raw: bytes, *, where: str) -> NDArray[np.generic]:
    """The array of an `.npy`. Raises `BadInput` for anything else and for a header that promises more."""
    file = io.BytesIO(raw)
    try:
        version = np.lib.format.read_magic(file)
        read_header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, fortran, dtype = read_header(file)
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError) as error:
        raise BadInput(where, f"not a readable .npy: {error}", "write it with numpy.save") from error
    if dtype.kind not in _NUMERIC:
        raise BadInput(where, f"dtype {dtype} is not numeric", "give numbers")
    count = math.prod(shape)
    if count < 0 or count * dtype.itemsize != len(raw) - file.tell():
        raise BadInput(where, f"truncated or too long for {dtype}{list(shape)}", "write it with numpy.save")
    flat = np.frombuffer(raw, dtype, count, file.tell())
    array = flat.reshape(shape, order="F" if fortran else "C")
    return np.array(array, array.dtype.newbyteorder("="), order="C")
