"""Activations: elementwise functions of one tensor in any layout, and softmax along the last file axis."""

from collections.abc import Callable
from typing import Final

import ai_edge_litert.schema_py_generated as schema
import numpy as np

from edgekit.compile.tflite.elementwise import operand, requantized
from edgekit.compile.tflite.flatfile import Tensor
from edgekit.compile.tflite.lowering import Lower, attribute_in, constants, dtypes, ranks
from edgekit.compile.tflite.plan import INF, clamp_of
from edgekit.compile.tflite.site import Site
from edgekit.compile.tflite.unary import Formula, unary
from edgekit.compile.tflite.views import AXIS_ATTRIBUTE_LAST, ELEMENTWISE, FIRST
from edgekit.quantize.canonical import real, text
from edgekit.quantize.quantized import QParams

_ALONE: Final = {(0.0, INF): "RELU", (0.0, 6.0): "RELU6", (-1.0, 1.0): "RELU_N1_TO_1"}
UNIT: Final = QParams(1 / 256, 0)
"""The only 8-bit result that LOGISTIC and SOFTMAX have."""
SIGNED_UNIT: Final = QParams(1 / 128, 128)
"""The only 8-bit result that TANH has."""


def clamp(site: Site) -> None:
    """A Relu or Clip that no other node has swallowed."""
    bounds, x = clamp_of(site.node), site.x()
    assert bounds is not None
    name = _ALONE.get((bounds.lo, bounds.hi))
    if x.q is not None:  # at the result's parameters: rounded once, and mostly done by saturation
        site.give(site.clamped(requantized(site, x, site.y()), bounds))
    elif name is None:
        site.give(site.clamped(x, bounds))
    else:
        site.op(name, [x], site.y())


def clip(site: Site) -> None:
    """Bounds that are computed, or a tensor of integers."""
    x = site.x()
    for index, op in ((1, "MAXIMUM"), (2, "MINIMUM")):
        if index < len(site.node.inputs) and site.node.inputs[index] is not None:
            bound = site.x(index, accepted=((),))
            x = site.op(op, [x, bound], site.temp(x.shape, x), schema.MaximumMinimumOptionsT())
    site.give(x)


def with_fixed_scale(op: str, q: QParams, options: Callable[[], object] | None = None) -> Callable[[Site], None]:
    """A kernel whose 8-bit result has parameters of its own; other ones are reached by rounding again."""

    def emit(site: Site) -> None:
        site.op(op, [site.x()], site.y(q=q), options() if options else None)

    return emit


def leaky_relu(site: Site) -> None:
    """Slope for negative values."""
    site.op("LEAKY_RELU", [site.x()], site.y(), schema.LeakyReluOptionsT(real(site.node, "alpha", 0.01)))


def prelu(site: Site) -> None:
    """One slope for all is a LEAKY_RELU in float; otherwise the slope is aligned with the frame."""
    slope = site.constant(1)
    if slope is not None and slope.size == 1 and not site.is_integer:
        number = float(site.real_constant(1).reshape(-1)[0])
        site.op("LEAKY_RELU", [site.x()], site.y(), schema.LeakyReluOptionsT(number))
        return
    x, alpha = site.x(), operand(site, 1)
    if len(alpha.shape) < len(x.shape):
        alpha = site.reshape(alpha, (*(1,) * (len(x.shape) - len(alpha.shape)), *alpha.shape))
    site.op("PRELU", [x, alpha], site.y())


def elu(site: Site) -> None:
    """max(x, 0) + alpha * elu(min(x, 0)); the kernel knows alpha = 1."""
    _scaled_elu(site, real(site.node, "alpha", 1.0), 1.0)


def selu(site: Site) -> None:
    """gamma * (max(x, 0) + alpha * elu(min(x, 0)))."""
    _scaled_elu(
        site, real(site.node, "alpha", 1.67326319217681884765625), real(site.node, "gamma", 1.05070102214813232421875)
    )


def _scaled_elu(site: Site, alpha: float, gamma: float) -> None:
    x = site.x()
    if alpha == gamma == 1.0:
        site.op("ELU", [x], site.y())
        return
    f = Formula(site, x)
    below = f.two("MUL", f.one("ELU", f.two("MINIMUM", x, 0.0)), alpha * gamma)
    above = f.one("RELU", x)
    f.two("ADD", f.two("MUL", above, gamma) if gamma != 1.0 else above, below, site.y())


