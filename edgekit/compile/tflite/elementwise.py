"""Elementwise operators of two or more tensors with numpy broadcasting, in any layout.

Operands of lower rank are given the leading axes that broadcasting implies, in the order of the frame.
"""

from collections.abc import Callable
from functools import reduce
from typing import Final

import ai_edge_litert.schema_py_generated as schema
import numpy as np
import onnx_ir as ir

from edgekit.compile.tflite.axes import arranged
from edgekit.compile.tflite.dims import dims, rank, static
from edgekit.compile.tflite.flatfile import Tensor
from edgekit.compile.tflite.forms import convert
from edgekit.compile.tflite.lowering import Lower, Need, at_most, dtype_of, dtypes, number_is
from edgekit.compile.tflite.site import Site
from edgekit.compile.tflite.views import ELEMENTWISE
from edgekit.quantize.canonical import constant

Options = Callable[..., object]


def operand(site: Site, index: int) -> Tensor:
    """Input `index`, aligned with the frame: axes that broadcasting adds become sizes of 1 unless they are in front."""
    x = site.x(index)
    full = len(site.frame)
    if len(x.shape) in (0, full):
        return x
    extra = full - len(x.shape)
    shape = arranged((*(1,) * extra, *static(site.dims(index))), site.frame)
    return x if shape[:extra] == (1,) * extra and shape[extra:] == x.shape else site.reshape(x, shape)


def binary(op: str, options: Options, *, fuses: bool = False) -> Callable[[Site], None]:
    """A two-operand operator of the same name on both sides."""

    def emit(site: Site) -> None:
        made = options(fusedActivationFunction=site.activation()) if fuses else options()
        site.op(op, [operand(site, 0), operand(site, 1)], site.y(), made)

    return emit


def folded(op: str, options: Options, *, one_scale: bool = False) -> Callable[[Site], None]:
    """Any number of operands, two by two. `one_scale`: 8-bit operands take the parameters of the result."""

    def emit(site: Site) -> None:
        made = site.y()
        operands = [operand(site, i) for i in range(len(site.node.inputs))]
        if one_scale:
            operands = [requantized(site, x, made) for x in operands]
        if len(operands) == 1:
            site.give(operands[0])
            return
        *first, last = operands
        full = made.shape
        partial = reduce(lambda a, b: site.op(op, [a, b], site.temp(full, made), options()), first)
        site.op(op, [partial, last], made, options())

    return emit


def requantized(site: Site, x: Tensor, like: Tensor) -> Tensor:
    """The 8-bit tensor with the parameters of `like`."""
    if x.q == like.q:
        return x
    same = site.temp(x.shape, like)
    convert(site.file, x, same)
    return same


def power(site: Site) -> None:
    """A square is a product and a power of 1/2 a root: kernels that delegates take. A constant may be of any type."""
    exponent = _one_exponent(site.node)
    if exponent is None:
        site.op("POW", [operand(site, 0), operand(site, 1)], site.y(), schema.PowOptionsT())
        return
    x = site.x()
    if exponent == 2:
        site.op("MUL", [x, x], site.y(), schema.MulOptionsT())
    elif exponent == 0.5 and x.dtype == "float32":
        site.op("SQRT", [x], site.y())
    else:
        site.op("POW", [x, site.const(np.asarray(exponent, x.dtype), "exponent")], site.y(), schema.PowOptionsT())


def _one_exponent(node: ir.Node) -> float | None:
    """The exponent if it is one constant number that does not add axes."""
    array = constant(node.inputs[1])
    if array is None or array.size != 1 or array.ndim > rank(node.inputs[0]):
        return None
    return float(np.asarray(array, np.float64).reshape(()))


def where(site: Site) -> None:
    """Condition, then, else."""
    site.op("SELECT_V2", [operand(site, i) for i in range(3)], site.y(), schema.SelectV2OptionsT())


def xor(site: Site) -> None:
    """Two truth values differ."""
    site.op("NOT_EQUAL", [operand(site, 0), operand(site, 1)], site.y(), schema.NotEqualOptionsT())


