"""Orders of axes: how a file holds a tensor of the model.

An `Axes` value says which model axis each file axis holds: `file_shape[i] == model_shape[axes[i]]`. ONNX orders images
N, C, H, W; TFLite wants N, H, W, C, which is `(0, 2, 3, 1)`. Nothing here knows a graph.
"""

from collections.abc import Sequence
from typing import TypeVar

Axes = tuple[int, ...]
T = TypeVar("T")


def as_is(rank: int) -> Axes:
    """The model's own order."""
    return tuple(range(rank))


def channels_last(rank: int) -> Axes:
    """N, spatial axes, C.

    >>> channels_last(4)
    (0, 2, 3, 1)
    """
    return (0, *range(2, rank), 1) if rank > 2 else as_is(rank)


def swapped(rank: int) -> Axes:
    """The last two axes exchanged: a matrix held transposed."""
    return (*range(rank - 2), rank - 1, rank - 2)


def arranged(items: Sequence[T], axes: Axes) -> tuple[T, ...]:
    """One item per model axis, in file order."""
    return tuple(items[a] for a in axes)


def inverse(axes: Axes) -> Axes:
    """File position of each model axis."""
    return tuple(axes.index(i) for i in range(len(axes)))


def permutation(held: Axes, wanted: Axes) -> Axes:
    """The `perm` of a transpose that turns a tensor held as `held` into one held as `wanted`.

    >>> permutation((0, 2, 3, 1), (0, 1, 2, 3))
    (0, 3, 1, 2)
    """
    return tuple(held.index(a) for a in wanted)


def without(axes: Axes, gone: Sequence[int]) -> Axes:
    """The order that is left when some model axes vanish and the others are numbered anew.

    >>> without((0, 2, 3, 1), [2, 3])
    (0, 1)
    """
    kept = [a for a in sorted(axes) if a not in gone]
    return tuple(kept.index(a) for a in axes if a not in gone)


def with_new(axes: Axes, new: Sequence[int]) -> Axes:
    """The order after inserting model axes `new` (numbered as in the result), each behind the axis it follows.

    >>> with_new((0, 1), [2, 3])
    (0, 1, 2, 3)
    """
    rank = len(axes) + len(new)
    old = [a for a in range(rank) if a not in new]
    order = [old[a] for a in axes]
    for axis in sorted(new):
        order.insert(order.index(axis - 1) + 1 if axis else 0, axis)
    return tuple(order)


def same_memory(shape: Sequence[int], held: Axes, wanted: Axes) -> bool:
    """Whether both orders lay the elements out alike: only axes of size 1 change place. A free size is -1."""
    return [a for a in held if shape[a] != 1] == [a for a in wanted if shape[a] != 1]
