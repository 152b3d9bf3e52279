"""Elementwise functions of one tensor, in any layout, that are not activations."""

from collections.abc import Callable
from typing import Final

import ai_edge_litert.schema_py_generated as schema

from edgekit.compile.tflite.flatfile import Tensor
from edgekit.compile.tflite.lowering import Lower, dtypes
from edgekit.compile.tflite.site import Site
from edgekit.compile.tflite.views import FIRST


def unary(op: str, options: Callable[[], object] | None = None) -> Callable[[Site], None]:
    """An operator of the same name on both sides."""

    def emit(site: Site) -> None:
        site.op(op, [site.x()], site.y(), options() if options else None)

    return emit


class Formula:
    """Float arithmetic of one node: each method writes one operator on tensors shaped like `x`."""

    def __init__(self, site: Site, x: Tensor) -> None:
        self.site, self.x = site, x

    def one(self, op: str, x: Tensor, options: object | None = None, into: Tensor | None = None) -> Tensor:
        """A function of one tensor."""
        return self.site.op(op, [x], into or self.site.temp(x.shape, x), options)

    def two(self, op: str, a: Tensor | float, b: Tensor | float, into: Tensor | None = None) -> Tensor:
        """ADD, SUB, MUL, DIV, MAXIMUM or MINIMUM; a number is a scalar constant."""
        made = {
            "ADD": schema.AddOptionsT,
            "SUB": schema.SubOptionsT,
            "MUL": schema.MulOptionsT,
            "DIV": schema.DivOptionsT,
        }
        tensors = [t if isinstance(t, Tensor) else self.site.number(t) for t in (a, b)]
        like = max(tensors, key=lambda t: len(t.shape))
        options = made.get(op, schema.MaximumMinimumOptionsT)()
        return self.site.op(op, tensors, into or self.site.temp(like.shape, self.x), options)


def reciprocal(site: Site) -> None:
    """1 / x."""
    x = site.x()
    Formula(site, x).two("DIV", 1.0, x, site.y())


_ERF_P: Final = 0.3275911
_ERF_A: Final = (1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592)


def erf(site: Site) -> None:
    """Abramowitz and Stegun, Handbook of Mathematical Functions, 7.1.26: |error| ≤ 1.5e-7."""
    x = site.x()
    f = Formula(site, x)
    size = f.one("ABS", x, schema.AbsOptionsT())
    t = f.two("DIV", 1.0, f.two("ADD", f.two("MUL", size, _ERF_P), 1.0))
    tail = f.two("MUL", t, _ERF_A[0])
    for a in _ERF_A[1:]:
        tail = f.two("MUL", f.two("ADD", tail, a), t)
    bell = f.one("EXP", f.one("NEG", f.two("MUL", x, x), schema.NegOptionsT()), schema.ExpOptionsT())
    f.two("MUL", f.one("SIGN", x, schema.SignOptionsT()), f.two("SUB", 1.0, f.two("MUL", tail, bell)), site.y())


_FLOAT: Final = (dtypes("float32"),)
_NUMBERS: Final = (dtypes("float32", "int32", "int64"),)

ROWS: Final = (
    Lower("Abs", unary("ABS", schema.AbsOptionsT), FIRST, (dtypes("float32", "int32"),)),
    Lower("Neg", unary("NEG", schema.NegOptionsT), FIRST, _NUMBERS),
    Lower("Exp", unary("EXP", schema.ExpOptionsT), FIRST, _FLOAT),
    Lower("Log", unary("LOG"), FIRST, _FLOAT),
    Lower("Sqrt", unary("SQRT"), FIRST, _FLOAT),
    Lower("Reciprocal", reciprocal, FIRST, _FLOAT),
    Lower("Floor", unary("FLOOR"), FIRST, _FLOAT),
    Lower("Ceil", unary("CEIL"), FIRST, _FLOAT),
    Lower("Round", unary("ROUND"), FIRST, _FLOAT),
    Lower("Sin", unary("SIN"), FIRST, _FLOAT),
    Lower("Cos", unary("COS", schema.CosOptionsT), FIRST, _FLOAT),
    Lower("Sign", unary("SIGN", schema.SignOptionsT), FIRST, _FLOAT),
    Lower("Erf", erf, FIRST, _FLOAT),
    Lower("Not", unary("LOGICAL_NOT", schema.LogicalNotOptionsT), FIRST, (dtypes("bool"),)),
)
