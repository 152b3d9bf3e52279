"""Reductions over any axes, in any layout; global pools are reductions over the spatial axes."""

from collections.abc import Callable
from typing import Final

import ai_edge_litert.schema_py_generated as schema
import numpy as np
import onnx_ir as ir

from edgekit.compile.tflite.dims import rank
from edgekit.compile.tflite.flatfile import Tensor
from edgekit.compile.tflite.lowering import Lower, constants, dtypes, number_is
from edgekit.compile.tflite.site import Site
from edgekit.compile.tflite.unary import Formula
from edgekit.compile.tflite.views import FIRST, constant_ints, reducing
from edgekit.quantize.canonical import integer, ints


def spatial(node: ir.Node) -> tuple[int, ...]:
    """All axes but batch and channels."""
    return tuple(range(2, rank(node.inputs[0])))


def reduced(node: ir.Node) -> tuple[int, ...]:
    """The axes of a Reduce operator; none given: all, or none at all."""
    axes = constant_ints(node, 1) or ints(node, "axes")
    full = rank(node.inputs[0])
    if axes:
        return tuple(a % full for a in axes)
    return () if integer(node, "noop_with_empty_axes", 0) else tuple(range(full))


def one_axis(node: ir.Node) -> tuple[int, ...]:
    """The axis of ArgMax and ArgMin."""
    return (integer(node, "axis", 0) % rank(node.inputs[0]),)


def _keeps(node: ir.Node) -> bool:
    return bool(integer(node, "keepdims", 1))


GLOBAL: Final = reducing(spatial, lambda node: True)
REDUCE: Final = reducing(reduced, _keeps)
ARG: Final = reducing(one_axis, _keeps)


class Reduction:
    """Writes one reduction of the node's axes."""

    def __init__(self, site: Site, axes: tuple[int, ...]) -> None:
        self.site = site
        self.places = sorted(site.frame.index(a) for a in axes)
        self.axes = site.ints(self.places, "axes")

    def write(self, op: str, x: Tensor, into: Tensor | None = None, *, keeps: bool | None = None) -> Tensor:
        """`keeps`: sizes of 1 stay; None: as the node says."""
        keep = _keeps(self.site.node) if keeps is None else keeps
        shape = [1 if i in self.places else d for i, d in enumerate(x.shape) if keep or i not in self.places]
        return self.site.op(op, [x, self.axes], into or self.site.temp(shape, x), schema.ReducerOptionsT(keep))


def plain(op: str, *, one_scale: bool = False) -> Callable[[Site], None]:
    """A reduction that the file knows. `one_scale`: the 8-bit result has the input's parameters."""

    def emit(site: Site) -> None:
        x = site.x()
        axes = reduced(site.node)
        if not axes:
            site.give(x)
            return
        Reduction(site, axes).write(op, x, site.y(q=x.q if one_scale else None))

    return emit


def global_pool(op: str, *, one_scale: bool = False) -> Callable[[Site], None]:
    """Over all spatial axes, which stay as sizes of 1."""

    def emit(site: Site) -> None:
        x = site.x()
        Reduction(site, spatial(site.node)).write(op, x, site.y(q=x.q if one_scale else None), keeps=True)

    return emit


def l1(site: Site) -> None:
    """Sum of absolute values."""
    x = site.x()
    size = Formula(site, x).one("ABS", x, schema.AbsOptionsT())
    Reduction(site, reduced(site.node)).write("SUM", size, site.y())


def l2(site: Site) -> None:
    """Root of the sum of squares."""
    x = site.x()
    f = Formula(site, x)
    f.one("SQRT", Reduction(site, reduced(site.node)).write("SUM", f.two("MUL", x, x)), into=site.y())


def sum_square(site: Site) -> None:
    """Sum of squares."""
    x = site.x()
    Reduction(site, reduced(site.node)).write("SUM", Formula(site, x).two("MUL", x, x), site.y())


def log_sum(site: Site) -> None:
    """Logarithm of the sum."""
    x = site.x()
    Formula(site, x).one("LOG", Reduction(site, reduced(site.node)).write("SUM", x), into=site.y())


def log_sum_exp(site: Site) -> None:
    """The maximum is taken out, so that nothing overflows."""
    x, over = site.x(), Reduction(site, reduced(site.node))
    f = Formula(site, x)
    shifted = f.two("SUB", x, over.write("REDUCE_MAX", x, keeps=True))
    total = f.one("LOG", over.write("SUM", f.one("EXP", shifted, schema.ExpOptionsT())))
    f.two("ADD", total, over.write("REDUCE_MAX", x), site.y())


def arg(op: str, options: Callable[[int], object]) -> Callable[[Site], None]:
    """Index of the extreme value, the first one where several are equal."""

    def emit(site: Site) -> None:
        x, axis = site.x(), site.frame.index(one_axis(site.node)[0])
        found = options(schema.TensorType.INT64)
        place = site.ints(axis, "axis")
        made = site.y()
        if not _keeps(site.node):
            site.op(op, [x, place], made, found)
            return
        flat = site.temp([d for i, d in enumerate(x.shape) if i != axis], dtype="int64")
        site.op(op, [x, place], flat, found)
        site.op("EXPAND_DIMS", [flat, place], made, schema.ExpandDimsOptionsT())

    return emit


def cumsum(site: Site) -> None:
    """Running sum along a constant axis."""
    axis = int(np.asarray(site.constant(1)).reshape(-1)[0]) % len(site.frame)
    options = schema.CumsumOptionsT(bool(integer(site.node, "exclusive", 0)), bool(integer(site.node, "reverse", 0)))
    site.op("CUMSUM", [site.x(), site.ints(site.frame.index(axis), "axis")], site.y(), options)


_NUMBERS: Final = (dtypes("float32", "int32", "int64"), constants(1))
_FLOAT: Final = (dtypes("float32"), constants(1))
_ARG: Final = (dtypes("float32", "int32"), number_is("select_last_index", 0, 0))

ROWS: Final = (
    Lower("GlobalAveragePool", global_pool("MEAN"), GLOBAL, _FLOAT, ()),
    Lower("GlobalMaxPool", global_pool("REDUCE_MAX", one_scale=True), GLOBAL, _FLOAT, ()),
    Lower("ReduceMean", plain("MEAN"), REDUCE, _FLOAT, ()),
    Lower("ReduceSum", plain("SUM"), REDUCE, _NUMBERS, ()),
    Lower("ReduceMax", plain("REDUCE_MAX", one_scale=True), REDUCE, _NUMBERS, ()),
    Lower("ReduceMin", plain("REDUCE_MIN", one_scale=True), REDUCE, _NUMBERS, ()),
    Lower("ReduceProd", plain("REDUCE_PROD"), REDUCE, _NUMBERS),
    Lower("ReduceL1", l1, REDUCE, _FLOAT),
    Lower("ReduceL2", l2, REDUCE, _FLOAT),
    Lower("ReduceSumSquare", sum_square, REDUCE, _FLOAT),
    Lower("ReduceLogSum", log_sum, REDUCE, _FLOAT),
    Lower("ReduceLogSumExp", log_sum_exp, REDUCE, _FLOAT),
    Lower("ArgMax", arg("ARG_MAX", schema.ArgMaxOptionsT), ARG, _ARG),
    Lower("ArgMin", arg("ARG_MIN", schema.ArgMinOptionsT), ARG, _ARG),
    Lower("CumSum", cumsum, FIRST, _NUMBERS),
)