def celu(site: Site) -> None:
    """alpha * elu(x / alpha) below zero, x above."""
    alpha, x = real(site.node, "alpha", 1.0), site.x()
    f = Formula(site, x)
    below = f.two("MUL", f.one("ELU", f.two("MUL", f.two("MINIMUM", x, 0.0), 1 / alpha)), alpha)
    f.two("ADD", f.one("RELU", x), below, site.y())


def hard_sigmoid(site: Site) -> None:
    """clip(a x + b, 0, 1) = relu6(6 a x + 6 b) / 6: the clamp costs nothing."""
    x, alpha, beta = site.x(), real(site.node, "alpha", 0.2), real(site.node, "beta", 0.5)
    f = Formula(site, x)
    steep = x if np.float32(6 * alpha) == 1 else f.two("MUL", x, 6 * alpha)
    options = schema.AddOptionsT(fusedActivationFunction=schema.ActivationFunctionType.RELU6)
    cut = site.op("ADD", [steep, site.number(6 * beta)], site.temp(x.shape, x), options)
    f.two("MUL", cut, 1 / 6, site.y())


def gelu(site: Site) -> None:
    """Exact (erf) or by tanh."""
    site.op("GELU", [site.x()], site.y(), schema.GeluOptionsT(text(site.node, "approximate", "none") == "tanh"))


def softplus(site: Site) -> None:
    """log(1 + exp(x)), see `_softplus`."""
    _softplus(Formula(site, site.x()), site.y())


def mish(site: Site) -> None:
    """x * tanh(softplus(x))."""
    f = Formula(site, site.x())
    f.two("MUL", f.x, f.one("TANH", _softplus(f)), site.y())


def _softplus(f: Formula, into: Tensor | None = None) -> Tensor:
    """max(x, 0) + log(1 + exp(-|x|)), which never overflows."""
    size = f.one("ABS", f.x, schema.AbsOptionsT())
    small = f.one("EXP", f.one("NEG", size, schema.NegOptionsT()), schema.ExpOptionsT())
    return f.two("ADD", f.one("RELU", f.x), f.one("LOG", f.two("ADD", small, 1.0)), into)


def softsign(site: Site) -> None:
    """x / (1 + |x|)."""
    f = Formula(site, site.x())
    f.two("DIV", f.x, f.two("ADD", f.one("ABS", f.x, schema.AbsOptionsT()), 1.0), site.y())


def softmax(site: Site) -> None:
    """Along the last file axis."""
    site.op("SOFTMAX", [site.x()], site.y(q=UNIT), schema.SoftmaxOptionsT(1.0))


_FLOAT: Final = (dtypes("float32"),)
_NUMBERS: Final = (dtypes("float32", "int32", "int64"),)

ROWS: Final = (
    Lower("Relu", clamp, FIRST, _FLOAT, ()),
    Lower("Clip", clamp, FIRST, (*_FLOAT, constants(1, 2)), ()),
    Lower("Clip", clip, FIRST, _NUMBERS),
    Lower("Sigmoid", with_fixed_scale("LOGISTIC", UNIT), FIRST, _FLOAT, ()),
    Lower("Tanh", with_fixed_scale("TANH", SIGNED_UNIT), FIRST, _FLOAT, ()),
    Lower("LeakyRelu", leaky_relu, FIRST, _FLOAT, ()),
    Lower("PRelu", prelu, ELEMENTWISE, (*_FLOAT, ranks(1, 2, 3, 4)), ()),
    Lower("Elu", elu, FIRST, _FLOAT),
    Lower("Selu", selu, FIRST, _FLOAT),
    Lower("Celu", celu, FIRST, _FLOAT),
    Lower("HardSwish", unary("HARD_SWISH", schema.HardSwishOptionsT), FIRST, _FLOAT, ()),
    Lower("HardSigmoid", hard_sigmoid, FIRST, _FLOAT),
    Lower("Gelu", gelu, FIRST, (*_FLOAT, attribute_in("approximate", "none", "none", "tanh"))),
    Lower("Softplus", softplus, FIRST, _FLOAT),
    Lower("Softsign", softsign, FIRST, _FLOAT),
    Lower("Mish", mish, FIRST, _FLOAT),
    Lower("Softmax", softmax, AXIS_ATTRIBUTE_LAST, _FLOAT, ()),
    Lower("LogSoftmax", unary("LOG_SOFTMAX", schema.LogSoftmaxOptionsT), AXIS_ATTRIBUTE_LAST, _FLOAT),
)
