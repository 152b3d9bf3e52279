"""Elementwise operators with numpy broadcasting, in any layout.

Operands of lower rank are given the leading axes that broadcasting implies, in the order of the frame.
"""

from collections.abc import Callable
from typing import Final

import ai_edge_litert.schema_py_generated as schema

from edgekit.compile.tflite.axes import arranged
from edgekit.compile.tflite.dims import static
from edgekit.compile.tflite.flatfile import Tensor
from edgekit.compile.tflite.lowering import Lower, at_most, dtypes
from edgekit.compile.tflite.site import Site
from edgekit.compile.tflite.views import ELEMENTWISE


def operand(site: Site, index: int) -> Tensor:
    """Input `index`, aligned with the frame: axes that broadcasting adds become sizes of 1 where they are not in front."""
    x = site.x(index)
    rank, full = len(x.shape), len(site.frame)
    if rank in (0, full):
        return x
    extra = full - rank
    shape = arranged((*(1,) * extra, *static(site.dims(index))), site.frame)
    return x if shape[:extra] == (1,) * extra and shape[extra:] == x.shape else site.reshape(x, shape)


def binary(op: str, options: Callable[..., object], *, fuses: bool = False) -> Callable[[Site], None]:
    """A two-operand operator of the same name on both sides."""

    def emit(site: Site) -> None:
        made = options(fusedActivationFunction=site.activation()) if fuses else options()
        site.op(op, [operand(site, 0), operand(site, 1)], site.y(), made)

    return emit


_NUMBERS: Final = dtypes("float32", "int32", "int64")

ROWS: Final = (
    Lower("Add", binary("ADD", schema.AddOptionsT, fuses=True), ELEMENTWISE, (_NUMBERS, at_most(6)), (), True),
    Lower("Sub", binary("SUB", schema.SubOptionsT, fuses=True), ELEMENTWISE, (_NUMBERS, at_most(5)), (), True),
    Lower("Mul", binary("MUL", schema.MulOptionsT, fuses=True), ELEMENTWISE, (_NUMBERS, at_most(6)), (), True),
)
