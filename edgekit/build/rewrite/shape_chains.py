"""Shapes computed from shapes: what is known of them becomes a constant.

Exporters write a reshape as Shape, Gather, Unsqueeze, Concat. The chain is followed with a number for each known size
and a name for each free one; truth values are 0 and 1. A chain of numbers becomes a constant; the target of a Reshape
becomes one with 0 where it copies a size of its input and -1 where one free size remains.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Final

import numpy as np
import onnx_ir as ir

from edgekit.build.rewrite.matching import input_of, nodes, set_constant, sizes, whole
from edgekit.quantize.canonical import constant, integer

_LONGEST: Final = 64  # elements; a shape has few


@dataclass(frozen=True, slots=True)
class Free:
    """A size that is known when the model runs; equal names are equal sizes. Never 0 or negative."""

    name: str


Size = int | Free


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of an integer tensor of rank 0 or 1."""

    sizes: tuple[Size, ...]
    is_scalar: bool = False


def settle_shape_chains(model: ir.Model) -> bool:
    """True where the graph changed."""
    known: dict[int, Known | None] = {}
    changed = False
    for node in nodes(model):
        for index, value in enumerate(node.inputs):
            if value is None or value.producer() is None:
                continue
            found = _known(value, known)
            if found is not None and all(isinstance(size, int) for size in found.sizes):
                dtype = np.int64 if value.dtype is None else value.dtype.numpy()
                array = np.array(found.sizes, dtype)
                set_constant(node, index, f"{value.name}", array.reshape(()) if found.is_scalar else array)
                changed = True
        if node.op_type == "Reshape":
            changed |= _settle_reshape(node, known)
    return changed


def _settle_reshape(node: ir.Node, known: dict[int, Known | None]) -> bool:
    source, target = node.inputs[0], node.inputs[1]
    if source is None or target is None:
        return False
    found = _known(target, known)
    if found is None or (integer(node, "allowzero", 0) and 0 in found.sizes):
        return False
    if target.producer() is None:  # a constant without a zero means the same whatever `allowzero` says
        return node.attributes.pop("allowzero", None) is not None
    node.attributes.pop("allowzero", None)
    dims = () if source.shape is None else tuple(_size(dim, source, axis) for axis, dim in enumerate(source.shape))
    wanted: list[int] = []
    for axis, size in enumerate(found.sizes):
        if isinstance(size, int):
            wanted.append(size)
        else:
            wanted.append(0 if axis < len(dims) and dims[axis] == size else -1)
    if wanted.count(-1) > 1:
        return False
    set_constant(node, 1, "shape", np.array(wanted, np.int64))
    return True


def _size(dim: int | ir.SymbolicDim, value: ir.Value, axis: int) -> Size:
    return dim if isinstance(dim, int) else Free(dim.value or f"{value.name}[{axis}]")


def _known(value: ir.Value | None, known: dict[int, Known | None]) -> Known | None:
    if value is None:
        return None
    if id(value) not in known:
        known[id(value)] = None
        array, maker = constant(value), value.producer()
        if array is not None:
            if array.dtype.kind in "iub" and array.ndim <= 1 and array.size <= _LONGEST:
                known[id(value)] = Known(tuple(int(i) for i in array.reshape(-1)), array.ndim == 0)
        elif maker is not None and maker.op_type in _ROWS:
            known[id(value)] = _ROWS[maker.op_type](maker, [partial(_known, v, known) for v in maker.inputs])
    return known[id(value)]


_Inputs = Sequence[Callable[[], Known | None]]


def _shape(node: ir.Node, inputs: _Inputs) -> Known | None:
    source = node.inputs[0]
    if source is None or source.shape is None:
        return None
    dims = tuple(_size(dim, source, axis) for axis, dim in enumerate(source.shape))
    end = node.attributes.get("end")
    return Known(dims[integer(node, "start", 0) : None if end is None else end.as_int()])


def _gather(node: ir.Node, inputs: _Inputs) -> Known | None:
    data, index = inputs[0](), constant(node.inputs[1])
    if data is None or data.is_scalar or index is None or index.ndim > 1:
        return None
    places = [int(i) for i in index.reshape(-1)]
    if any(not -len(data.sizes) <= i < len(data.sizes) for i in places):
        return None
    return Known(tuple(data.sizes[i] for i in places), index.ndim == 0)


