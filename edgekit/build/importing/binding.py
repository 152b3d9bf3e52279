"""What the user binds: shapes of inputs, and inputs that become constants. Free axes get names here, once."""

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
import onnx_ir as ir

from edgekit.core.errors import Unsupported, UsageError

_KINDS_FIXED: Final = "biuf"
NAMELESS: Final = ("", "?", "*", "-1", "None", "none")  # what exporters write for "free"; two of them are not equal


def name_free_axes(model: ir.Model) -> None:
    """Each unnamed or negative size of an input becomes `input.axis`; equal names stay equal."""
    for value in model.graph.inputs:
        if value.shape is not None:
            value.shape = ir.Shape([_named(dim, f"{value.name}.{axis}") for axis, dim in enumerate(value.shape)])


def bind(model: ir.Model, shapes: Mapping[str, Sequence[int]], fixed: Mapping[str, float | int]) -> tuple[str, ...]:
    """Give inputs their shapes and make fixed ones constants; returns notes.

    Raises `UsageError` naming the model's inputs where a name is unknown, or naming both sides where a shape
    contradicts the model's, another one's, or where a value does not fit the input's dtype.
    """
    _know_names(model, (*shapes, *fixed))
    sizes: dict[str, int] = {}
    for name, dims in shapes.items():
        _bind_shape(_input(model, name), dims, sizes)
    if sizes:
        for value in (*model.graph.inputs, *model.graph.outputs):
            _substitute(value, sizes)
    return tuple(_fix(model, _input(model, name), value) for name, value in fixed.items())


def _named(dim: int | ir.SymbolicDim, name: str) -> int | ir.SymbolicDim:
    if isinstance(dim, int):
        return dim if dim >= 0 else ir.SymbolicDim(name)  # Paddle writes a free size as -1
    return ir.SymbolicDim(name) if dim.value is None or dim.value in NAMELESS else dim


def _know_names(model: ir.Model, names: Sequence[str]) -> None:
    for name in names:
        if all(value.name != name for value in model.graph.inputs):
            has = ", ".join(f"{value.name} {_shown(value.shape)}" for value in model.graph.inputs)
            raise UsageError(f"input '{name}'", "the model has no such input", f"use one of: {has}")


def _input(model: ir.Model, name: str) -> ir.Value:
    return next(value for value in model.graph.inputs if value.name == name)


def _bind_shape(value: ir.Value, dims: Sequence[int], sizes: dict[str, int]) -> None:
    if value.shape is not None and len(value.shape) != len(dims):
        _contradicts(value, dims, f"has {len(value.shape)} axes")
    if min(dims, default=1) < 1:
        _contradicts(value, dims, "takes sizes of at least 1")
    for axis, (old, new) in enumerate(zip(value.shape or [None] * len(dims), dims, strict=True)):
        if isinstance(old, int) and old != new:
            _contradicts(value, dims, f"has {old} at axis {axis}")
        name = old.value if isinstance(old, ir.SymbolicDim) else None
        if isinstance(name, str) and sizes.setdefault(name, new) != new:
            _contradicts(value, dims, f"has '{name}' at axis {axis}, which is {sizes[name]} elsewhere")
    value.shape = ir.Shape(dims)


def _contradicts(value: ir.Value, dims: Sequence[int], why: str) -> None:
    asked = ",".join(map(str, dims))
    shape = _shown(value.shape)
    raise UsageError(f"shape {asked} of input '{value.name}'", f"the model's input {why}", f"fit it to {shape}")


def _shown(shape: ir.Shape | None) -> str:
    return "of any shape" if shape is None else f"[{', '.join(str(dim) for dim in shape)}]"


def _substitute(value: ir.Value, sizes: Mapping[str, int]) -> None:
    if value.shape is not None:
        value.shape = ir.Shape([dim if isinstance(dim, int) else sizes.get(str(dim.value), dim) for dim in value.shape])


def _fix(model: ir.Model, value: ir.Value, number: float | int) -> str:
    subject = f"input '{value.name}'"
    sizes = [dim for dim in value.shape or () if isinstance(dim, int)]
    if value.shape is None or len(sizes) != len(value.shape):
        raise UsageError(subject, f"its shape {_shown(value.shape)} is free", f"add --input-shape {value.name}:…")
    if value.dtype is None or np.dtype(value.dtype.numpy()).kind not in _KINDS_FIXED:
        raise Unsupported(subject, f"has type {value.dtype} and cannot be a number", "leave it an input")
    dtype = value.dtype.numpy()
    with np.errstate(all="ignore"):
        array = np.full(sizes, number).astype(dtype)
    if dtype.kind != "f" and np.any(array != number):
        raise UsageError(subject, f"{number} is no value of {dtype.name}", "give one that it can hold")
    model.graph.inputs.remove(value)
    value.const_value = ir.tensor(array, name=value.name)
    model.graph.register_initializer(value)
    return f"input '{value.name}' is fixed to {number}"
