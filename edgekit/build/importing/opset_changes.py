"""What changed between opsets 9 and 21, one row each: adapters to the newer form, and changes that need none.

Source of every rule: the operator changelog of the ONNX specification (docs/Changelog.md of onnx/onnx).
An adapter gets a node of the form before its opset and leaves the form of that opset.
"""

from collections.abc import Callable
from typing import Final

import numpy as np
import onnx_ir as ir

from edgekit.build.importing.editing import (
    become,
    constant_beside,
    put_before,
    put_constant,
    take_float,
    take_int,
    take_ints,
)
from edgekit.build.importing.resize_changes import resize_of_opset_11, resize_of_opset_13, upsample_to_resize
from edgekit.core.errors import Unsupported
from edgekit.quantize.canonical import constant, integer, real, text

Adapter = Callable[[ir.Node], None]


def _axes_to_input(node: ir.Node) -> None:
    """Squeeze, Unsqueeze, Reduce*: `axes` from attribute to input 1; absent stays absent."""
    axes = take_ints(node, "axes")
    if axes is not None:
        put_constant(node, 1, "axes", np.asarray(axes, np.int64))


def _slice(node: ir.Node) -> None:
    """Slice 10: starts, ends, axes from attributes to inputs 1 to 3."""
    for index, name in enumerate(("starts", "ends", "axes"), start=1):
        values = take_ints(node, name)
        if values is not None:
            put_constant(node, index, name, np.asarray(values, np.int64))


def _top_k(node: ir.Node) -> None:
    """TopK 10: k from attribute to input 1, a tensor of one element."""
    put_constant(node, 1, "k", np.asarray([take_int(node, "k")], np.int64))


def _clip(node: ir.Node) -> None:
    """Clip 11: min and max from attributes to inputs 1 and 2 of the tensor's type; an absent bound is no bound."""
    source = node.inputs[0]
    assert source is not None
    dtype = np.dtype(np.float32) if source.dtype is None else source.dtype.numpy()
    for index, name in enumerate(("min", "max"), start=1):
        bound = take_float(node, name)
        if bound is not None:
            put_constant(node, index, name, np.asarray(bound).astype(dtype))


def _pad(node: ir.Node) -> None:
    """Pad 11: pads and value from attributes to inputs 1 and 2."""
    source = node.inputs[0]
    assert source is not None
    dtype = np.dtype(np.float32) if source.dtype is None else source.dtype.numpy()
    put_constant(node, 1, "pads", np.asarray(take_ints(node, "pads"), np.int64))
    value = take_float(node, "value")
    if value is not None and text(node, "mode", "constant") == "constant":
        put_constant(node, 2, "value", np.asarray(value).astype(dtype))


def _scatter(node: ir.Node) -> None:
    """Scatter 11 is gone; ScatterElements means the same."""
    become(node, "ScatterElements", node.inputs, axis=integer(node, "axis", 0))


def _softmax(node: ir.Node) -> None:
    """Softmax, LogSoftmax, Hardmax 13: before, the input was taken as a matrix, [axes before `axis`, the rest].

    Over one axis when all behind it has size 1; else Flatten, the operator over the last axis, and the shape again.
    """
    source = node.inputs[0]
    assert source is not None
    axis = integer(node, "axis", 1)
    shape = source.shape
    if shape is not None:
        axis = axis + len(shape) if axis < 0 else axis
        if all(dim == 1 for dim in list(shape)[axis + 1 :]) and axis < len(shape):
            node.attributes["axis"] = ir.AttrInt64("axis", axis)
            return
    flat = put_before(node, "Flatten", [source], "flat", axis=axis)
    result = put_before(node, node.op_type, [flat], "rows", axis=-1)
    back = _shape_of(node, source)
    become(node, "Reshape", [result, back])