def _slice(node: ir.Node, inputs: _Inputs) -> Known | None:
    data, bounds = inputs[0](), [whole(input_of(node, i)) for i in (1, 2)]
    steps = (1,) if input_of(node, 4) is None else whole(input_of(node, 4))
    if data is None or data.is_scalar or steps is None or any(b is None or len(b) != 1 for b in bounds):
        return None
    (start,), (end,) = bounds  # type: ignore[misc]
    if steps[0] < 0:
        return None
    return Known(data.sizes[start : end : steps[0]])


def _concat(node: ir.Node, inputs: _Inputs) -> Known | None:
    parts = [each() for each in inputs]
    if any(part is None or part.is_scalar for part in parts):
        return None
    return Known(tuple(size for part in parts if part is not None for size in part.sizes))


def _as_vector(node: ir.Node, inputs: _Inputs) -> Known | None:
    data = inputs[0]()
    return None if data is None or not data.is_scalar else Known(data.sizes)


def _as_scalar(node: ir.Node, inputs: _Inputs) -> Known | None:
    data = inputs[0]()
    return None if data is None or data.is_scalar or len(data.sizes) != 1 else Known(data.sizes, is_scalar=True)


def _cast(node: ir.Node, inputs: _Inputs) -> Known | None:
    to, data = ir.DataType(integer(node, "to", 0)), inputs[0]()
    if data is not None and to is ir.DataType.BOOL:  # a free size is never 0
        return Known(tuple(int(size != 0) for size in data.sizes), data.is_scalar)
    return data if to in (ir.DataType.INT64, ir.DataType.INT32) else None


def _size_of(node: ir.Node, inputs: _Inputs) -> Known | None:
    dims = sizes(node.inputs[0])
    return None if dims is None else Known((prod(dims),), is_scalar=True)


def _not(node: ir.Node, inputs: _Inputs) -> Known | None:
    data = inputs[0]()
    return None if data is None else Known(tuple(int(size == 0) for size in data.sizes), data.is_scalar)


def _combine(node: ir.Node, inputs: _Inputs) -> Known | None:
    a, b = inputs[0](), inputs[1]()
    if a is None or b is None or (len(a.sizes) != len(b.sizes) and 1 not in (len(a.sizes), len(b.sizes))):
        return None
    length = max(len(a.sizes), len(b.sizes))
    pairs = zip(
        a.sizes * (length if len(a.sizes) == 1 else 1), b.sizes * (length if len(b.sizes) == 1 else 1), strict=True
    )
    sizes = tuple(_arithmetic(node.op_type, x, y) for x, y in pairs)
    if any(size is None for size in sizes):
        return None
    return Known(tuple(size for size in sizes if size is not None), a.is_scalar and b.is_scalar)


def _arithmetic(op: str, x: Size, y: Size) -> Size | None:
    if op == "Equal" and (x == y or any(isinstance(size, int) and size <= 0 for size in (x, y))):
        return int(x == y)
    if isinstance(x, int) and isinstance(y, int):
        return _EXACT[op](x, y) if y or op != "Div" else None
    if op == "Mul" and 0 not in (x, y) and not any(isinstance(s, int) and s < 0 for s in (x, y)):
        if 1 in (x, y):
            return y if x == 1 else x
        return Free("*".join(sorted(s.name if isinstance(s, Free) else str(s) for s in (x, y))))
    if op == "Div" and y == 1:
        return x
    return x if op in ("Add", "Sub") and y == 0 else None


_EXACT: Final[dict[str, Callable[[int, int], int]]] = {
    "Add": lambda x, y: x + y,
    "Equal": lambda x, y: int(x == y),
    "Sub": lambda x, y: x - y,
    "Mul": lambda x, y: x * y,
    "Div": lambda x, y: abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1),  # ONNX truncates
}
_ROWS: Final[dict[str, Callable[[ir.Node, _Inputs], Known | None]]] = {
    "Add": _combine,
    "Cast": _cast,
    "Concat": _concat,
    "Div": _combine,
    "Equal": _combine,
    "Gather": _gather,
    "Identity": lambda node, inputs: inputs[0](),
    "Mul": _combine,
    "Not": _not,
    "Shape": _shape,
    "Size": _size_of,
    "Slice": _slice,
    "Squeeze": _as_scalar,
    "Sub": _combine,
    "Unsqueeze": _as_vector,
}