def _same_shape(node: ir.Node) -> str | None:
    shapes = {dims(v) for v in node.inputs if v is not None}
    return None if len(node.inputs) <= 2 or len(shapes) == 1 else "more than two operands broadcast"


def _one_type(node: ir.Node) -> str | None:
    exponent, base = _one_exponent(node), dtype_of(node.inputs[0])
    if exponent is not None and (base == "float32" or exponent == int(exponent)):
        return None
    found = [dtype_of(v) for v in node.inputs]
    return None if len(set(found)) == 1 else f"its operands are {' and '.join(found)}"


_SAME_TYPES: Final = Need(
    "operands of one type, or one constant exponent", _one_type, "cast the exponent to the type of the base"
)
NUMBERS: Final = dtypes("float32", "int32", "int64")
_SHORT: Final = dtypes("float32", "int32")
_BOOL: Final = (dtypes("bool"), at_most(4))
_FOLDS: Final = Need("two operands, or equal shapes", _same_shape, "split the operator into pairs")
_COMPARED: Final = (NUMBERS, at_most(4))
_EXTREMES: Final = (NUMBERS, at_most(5), _FOLDS)
_INTEGERS: Final = (dtypes("int32", "int64"), number_is("fmod", 0, 0), at_most(4))
_CHOSEN: Final = (at_most(4), dtypes("float32", "int32", "int64", "bool", index=1))

_ADD: Final = binary("ADD", schema.AddOptionsT, fuses=True)
_SUB: Final = binary("SUB", schema.SubOptionsT, fuses=True)
_MUL: Final = binary("MUL", schema.MulOptionsT, fuses=True)
_DIV: Final = binary("DIV", schema.DivOptionsT, fuses=True)
_MIN: Final = folded("MINIMUM", schema.MaximumMinimumOptionsT, one_scale=True)
_MAX: Final = folded("MAXIMUM", schema.MaximumMinimumOptionsT, one_scale=True)
_EQUAL: Final = binary("EQUAL", schema.EqualOptionsT)

ROWS: Final = (
    Lower("Add", _ADD, ELEMENTWISE, (NUMBERS, at_most(6)), (), True),
    Lower("Sub", _SUB, ELEMENTWISE, (NUMBERS, at_most(5)), (), True),
    Lower("Mul", _MUL, ELEMENTWISE, (NUMBERS, at_most(6)), (), True),
    Lower("Div", _DIV, ELEMENTWISE, (_SHORT, at_most(5)), None, True),
    Lower("Pow", power, ELEMENTWISE, (_SHORT, at_most(4), _SAME_TYPES)),
    Lower("Mod", binary("FLOOR_MOD", schema.FloorModOptionsT), ELEMENTWISE, _INTEGERS),
    Lower("Min", _MIN, ELEMENTWISE, _EXTREMES, ()),
    Lower("Max", _MAX, ELEMENTWISE, _EXTREMES, ()),
    Lower("Sum", folded("ADD", schema.AddOptionsT), ELEMENTWISE, _EXTREMES),
    Lower("Equal", _EQUAL, ELEMENTWISE, (dtypes("float32", "int32", "int64", "bool"), at_most(4))),
    Lower("Greater", binary("GREATER", schema.GreaterOptionsT), ELEMENTWISE, _COMPARED),
    Lower("GreaterOrEqual", binary("GREATER_EQUAL", schema.GreaterEqualOptionsT), ELEMENTWISE, _COMPARED),
    Lower("Less", binary("LESS", schema.LessOptionsT), ELEMENTWISE, _COMPARED),
    Lower("LessOrEqual", binary("LESS_EQUAL", schema.LessEqualOptionsT), ELEMENTWISE, _COMPARED),
    Lower("And", binary("LOGICAL_AND", schema.LogicalAndOptionsT), ELEMENTWISE, _BOOL),
    Lower("Or", binary("LOGICAL_OR", schema.LogicalOrOptionsT), ELEMENTWISE, _BOOL),
    Lower("Xor", xor, ELEMENTWISE, _BOOL),
    Lower("Where", where, ELEMENTWISE, _CHOSEN),
)
