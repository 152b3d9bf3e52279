"""Sizes of the model's tensors, known or named."""

from collections.abc import Sequence
from math import prod
from typing import Final

import onnx_ir as ir

from edgekit.core.errors import Unsupported

FREE: Final = -1
Dim = int | str
"""A known size, or the name of a free one. An unnamed free size gets a name of its own."""


def dims(value: ir.Value | None) -> tuple[Dim, ...]:
    """The value's shape. Raises `Unsupported` where not even the rank is known."""
    if value is None or value.shape is None:
        name = "an absent input" if value is None else f"'{value.name}'"
        raise Unsupported(name, "its shape could not be inferred", "bind the model's input shapes")
    return tuple(d if isinstance(d, int) else (d.value or f"{value.name}:{i}") for i, d in enumerate(value.shape.dims))


def rank(value: ir.Value | None) -> int:
    """Number of axes."""
    return len(dims(value))


def static(shape: Sequence[Dim]) -> tuple[int, ...]:
    """The shape with `FREE` for every named size."""
    return tuple(d if isinstance(d, int) else FREE for d in shape)


def is_static(shape: Sequence[Dim]) -> bool:
    """Whether every size is known."""
    return all(isinstance(d, int) and d >= 0 for d in shape)


def elements(shape: Sequence[Dim], free: int = 8) -> int:
    """Number of elements, counting `free` for a named size: an estimate."""
    return prod(d if isinstance(d, int) else free for d in shape)


def groups(before: Sequence[Dim], after: Sequence[Dim]) -> list[tuple[list[int], list[int]]] | None:
    """The smallest runs of axes of a reshape with equal products, or None where free sizes hide them.

    >>> groups((1, 6, 4, 5), (1, 2, 3, 20))
    [([0], [0]), ([1], [1, 2]), ([2, 3], [3])]
    """
    found: list[tuple[list[int], list[int]]] = []
    i = j = 0
    while i < len(before) or j < len(after):
        ins, outs = [i] if i < len(before) else [], [j] if j < len(after) else []
        i, j = i + len(ins), j + len(outs)
        while (have := _product(before, ins)) != (want := _product(after, outs)):
            if have[1] != want[1] and not (set(have[1]) <= set(want[1]) or set(want[1]) <= set(have[1])):
                return None
            grow_before = len(have[1]) < len(want[1]) or (have[1] == want[1] and have[0] < want[0])
            if grow_before and i < len(before):
                ins.append(i)
                i += 1
            elif not grow_before and j < len(after):
                outs.append(j)
                j += 1
            else:
                return None
        if ins or not found:
            found.append((ins, outs))
        else:  # new axes of size 1 at the end
            found[-1][1].extend(outs)
    return found


def _product(shape: Sequence[Dim], axes: Sequence[int]) -> tuple[int, tuple[str, ...]]:
    known = prod(d for a in axes if isinstance(d := shape[a], int))
    return known, tuple(sorted(d for a in axes if isinstance(d := shape[a], str)))