def _shape_of(node: ir.Node, source: ir.Value) -> ir.Value:
    """The shape of a value as a tensor: a constant with one size left to Reshape where that is enough."""
    if source.shape is not None and all(dim != 0 for dim in source.shape):
        sizes = [dim if isinstance(dim, int) else -1 for dim in source.shape]
        if sizes.count(-1) <= 1:
            return constant_beside(node, "shape", np.asarray(sizes, np.int64))
    return put_before(node, "Shape", [source], "shape")


def _split_to_input(node: ir.Node) -> None:
    """Split 13: the sizes from attribute to input 1."""
    sizes = take_ints(node, "split")
    if sizes is not None:
        put_constant(node, 1, "split", np.asarray(sizes, np.int64))


def _split_count(node: ir.Node) -> None:
    """Split 18: without sizes, the number of parts is said."""
    if len(node.inputs) < 2 or node.inputs[1] is None:
        node.attributes["num_outputs"] = ir.AttrInt64("num_outputs", len(node.outputs))


def _roi_align(node: ir.Node) -> None:
    """RoiAlign 16: the default became half_pixel; before, boxes were not shifted."""
    node.attributes["coordinate_transformation_mode"] = ir.AttrString(
        "coordinate_transformation_mode", "output_half_pixel"
    )


def _grid_sample(node: ir.Node) -> None:
    """GridSample 20: two modes were renamed."""
    names = {"bilinear": "linear", "bicubic": "cubic"}
    mode = text(node, "mode", "bilinear")
    node.attributes["mode"] = ir.AttrString("mode", names.get(mode, mode))


def _dft(node: ir.Node) -> None:
    """DFT 20: axis from attribute to input 2; its default was 1."""
    axis = take_int(node, "axis")
    put_constant(node, 2, "axis", np.asarray(1 if axis is None else axis, np.int64))


