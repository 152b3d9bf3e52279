"""Operator versions: the oldest one that has what an operator of the file uses.

A runtime looks its kernels up by (operator, version) and refuses a version that it does not know, so each is as low as
it can be. Source of the rules: TensorFlow Lite's `tools/versioning/op_version.cc`. Only what this writer emits is here.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Signature:
    """What versions depend on. An absent optional input has dtype "none" and rank 0."""

    dtypes: Sequence[str]
    ranks: Sequence[int]
    output: str
    options: object | None
    broadcasts: bool
    grows: bool  # Mul: product of the input scales over the output scale is 1 or more
    grouped: bool
    axis_scales: bool  # the input has one scale per slice of an axis


INT8_IS_2: Final = frozenset(
    (
        "ABS",
        "ADD",
        "ARG_MAX",
        "ARG_MIN",
        "AVERAGE_POOL_2D",
        "BATCH_MATMUL",
        "CONCATENATION",
        "DEPTH_TO_SPACE",
        "DEQUANTIZE",
        "EQUAL",
        "EXP",
        "GATHER",
        "GELU",
        "GREATER",
        "GREATER_EQUAL",
        "LESS",
        "LESS_EQUAL",
        "LOG",
        "LOGISTIC",
        "LOG_SOFTMAX",
        "MAXIMUM",
        "MAX_POOL_2D",
        "MEAN",
        "MINIMUM",
        "MIRROR_PAD",
        "MUL",
        "NOT_EQUAL",
        "PACK",
        "PAD",
        "PADV2",
        "REDUCE_MAX",
        "REDUCE_MIN",
        "REDUCE_PROD",
        "RELU",
        "RELU6",
        "RESIZE_BILINEAR",
        "RESIZE_NEAREST_NEIGHBOR",
        "RSQRT",
        "SELECT",
        "SLICE",
        "SOFTMAX",
        "SPACE_TO_DEPTH",
        "SPLIT",
        "SPLIT_V",
        "SQUARED_DIFFERENCE",
        "STRIDED_SLICE",
        "SUB",
        "SUM",
        "TANH",
        "TOPK_V2",
        "TRANSPOSE",
        "UNPACK",
    )
)
INT8_IS_3: Final = frozenset(("CONV_2D", "DEPTHWISE_CONV_2D", "TILE", "REVERSE_V2", "BROADCAST_TO", "FILL", "CAST"))
INT64: Final = {"ADD": 4, "SUB": 4, "MUL": 5, "RANGE": 2}
BOOL: Final = {"TRANSPOSE": 3, "STRIDED_SLICE": 3, "GATHER": 3, "UNPACK": 3, "REVERSE_V2": 2, "FILL": 2, "ARG_MAX": 3}
RANK_5: Final = {"TRANSPOSE": 4, "STRIDED_SLICE": 4, "SLICE": 5, "PAD": 4, "PADV2": 4}
BROADCAST_5: Final = {"SUB": 3, "DIV": 2, "MAXIMUM": 3, "MINIMUM": 3}


def version(op: str, s: Signature) -> int:
    """The version of operator `op` with this signature."""
    return max(1, *(rule(op, s) for rule in (_by_type, _by_rank, _by_option)))


def _by_type(op: str, s: Signature) -> int:
    data = s.dtypes[1] if op in ("SPLIT", "TRANSPOSE_CONV", "FILL") and len(s.dtypes) > 1 else s.dtypes[0]
    if op == "TRANSPOSE_CONV":
        return 3 if len(s.dtypes) == 4 else 2 if data == "int8" else 1
    if op == "FULLY_CONNECTED":
        return max(4 if data == "int8" else 1, 6 if len(s.dtypes) == 2 or s.dtypes[2] == "none" else 1)
    if op == "CAST":
        if {"float16", "float64"} & {data, s.output}:
            return 5
        return {"uint16": 4, "int8": 3, "uint32": 2}.get(data, {"uint16": 4, "int8": 3, "uint32": 2}.get(s.output, 1))
    if op == "DEQUANTIZE" and data == "float16":
        return 3
    if op == "BROADCAST_TO" and data != "int8":
        return 2
    if op == "SIGN" and data == "int32":
        return 2
    if op == "ABS" and data == "int32":
        return 5
    if data == "int8":
        return 3 if op in INT8_IS_3 else 2 if op in INT8_IS_2 else 1
    if data == "int32" and op == "SPLIT":
        return 3
    if op == "FLOOR_DIV" and data == "float32":
        return 2
    return INT64.get(op, 1) if data == "int64" else BOOL.get(op, 1) if data == "bool" else 1


def _by_rank(op: str, s: Signature) -> int:
    rank = max(s.ranks, default=0)
    if op == "TRANSPOSE" and rank > 5:
        return 6
    if rank > 4 and op in RANK_5:
        return RANK_5[op]
    return BROADCAST_5.get(op, 1) if rank > 4 and s.broadcasts else 1


def _by_option(op: str, s: Signature) -> int:
    def on(name: str) -> bool:
        return bool(getattr(s.options, name, False))

    if op == "CONV_2D" and s.grouped:
        return 6
    if (
        op == "DEPTHWISE_CONV_2D"
        and max(getattr(s.options, "dilationHFactor", 1), getattr(s.options, "dilationWFactor", 1)) > 1
    ):
        return 2
    if op == "TRANSPOSE_CONV" and on("fusedActivationFunction"):
        return 4
    if op == "FULLY_CONNECTED" and on("keepNumDims"):
        return 5
    if op == "RESIZE_BILINEAR" and on("halfPixelCenters"):
        return 3
    if op == "RESIZE_NEAREST_NEIGHBOR" and (on("halfPixelCenters") or on("alignCorners")):
        return 3
    if op == "GATHER" and on("batchDims"):
        return 5
    if op == "MUL" and s.grows:
        return 3
    if op == "DEQUANTIZE" and s.axis_scales:
        return 5
    return 1
