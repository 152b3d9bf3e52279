"""The checks of a PNG that its decoder leaves out: checksums, a whole stream, and as many rows as the header promises.

Pillow takes a chunk with a wrong checksum and fills missing rows with black. Works in pieces, so that memory does not
follow what a hostile header asks for. Sections are those of the PNG specification, third edition.
"""

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO, Final

from edgekit.core.errors import BadInput

SIGNATURE: Final = b"\x89PNG\r\n\x1a\n"

_PIECE: Final = 65_536
_CHANNELS: Final = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}  # by colour type
_PASSES: Final = (  # Adam7: first column, first row, column step, row step
    (0, 0, 8, 8),
    (4, 0, 8, 8),
    (0, 4, 4, 8),
    (2, 0, 4, 4),
    (0, 2, 2, 4),
    (1, 0, 2, 2),
    (0, 1, 1, 2),
)
_AGAIN: Final = "fetch or write the file again"


@dataclass(frozen=True, slots=True)
class PngHeader:
    """Size in pixels, bits of a pixel, and whether the rows come in seven passes."""

    width: int
    height: int
    bits: int
    is_interlaced: bool

    def stream_bytes(self) -> int:
        """Bytes of the whole filtered picture before compression (7.2, 8.1)."""
        passes = _PASSES if self.is_interlaced else ((0, 0, 1, 1),)
        total = 0
        for x, y, across, down in passes:
            columns, rows = -(-(self.width - x) // across), -(-(self.height - y) // down)
            if columns > 0 and rows > 0:
                total += rows * (1 + (columns * self.bits + 7) // 8)
        return total


def png_header(head: bytes, name: str) -> PngHeader:
    """From the first 32 bytes of the file (11.2.1). Raises `BadInput`."""
    if len(head) < 29 or head[8:16] != b"\0\0\0\rIHDR":
        raise BadInput(name, "damaged or truncated PNG: it does not begin with its header", _AGAIN)
    width, height, depth, colour, _, _, interlaced = struct.unpack_from(">IIBBBBB", head, 16)
    if colour not in _CHANNELS:
        raise BadInput(name, f"damaged: PNG colour type {colour} does not exist", _AGAIN)
    return PngHeader(width, height, depth * _CHANNELS[colour], interlaced == 1)


def check_png(file: BinaryIO, header: PngHeader, name: str) -> None:
    """Read the file once to its end chunk. Raises `BadInput` for a cut or damaged one."""
    inflate, left = zlib.decompressobj(), header.stream_bytes()
    for piece in _data(file, name):
        waiting = piece
        while waiting and left > 0:
            try:
                left -= len(inflate.decompress(waiting, _PIECE))
            except zlib.error as error:
                raise BadInput(name, f"damaged: {error}", _AGAIN) from error
            waiting = inflate.unconsumed_tail
    while left > 0 and (rest := _more(inflate)):
        left -= rest
    if left > 0:
        raise BadInput(name, f"truncated: the last {left} bytes of the picture are missing", _AGAIN)


def _more(inflate: "zlib._Decompress") -> int:
    try:
        return len(inflate.decompress(b"", _PIECE))
    except zlib.error:
        return 0


def _data(file: BinaryIO, name: str) -> Iterator[bytes]:
    """The content of the data chunks in pieces; every chunk's checksum is compared (5.3)."""
    file.seek(len(SIGNATURE))
    kind = b""
    while kind != b"IEND":
        start = file.read(8)
        if len(start) < 8:
            raise BadInput(name, "truncated: the PNG ends without its end chunk", _AGAIN)
        left, kind = struct.unpack(">I4s", start)
        checksum = zlib.crc32(kind)
        while left:
            piece = file.read(min(left, _PIECE))
            if not piece:
                raise BadInput(name, f"truncated inside a PNG chunk {kind!r}", _AGAIN)
            checksum, left = zlib.crc32(piece, checksum), left - len(piece)
            if kind == b"IDAT":
                yield piece
        if file.read(4) != struct.pack(">I", checksum):
            raise BadInput(name, f"damaged: wrong checksum in a PNG chunk {kind!r}", _AGAIN)