def _group_norm(node: ir.Node) -> None:
    """GroupNormalization 21: scale and bias per channel; before, per group."""
    source = node.inputs[0]
    channels = source.shape[1] if source is not None and source.shape is not None and len(source.shape) > 1 else None
    groups = integer(node, "num_groups", 1)
    for index, name in ((1, "scale"), (2, "bias")):
        array = constant(node.inputs[index])
        if array is None or not isinstance(channels, int) or groups < 1 or len(array) != groups:
            why = f"its {name} per group is computed, or its number of channels is free"
            raise Unsupported(f"'{node.name}' (GroupNormalization)", why, "export with opset 21, or with opset 17")
        put_constant(node, index, name, np.repeat(array, channels // groups))


def _swish(node: ir.Node) -> None:
    """Swish (opset 24) is x * sigmoid(alpha * x)."""
    source = node.inputs[0]
    assert source is not None
    alpha = real(node, "alpha", 1.0)
    inner = source
    if alpha != 1.0:
        assert source.dtype is not None
        factor = constant_beside(node, "alpha", np.asarray(alpha).astype(source.dtype.numpy()))
        inner = put_before(node, "Mul", [source, factor], "scaled")
    gate = put_before(node, "Sigmoid", [inner], "gate")
    become(node, "Mul", [source, gate])


def _rms_normalization(node: ir.Node) -> None:
    """RMSNormalization (opset 23) is x / sqrt(mean(x², axes from `axis`) + epsilon) * scale."""
    source, scale = node.inputs[0], node.inputs[1]
    assert source is not None
    if source.shape is None or source.dtype is None:
        raise Unsupported(f"'{node.name}' ({node.op_type})", "its rank is not known", "bind the shapes of the inputs")
    rank = len(source.shape)
    first = integer(node, "axis", -1) % rank
    axes = constant_beside(node, "axes", np.arange(first, rank, dtype=np.int64))
    epsilon = constant_beside(node, "epsilon", np.asarray(real(node, "epsilon", 1e-5)).astype(source.dtype.numpy()))
    square = put_before(node, "Mul", [source, source], "square")
    mean = put_before(node, "ReduceMean", [square, axes], "mean", keepdims=1)
    shifted = put_before(node, "Add", [mean, epsilon], "shifted")
    root = put_before(node, "Sqrt", [shifted], "root")
    normal = put_before(node, "Div", [source, root], "normal")
    become(node, "Mul", [normal, scale])


_REDUCE_18: Final = (
    *("ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean"),
    *("ReduceMin", "ReduceProd", "ReduceSumSquare"),
)

ADAPTERS: Final[dict[tuple[str, int], Adapter]] = {
    ("Upsample", 10): upsample_to_resize,
    ("Slice", 10): _slice,
    ("TopK", 10): _top_k,
    ("Resize", 11): resize_of_opset_11,
    ("Clip", 11): _clip,
    ("Pad", 11): _pad,
    ("Scatter", 11): _scatter,
    ("Softmax", 13): _softmax,
    ("LogSoftmax", 13): _softmax,
    ("Hardmax", 13): _softmax,
    ("Squeeze", 13): _axes_to_input,
    ("Unsqueeze", 13): _axes_to_input,
    ("ReduceSum", 13): _axes_to_input,
    ("Split", 13): _split_to_input,
    ("Resize", 13): resize_of_opset_13,
    ("RoiAlign", 16): _roi_align,
    ("Split", 18): _split_count,
    **{(name, 18): _axes_to_input for name in _REDUCE_18},
    ("GridSample", 20): _grid_sample,
    ("DFT", 20): _dft,
    ("GroupNormalization", 21): _group_norm,
}

EXPANSIONS: Final[dict[str, Adapter]] = {"Swish": _swish, "RMSNormalization": _rms_normalization}
"""Operators newer than the canonical opset, written in operators of it."""

SAME: Final[dict[int, str]] = {
    # types, negative axes, or options whose default is the old meaning; Dropout and BatchNormalization in training
    # are refused before, so that what is left of them means the same
    10: "AveragePool Dropout MaxPool",
    11: "ArgMax ArgMin AveragePool Compress Concat Constant Conv ConvTranspose DepthToSpace Equal Flatten Gather "
    "Gemm If Loop LpPool MaxPool MaxUnpool NonMaxSuppression OneHot ReduceL1 ReduceL2 ReduceLogSum "
    "ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum ReduceSumSquare Scan Slice Split "
    "Squeeze TopK Unsqueeze Hardmax LogSoftmax Softmax",
    12: "ArgMax ArgMin Clip Constant Dropout GatherND Max MaxPool Min Pow ReduceMax ReduceMin",
    13: "Abs Add ArgMax ArgMin Cast Ceil Clip Concat Constant DepthToSpace DequantizeLinear Div Dropout Equal Erf "
    "Exp Expand Flatten Floor Gather GatherElements GatherND Gemm Greater Identity If IsNaN LRN Less Log Loop "
    "MatMul Max Mean MeanVarianceNormalization Min Mod Mul Neg NegativeLogLikelihoodLoss NonZero Pad Pow "
    "QuantizeLinear Reciprocal ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin "
    "ReduceProd ReduceSumSquare Relu Reshape ScatterElements ScatterND Shape Sigmoid Sign Size Slice "
    "SoftmaxCrossEntropyLoss SpaceToDepth Sqrt Sub Sum Tanh Tile Transpose",
    14: "Add BatchNormalization CumSum Div GRU Identity LSTM Mul RNN Relu Reshape Sub",
    15: "BatchNormalization Pow Shape",
    16: "GreaterOrEqual Identity If LeakyRelu LessOrEqual Loop PRelu Scan ScatterElements ScatterND Where",
    17: "",
    18: "LpPool OptionalGetElement OptionalHasElement Pad Resize ScatterElements ScatterND",
    19: "AveragePool Cast CastLike Constant DequantizeLinear Equal Identity If Loop Pad QuantizeLinear Reshape "
    "Resize Scan Shape Size",
    20: "ConstantOfShape IsInf IsNaN ReduceMax ReduceMin",
    21: "Cast CastLike Constant ConstantOfShape DequantizeLinear Flatten Identity If Loop Pad QLinearMatMul "
    "QuantizeLinear Reshape Scan Shape Size Squeeze Transpose Unsqueeze",
}
