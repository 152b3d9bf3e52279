"""Rows of the operator table: what an operator needs, how it sees layouts, how it is emitted.

Conditions are data. `edgekit check`, the operator table of the documentation and the compiler read the same rows, so
that what is printed is what is done.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import onnx_ir as ir

from edgekit.compile.tflite.dims import dims, rank
from edgekit.compile.tflite.views import Rule
from edgekit.core.errors import Unsupported
from edgekit.quantize.canonical import constant, integer, text

if TYPE_CHECKING:
    from edgekit.compile.tflite.site import Site

Reason = str | None


@dataclass(frozen=True, slots=True)
class Need:
    """A condition on a node. `words` name it in tables; `broken` says why a node does not meet it, else None."""

    words: str
    broken: Callable[[ir.Node], Reason]
    remedy: str = "keep the node on another runtime, or rewrite it before export"


@dataclass(frozen=True, slots=True)
class Lower:
    """One operator.

    `int8`: what its integer kernel needs beyond `needs`; None: it computes in float only. `fuses`: the file's operator
    has a fused activation. `one_scale`: the integer kernel computes new values at the input's parameters, so that
    other output parameters would round twice: then it computes in float. `emit` writes operators through the `Site`.
    """

    op: str
    emit: Callable[["Site"], None]
    layout: Rule
    needs: tuple[Need, ...] = ()
    int8: tuple[Need, ...] | None = None
    fuses: bool = False
    one_scale: bool = False


def broken(needs: Sequence[Need], node: ir.Node) -> tuple[Need, str] | None:
    """The first condition that the node does not meet, with its reason."""
    for need in needs:
        try:
            reason = need.broken(node)
        except Unsupported as unknown:  # a shape that inference could not give
            reason = f"{unknown.what}: {unknown.why}"
        if reason is not None:
            return need, reason
    return None


def ranks(*allowed: int, index: int = 0) -> Need:
    """Input `index` has one of these ranks."""

    def check(node: ir.Node) -> Reason:
        found = rank(node.inputs[index])
        return None if found in allowed else f"its input has {found} axes, not {' or '.join(map(str, allowed))}"

    return Need(f"rank {', '.join(map(str, allowed))}", check)


def at_most(axes: int) -> Need:
    """No tensor has more axes than the kernel takes when it broadcasts."""

    def check(node: ir.Node) -> Reason:
        shapes = [dims(v) for v in node.inputs if v is not None]
        if len(set(shapes)) < 2 or max(map(len, shapes)) <= axes:
            return None
        return f"it broadcasts over {max(map(len, shapes))} axes, the kernel takes {axes}"

    return Need(f"broadcasts over ≤ {axes} axes", check)


def constants(*indexes: int) -> Need:
    """These inputs, where present, are constants."""

    def check(node: ir.Node) -> Reason:
        for i in indexes:
            value = node.inputs[i] if i < len(node.inputs) else None
            if value is not None and constant(value) is None:
                return f"input {i} ('{value.name}') is computed while running"
        return None

    return Need(f"input {', '.join(map(str, indexes))} constant", check, "make it a constant before export")


def attribute_in(name: str, default: str, *allowed: str) -> Need:
    """A STRING attribute has one of these values."""

    def check(node: ir.Node) -> Reason:
        value = text(node, name, default)
        return None if value in allowed else f"{name} is '{value}'"

    return Need(f"{name}: {', '.join(allowed)}", check)


def number_is(name: str, default: int, *allowed: int) -> Need:
    """An INT attribute has one of these values."""

    def check(node: ir.Node) -> Reason:
        value = integer(node, name, default)
        return None if value in allowed else f"{name} is {value}"

    return Need(f"{name} = {', '.join(map(str, allowed))}", check)


def one_output() -> Need:
    """The optional outputs are not asked for."""

    def check(node: ir.Node) -> Reason:
        extra = [v.name for v in node.outputs[1:] if v.name and (v.uses() or v.is_graph_output())]
        return f"its output '{extra[0]}' has no counterpart" if extra else None

    return Need("first output only", check)


def dtypes(*allowed: str, index: int = 0) -> Need:
    """Input `index` has one of these numpy dtypes."""

    def check(node: ir.Node) -> Reason:
        found = dtype_of(node.inputs[index])
        return None if found in allowed else f"its input is {found}"

    return Need(f"type {', '.join(allowed)}", check, "cast it to float32 or int32")


def dtype_of(value: ir.Value | None) -> str:
    """The value's numpy dtype name. Raises `Unsupported` where it is unknown."""
    if value is None or value.dtype is None:
        raise Unsupported("an input", "its type could not be inferred", "export the model with typed values")
    return np.dtype(value.dtype.numpy()).name
