"""The one form of ZIP that a bundle has, written and read byte for byte; any ZIP tool can open it.

Stored members one behind the other, fixed dates, no extra fields, no comment, below 4 GiB (PKWARE APPNOTE 6.3.10,
4.3.7, 4.3.12, 4.3.16). Reading rebuilds every header from the directory and compares: a file that another parser could
see differently (overlaps, gaps, second directories, other names in local headers) is refused.
"""

import os
import re
import struct
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from edgekit.core.errors import BadInput

SIZE_LIMIT: Final = (1 << 32) - 1
MEMBERS_LIMIT: Final = 10_000

_LOCAL: Final = struct.Struct("<4s5H3I2H")
_ENTRY: Final = struct.Struct("<4s6H3I5H2I")
_END: Final = struct.Struct("<4s4H2IH")
_VERSION: Final = 20
_UNIX: Final = 3 << 8 | _VERSION
_DATE: Final = (0 << 9) | (1 << 5) | 1  # 1980-01-01, the earliest that ZIP knows
_MODE: Final = 0o100644 << 16
_AGAIN: Final = "fetch it again, or build it again"


@dataclass(frozen=True, slots=True)
class Member:
    """One stored file: its name, checksum, size, and where its content begins."""

    name: str
    crc32: int
    size: int
    offset: int


def zip_pieces(members: Mapping[str, bytes]) -> Iterator[bytes]:
    """The ZIP's bytes piece by piece, members in the mapping's order. Names are ASCII, the sum is below 4 GiB."""
    directory, offset = [], 0
    for name, content in members.items():
        header = _local_header(name, zlib.crc32(content), len(content))
        member = Member(name, zlib.crc32(content), len(content), offset + len(header))
        directory.append(member)
        offset = member.offset + member.size
        yield header
        yield content
    yield _directory(directory, offset)


def read_directory(handle: int, where: str, allowed: re.Pattern[str]) -> dict[str, Member]:
    """The members of the ZIP in an open file, by name in file order. Raises `BadInput` by name for any other form."""
    size = os.fstat(handle).st_size
    if os.pread(handle, 4, 0) != b"PK\3\4":
        raise BadInput(where, "not a bundle" if size else "not a bundle: the file is empty", "give an .ekb file")
    if size > SIZE_LIMIT:
        raise BadInput(where, "larger than 4 GiB, which no bundle is", _AGAIN)
    end = os.pread(handle, _END.size, max(0, size - _END.size))
    if len(end) < _END.size or not end.startswith(b"PK\5\6"):
        raise BadInput(where, "truncated, or something was added: it does not end with its directory", _AGAIN)
    _, _, _, _, count, length, start, _ = _END.unpack(end)
    if start + length + _END.size != size or not 1 <= count <= MEMBERS_LIMIT:
        raise BadInput(where, f"damaged: its directory of {count} members does not fit the file", _AGAIN)
    raw = os.pread(handle, length, start)
    members = _entries(raw, count, start, where, allowed)
    if _directory(list(members.values()), start) != raw + end:
        raise BadInput(where, "its directory is not laid out as a bundle's", _AGAIN)
    for member in members.values():
        header = _local_header(member.name, member.crc32, member.size)
        if os.pread(handle, len(header), member.offset - len(header)) != header:
            raise BadInput(where, f"the header of member '{member.name}' contradicts the directory", _AGAIN)
    return members


def _entries(raw: bytes, count: int, start: int, where: str, allowed: re.Pattern[str]) -> dict[str, Member]:
    members: dict[str, Member] = {}
    at, offset = 0, 0
    for _ in range(count):
        if len(raw) < at + _ENTRY.size:
            raise BadInput(where, "damaged: its directory ends early", _AGAIN)
        fields = _ENTRY.unpack_from(raw, at)
        method, crc32, packed, size, name_length = fields[4], fields[7], fields[8], fields[9], fields[10]
        name = raw[at + _ENTRY.size : at + _ENTRY.size + name_length].decode("latin-1")
        at += _ENTRY.size + name_length + fields[11] + fields[12]
        if not allowed.fullmatch(name):
            raise BadInput(where, f"unexpected member {name[:100]!r}", _AGAIN)
        if name in members:
            raise BadInput(where, f"member '{name}' stands twice in it", _AGAIN)
        if method != 0 or packed != size:
            raise BadInput(where, f"member '{name}' is compressed; a bundle's members are stored", _AGAIN)
        offset += _LOCAL.size + name_length
        if offset + size > start:
            raise BadInput(where, f"member '{name}' claims {size} bytes, more than the file holds", _AGAIN)
        members[name] = Member(name, crc32, size, offset)
        offset += size
    if offset != start:
        raise BadInput(where, f"{start - offset} bytes of it belong to no member", _AGAIN)
    return members


def _local_header(name: str, crc32: int, size: int) -> bytes:
    return _LOCAL.pack(b"PK\3\4", _VERSION, 0, 0, 0, _DATE, crc32, size, size, len(name), 0) + name.encode("ascii")


def _directory(members: list[Member], start: int) -> bytes:
    entries = b"".join(
        _ENTRY.pack(
            *(b"PK\1\2", _UNIX, _VERSION, 0, 0, 0, _DATE, member.crc32, member.size, member.size, len(member.name)),
            *(0, 0, 0, 0, _MODE, member.offset - _LOCAL.size - len(member.name)),
        )
        + member.name.encode("ascii")
        for member in members
    )
    return entries + _END.pack(b"PK\5\6", 0, 0, len(members), len(members), len(entries), start, 0)
