"""What each operator is to the quantizer: one row per operator, conditions as data.

An operator without a row, or whose conditions do not hold, computes in float. So does a product of two activations
(attention): it is a small part of a network's work, and one outlier channel in 8 bits takes its answer away.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Final

import numpy as np
import onnx_ir as ir

from edgekit.quantize.canonical import constant, integer, text
from edgekit.quantize.quantized import QParams


class Kind(Enum):
    """How an operator treats scales."""

    LINEAR = "linear"  # constant weights, int32 accumulator, bias
    SAME = "same"  # values pass through: one scale for all inputs and outputs
    FREE = "free"  # any scale in, any scale out
    FIXED = "fixed"  # the result has a scale of its own whatever goes in
    CLAMP = "clamp"  # Relu and Clip: free, and fused into a LINEAR before them


Condition = Callable[[ir.Node], bool]


@dataclass(frozen=True, slots=True)
class Role:
    """One row. `data`: indexes of the inputs that are 8-bit tensors; None: all of them."""

    kind: Kind
    data: tuple[int, ...] | None = (0,)
    when: tuple[Condition, ...] = ()
    fixed: QParams | None = None


def has_constant(index: int, rank: int | None = None) -> Condition:
    """Input `index` is a constant (of that rank)."""

    def holds(node: ir.Node) -> bool:
        array = constant(node.inputs[index]) if index < len(node.inputs) else None
        return array is not None and (rank is None or array.ndim == rank)

    return holds


def is_computed(index: int) -> Condition:
    """Input `index` is an activation."""
    return lambda node: index < len(node.inputs) and constant(node.inputs[index]) is None


def constants_are_even(node: ir.Node) -> bool:
    """Every constant operand keeps each of its values within some 3 % in 8 bits (a scalar is exact)."""
    for value in node.inputs:
        array = constant(value)
        if array is None:
            continue
        size = np.abs(array[array != 0])
        if not np.isfinite(array).all() or (size.size and size.max() > 16 * size.min()):
            return False
    return True


def bounds_are_scalars(node: ir.Node) -> bool:
    """Clip bounds are absent or constant."""
    return all(v is None or constant(v) is not None for v in node.inputs[1:])


def pads_with_a_real_number(node: ir.Node) -> bool:
    """Pad writes a finite constant, or values that are there already."""
    if text(node, "mode", "constant") != "constant":
        return True
    fill = constant(node.inputs[2]) if len(node.inputs) > 2 and node.inputs[2] is not None else np.float32(0)
    return fill is not None and bool(np.isfinite(fill).all())


def resizes_within_range(node: ir.Node) -> bool:
    """Nearest and linear stay between their inputs; cubic overshoots."""
    return (
        text(node, "mode", "nearest") in ("nearest", "linear")
        and text(node, "coordinate_transformation_mode", "half_pixel") != "tf_crop_and_resize"
    )


def pools_by_default(node: ir.Node) -> bool:
    """MaxPool without its second output."""
    return len([v for v in node.outputs if v.name]) == 1 and integer(node, "storage_order", 0) == 0


_UNIT: Final = QParams(1 / 256, 0)
_SIGNED_UNIT: Final = QParams(1 / 128, 128)

ROLES: Final[dict[str, Role]] = {
    "Conv": Role(Kind.LINEAR, when=(has_constant(1),)),
    "ConvTranspose": Role(Kind.LINEAR, when=(has_constant(1),)),
    "Gemm": Role(Kind.LINEAR, when=(has_constant(1),)),
    "MatMul": Role(Kind.LINEAR, when=(has_constant(1, rank=2), is_computed(0))),
    "Relu": Role(Kind.CLAMP),
    "Clip": Role(Kind.CLAMP, when=(bounds_are_scalars,)),
    "Add": Role(Kind.FREE, data=None, when=(constants_are_even,)),
    "Sub": Role(Kind.FREE, data=None, when=(constants_are_even,)),
    "Mul": Role(Kind.FREE, data=None, when=(constants_are_even,)),
    "LeakyRelu": Role(Kind.FREE),
    "PRelu": Role(Kind.FREE, data=None, when=(has_constant(1),)),
    "HardSwish": Role(Kind.FREE),
    "GlobalAveragePool": Role(Kind.FREE),
    "ReduceMean": Role(Kind.FREE),
    "Sigmoid": Role(Kind.FIXED, fixed=_UNIT),
    "HardSigmoid": Role(Kind.FREE),
    "Tanh": Role(Kind.FIXED, fixed=_SIGNED_UNIT),
    "MaxPool": Role(Kind.SAME, when=(pools_by_default,)),
    "AveragePool": Role(Kind.SAME),
    "Concat": Role(Kind.SAME, data=None),
    "Reshape": Role(Kind.SAME, when=(has_constant(1),)),
    "Flatten": Role(Kind.SAME),
    "Transpose": Role(Kind.SAME),
    "Squeeze": Role(Kind.SAME),
    "Unsqueeze": Role(Kind.SAME),
    "Slice": Role(Kind.SAME, when=(has_constant(1), has_constant(2))),
    "Split": Role(Kind.SAME),
    "Gather": Role(Kind.SAME, when=(is_computed(0), has_constant(1))),
    "Pad": Role(Kind.SAME, when=(has_constant(1), pads_with_a_real_number)),
    "Resize": Role(Kind.SAME, when=(resizes_within_range,)),
    "DepthToSpace": Role(Kind.SAME),
    "SpaceToDepth": Role(Kind.SAME),
    "Identity": Role(Kind.SAME),
}


def role(node: ir.Node) -> Role | None:
    """The row that applies to this node, or None: it computes in float."""
    if node.domain not in ("", "ai.onnx"):
        return None
    row = ROLES.get(node.op_type)
    return row if row is not None and all(holds(node) for holds in row.when) and _data_is_float(node, row) else None


def is_linear(node: ir.Node) -> bool:
    """Whether the node has constant weights of its own and an int32 accumulator in 8 bits."""
    row = role(node)
    return row is not None and row.kind is Kind.LINEAR


def data_inputs(node: ir.Node, row: Role) -> tuple[ir.Value, ...]:
    """The inputs that are 8-bit tensors when the node computes in integers."""
    picked = node.inputs if row.data is None else [node.inputs[i] for i in row.data]
    return tuple(v for v in picked if v is not None)


def _data_is_float(node: ir.Node, row: Role) -> bool:
    return all(v.dtype == ir.DataType.FLOAT for v in (*data_inputs(node, row), node.outputs[0]))
