"""HardSwish, HardSigmoid and Gelu recognised by their values, however an exporter wrote them down.

The nodes between one tensor and a result, all elementwise and with scalar constants, are a function of one number. It
is computed on a grid and compared with the functions that have a node of their own. So the order of factors, a division
in place of a product, or a cube as a power need no pattern each. x * Sigmoid(x) stays two nodes: ONNX has no Silu here.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from math import sqrt
from typing import Final

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from edgekit.build.importing.editing import become
from edgekit.build.rewrite.matching import nodes
from edgekit.quantize.canonical import clamp_bounds, constant, real

_Grid = NDArray[np.float64]
_LARGEST_CONE: Final = 12
_TOLERANCE: Final = 4e-6
_X: Final[_Grid] = np.concatenate([np.linspace(-14, 14, 1401), [-1e3, -60.0, 60.0, 1e3]])


def _erf(x: _Grid) -> _Grid:
    from math import erf

    return np.array([erf(value) for value in x.reshape(-1)]).reshape(x.shape)


def _hard_sigmoid(x: _Grid, alpha: float, beta: float) -> _Grid:
    return np.clip(alpha * x + beta, 0, 1)


def _sigmoid(x: _Grid) -> _Grid:
    return 1 / (1 + np.exp(-x))


_CUBIC: Final = sqrt(2 / np.pi) * (_X + 0.044715 * _X**3)  # Hendrycks and Gimpel, arXiv:1606.08415
_KNOWN: Final[tuple[tuple[str, dict[str, str], _Grid], ...]] = (
    ("HardSwish", {}, _X * _hard_sigmoid(_X, 1 / 6, 0.5)),
    ("Gelu", {}, 0.5 * _X * (1 + _erf(_X / sqrt(2)))),
    ("Gelu", {"approximate": "tanh"}, 0.5 * _X * (1 + np.tanh(_CUBIC))),
)
_BENDS: Final = frozenset(("Clip", "Erf", "HardSigmoid", "Relu", "Tanh"))  # no such function is known without one
_EVALUATE: Final[dict[str, Callable[[ir.Node, list[_Grid]], _Grid]]] = {
    "Add": lambda node, v: v[0] + v[1],
    "Clip": lambda node, v: np.clip(v[0], *clamp_bounds(node)),
    "Div": lambda node, v: v[0] / v[1],
    "Erf": lambda node, v: _erf(v[0]),
    "HardSigmoid": lambda node, v: _hard_sigmoid(v[0], real(node, "alpha", 0.2), real(node, "beta", 0.5)),
    "Mul": lambda node, v: v[0] * v[1],
    "Neg": lambda node, v: -v[0],
    "Pow": lambda node, v: np.power(v[0], v[1]),
    "Relu": lambda node, v: np.maximum(v[0], 0),
    "Sigmoid": lambda node, v: _sigmoid(v[0]),
    "Sub": lambda node, v: v[0] - v[1],
    "Tanh": lambda node, v: np.tanh(v[0]),
}
_ENDS: Final = frozenset(("Clip", "Div", "Mul"))  # what such a function can end in


@dataclass(slots=True)
class _Cone:
    """Nodes between a result and the tensors that it is computed from, so far followed back."""

    nodes: list[ir.Node] = field(default_factory=list)
    leaves: list[ir.Value] = field(default_factory=list)


def recognise_activations(model: ir.Model) -> bool:
    """True where the graph changed."""
    changed = False
    places = {id(node): place for place, node in enumerate(model.graph)}
    for node in reversed(tuple(nodes(model))):
        if node.graph is not None and node.op_type in _ENDS:
            changed |= _recognise(node, places)
    return changed


def _recognise(root: ir.Node, places: dict[int, int]) -> bool:
    """The largest known function that ends in this node takes its place."""
    cone = _Cone([root], _data(root) or [])
    found: tuple[str, dict[str, object], ir.Value] | None = None
    while cone.leaves and len(cone.nodes) <= _LARGEST_CONE:
        if len(cone.leaves) == 1 and any(node.op_type in _BENDS for node in cone.nodes):
            match = _known(root, cone)
            found = match or found
        if not _follow(cone, places):
            break
    if found is None:
        return False
    op, attributes, x = found
    become(root, op, [x], **attributes)
    return True


def _data(node: ir.Node) -> list[ir.Value] | None:
    """What an elementwise node computes from, each once; None: not one, or with constants that are no scalars."""
    if node.op_type not in _EVALUATE or len(node.outputs) != 1:
        return None
    data = []
    for value in node.inputs:
        if value is None:
            continue
        array = constant(value)
        if array is None:
            data.append(value)
        elif array.size != 1:
            return None
    if node.op_type == "Clip" and len(data) != 1:
        return None
    return list({id(value): value for value in data}.values())


def _follow(cone: _Cone, places: dict[int, int]) -> bool:
    """Replace the leaf that is computed last by what it is computed from; False: nothing can be followed."""
    inside = {id(node) for node in cone.nodes}

    def place(value: ir.Value) -> int:
        maker = value.producer()
        return -1 if maker is None else places.get(id(maker), -1)

    leaf = max(cone.leaves, key=place)
    maker = leaf.producer()
    if maker is None or id(maker) not in places or leaf.is_graph_output():
        return False
    data = _data(maker)
    if not data or any(id(use.node) not in inside for use in leaf.uses()):
        return False
    cone.nodes.append(maker)
    cone.leaves = [value for value in cone.leaves if value is not leaf]
    cone.leaves += [value for value in data if all(value is not other for other in cone.leaves)]
    return True


def _known(root: ir.Node, cone: _Cone) -> tuple[str, dict[str, object], ir.Value] | None:
    x = cone.leaves[0]
    if x.dtype is not ir.DataType.FLOAT:
        return None
    with np.errstate(all="ignore"):
        y = _evaluate(root, {id(x): _X})
    if y.shape != _X.shape or not np.isfinite(y).all():
        return None
    for op, attributes, wanted in _KNOWN:
        if (np.abs(y - wanted) <= _TOLERANCE * np.maximum(1, np.abs(_X))).all():
            return op, dict(attributes), x
    return _fitted_hard_sigmoid(y, x, len(cone.nodes))


def _fitted_hard_sigmoid(y: _Grid, x: ir.Value, count: int) -> tuple[str, dict[str, object], ir.Value] | None:
    """max(0, min(1, alpha x + beta)) with whatever alpha and beta it has."""
    rising = np.flatnonzero((y > _TOLERANCE) & (y < 1 - _TOLERANCE))
    if count < 2 or len(rising) < 10 or max(abs(y.min()), abs(y.max() - 1)) > _TOLERANCE:
        return None
    first, last = rising[0], rising[-1]
    alpha = (y[last] - y[first]) / (_X[last] - _X[first])
    beta = y[first] - alpha * _X[first]
    if (np.abs(y - _hard_sigmoid(_X, alpha, beta)) > _TOLERANCE).any():
        return None
    return "HardSigmoid", {"alpha": float(np.float32(alpha)), "beta": float(np.float32(beta))}, x


def _evaluate(node: ir.Node, values: dict[int, _Grid]) -> _Grid:
    operands = []
    for value in node.inputs[:1] if node.op_type == "Clip" else node.inputs:
        assert value is not None
        if id(value) not in values:
            array, maker = constant(value), value.producer()
            if array is not None:
                values[id(value)] = array.astype(np.float64).reshape(())
            else:
                assert maker is not None
                values[id(value)] = _evaluate(maker, values)
        operands.append(values[id(value)])
    return _EVALUATE[node.op_type](node, operands)
