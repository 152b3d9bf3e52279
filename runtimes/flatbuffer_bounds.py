"""Whether every offset of a TFLite flatbuffer stays inside it; nothing about what the model means.

tflite-runtime 2.14 builds a model from memory without verifying it, so a truncated file is a segmentation fault there.
Layout: https://flatbuffers.dev/internals; field numbers: the TFLite schema, whose fields never change their number.
Option tables of operators are followed no further than their own bytes: their layout differs per operator.
"""

import struct
from dataclasses import dataclass, field
from typing import Final


@dataclass(frozen=True, slots=True)
class _Table:
    """Fields of a table by number that hold offsets: the bytes of a vector's element, or its table."""

    vectors: dict[int, int] = field(default_factory=dict)  # a string is a vector of bytes
    tables: dict[int, "_Table"] = field(default_factory=dict)  # vectors of tables
    child: dict[int, "_Table"] = field(default_factory=dict)  # a single table


_QUANTIZATION: Final = _Table(vectors={0: 4, 1: 4, 2: 4, 3: 8})
_TENSOR: Final = _Table(vectors={0: 4, 3: 1, 7: 4}, child={4: _QUANTIZATION})
_OPTIONS: Final = _Table()
_OPERATOR: Final = _Table(vectors={1: 4, 2: 4, 5: 1, 7: 1, 8: 4}, child={4: _OPTIONS})
_SUBGRAPH: Final = _Table(vectors={1: 4, 2: 4, 4: 1}, tables={0: _TENSOR, 3: _OPERATOR})
_CODE: Final = _Table(vectors={1: 1})
_BUFFER: Final = _Table(vectors={0: 1})
_METADATA: Final = _Table(vectors={0: 1})
_MODEL: Final = _Table(vectors={3: 1, 5: 4}, tables={1: _CODE, 2: _SUBGRAPH, 4: _BUFFER, 6: _METADATA})


def is_inside(content: bytes) -> bool:
    """False where a model is cut or its offsets lead out of the buffer."""
    try:
        _walk(content, _target(content, 0), _MODEL)
    except (struct.error, IndexError):
        return False
    return True


def _target(content: bytes, at: int) -> int:
    """Where the unsigned offset at `at` leads."""
    return _inside(content, at + _u32(content, at))


def _inside(content: bytes, end: int) -> int:
    if not 0 <= end <= len(content):
        raise IndexError(end)
    return end


def _u32(content: bytes, at: int) -> int:
    value: int = struct.unpack_from("<I", content, at)[0]
    return value


def _walk(content: bytes, table: int, kind: _Table) -> None:
    vtable = table - int(struct.unpack_from("<i", content, table)[0])
    if vtable < 0:
        raise IndexError(vtable)
    size, length = struct.unpack_from("<HH", content, vtable)
    _inside(content, vtable + size)
    _inside(content, table + length)
    fields = struct.unpack_from(f"<{(size - 4) // 2}H", content, vtable + 4)
    places = {number: table + offset for number, offset in enumerate(fields) if offset}
    for number, width in kind.vectors.items():
        if number in places:
            start = _target(content, places[number])
            _inside(content, start + 4 + _u32(content, start) * width)
    for number, element in kind.tables.items():
        if number in places:
            start = _target(content, places[number])
            count = _u32(content, start)
            _inside(content, start + 4 + 4 * count)
            for index in range(count):
                _walk(content, _target(content, start + 4 + 4 * index), element)
    for number, element in kind.child.items():
        if number in places:
            _walk(content, _target(content, places[number]), element)
