"""Every operator against ONNX Runtime: float within 1e-5 of the range, 8-bit within one level, shapes as inferred.

Sizes are equal where they can be (C = H = W), so that a wrong order of axes cannot hide behind a wrong shape.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray

from edgekit.compile.tflite.target import TARGET
from edgekit.quantize.quantized import QuantizedModel
from edgekit.quantize.simulate import real_weight

if TYPE_CHECKING:
    from tests.compile.tflite.conftest import Writer

Array = NDArray[Any]
RNG = np.random.default_rng(7)
CUBE = (1, 6, 6, 6)


def normal(*shape: int, scale: float = 1.0) -> NDArray[np.float32]:
    return np.asarray(RNG.standard_normal(shape) * scale, np.float32)


def i64(*values: int) -> NDArray[np.int64]:
    return np.array(values, np.int64)


def f32(value: object) -> NDArray[np.float32]:
    return np.array(value, np.float32)


@dataclass(frozen=True)
class Case:
    """One node. `inputs`: arrays fed; `constants`: initializers; "" in `reads`: an absent input."""

    op: str
    inputs: Mapping[str, Array]
    constants: Mapping[str, Array] = field(default_factory=dict)
    attributes: Mapping[str, Any] = field(default_factory=dict)
    reads: str = ""
    outputs: int = 1
    before: str = ""  # an operator in front that wants channels last
    int8: bool = True
    free: Mapping[int, str] = field(default_factory=dict)  # axes of the first input that are free in the file
    note: str = ""
    atol: float = 1e-5

    @property
    def label(self) -> str:
        shapes = "_".join("x".join(map(str, a.shape)) for a in self.inputs.values())
        marks = ",".join(f"{k}={v}" for k, v in self.attributes.items())
        return f"{self.op}-{shapes}-{marks}{self.note}{'-free' if self.free else ''}".replace(" ", "")


def x(*shape: int) -> dict[str, Array]:
    return {"x": normal(*shape)}


def ids(high: int, *shape: int, dtype: type = np.int64) -> NDArray[np.integer]:
    return RNG.integers(0, high, shape).astype(dtype)


def conv(
    weight: tuple[int, ...],
    shape: tuple[int, ...] = CUBE,
    *,
    bias: bool = True,
    transposed: bool = False,
    free: Mapping[int, str] | None = None,
    group: int = 1,
    **attributes: list[int],
) -> Case:
    op = "ConvTranspose" if transposed else "Conv"
    outputs = weight[1] * group if op == "ConvTranspose" else weight[0]
    constants = {"w": normal(*weight, scale=0.3)} | ({"b": normal(outputs)} if bias else {})
    note = "-w" + "x".join(map(str, weight)) + ("" if bias else "-nobias")
    return Case(op, x(*shape), constants, {"group": group, **attributes}, free=free or {}, note=note)


CONVOLUTIONS = [
    conv((6, 6, 3, 3), pads=[1, 1, 1, 1]),
    conv((6, 6, 3, 3), bias=False),
    conv((4, 6, 1, 1)),
    conv((6, 6, 3, 3), pads=[0, 0, 1, 1], strides=[2, 2]),
    conv((6, 6, 3, 3), pads=[1, 1, 1, 1], strides=[2, 2]),
    conv((6, 6, 3, 2), pads=[2, 0, 1, 3], strides=[1, 2]),
    conv((6, 6, 3, 3), pads=[2, 2, 2, 2], dilations=[2, 2]),
    conv((6, 6, 2, 3), dilations=[3, 1]),
    conv((6, 3, 3, 3), group=2, pads=[1, 1, 1, 1]),
    conv((12, 2, 3, 3), group=3, strides=[2, 2]),
    conv((6, 1, 3, 3), group=6, pads=[1, 1, 1, 1]),
    conv((18, 1, 3, 3), group=6, pads=[1, 1, 1, 1], strides=[2, 2]),
    conv((12, 1, 3, 3), group=6, pads=[2, 2, 2, 2], dilations=[2, 2]),
    conv((5, 1, 3, 3), (1, 1, 5, 5)),
    conv((6, 6, 3), (2, 6, 6), pads=[1, 1]),
    conv((6, 2, 3), (1, 6, 9), group=3, strides=[2]),
    conv((6, 1, 3), (1, 6, 6), group=6, dilations=[2], pads=[2, 2]),
    conv((6, 6, 3, 3), (3, 6, 6, 6), pads=[1, 1, 1, 1], free={0: "N"}),
    conv((6, 6, 3, 3), (2, 6, 6, 7), pads=[1, 1, 1, 1], strides=[2, 2], free={0: "N", 3: "W"}),
    conv((6, 4, 3, 3), transposed=True, strides=[2, 2], pads=[1, 1, 1, 1], output_padding=[1, 1]),
    conv((6, 4, 3, 3), transposed=True, strides=[2, 2]),
    conv((6, 4, 4, 4), transposed=True, strides=[2, 2], pads=[1, 1, 1, 1], bias=False),
    conv((6, 4, 2, 2), transposed=True, strides=[2, 2]),
    conv((6, 4, 3, 3), transposed=True, strides=[3, 2], pads=[0, 1, 2, 0], output_padding=[2, 1]),
    conv((6, 2, 3, 3), transposed=True, group=2, strides=[2, 2], pads=[1, 1, 1, 1], output_padding=[1, 1]),
    conv((6, 1, 4, 4), transposed=True, group=6, strides=[2, 2], pads=[1, 1, 1, 1]),
    conv((6, 4, 3, 3), transposed=True, dilations=[2, 2], pads=[1, 2, 1, 2]),
    conv((6, 4, 3), (2, 6, 6), transposed=True, strides=[2], pads=[1, 0]),
    conv((6, 4, 3, 3), (2, 6, 5, 6), transposed=True, strides=[2, 2], pads=[1, 1, 0, 1], free={0: "N", 3: "W"}),
]


def pool(
    op: str, shape: tuple[int, ...] = CUBE, free: Mapping[int, str] | None = None, **attributes: int | list[int]
) -> Case:
    return Case(op, x(*shape), attributes=attributes, free=free or {})


POOLS = [
    *(
        pool(op, CUBE, None, kernel_shape=[3, 3], **a)
        for op in ("MaxPool", "AveragePool")
        for a in (
            {"strides": [2, 2]},
            {"strides": [2, 2], "ceil_mode": 1},
            {"strides": [2, 2], "pads": [1, 1, 1, 1]},
            {"strides": [1, 1], "pads": [1, 1, 1, 1]},
            {"strides": [3, 2], "pads": [0, 2, 1, 1], "ceil_mode": 1},
        )
    ),
    pool("MaxPool", kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1, shape=(1, 5, 5, 5)),
    pool("AveragePool", kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1, shape=(1, 5, 5, 5)),
    pool("AveragePool", kernel_shape=[3, 3], pads=[1, 1, 1, 1], count_include_pad=1),
    pool("AveragePool", kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1], count_include_pad=1, ceil_mode=1),
    pool("AveragePool", kernel_shape=[3], strides=[2], pads=[1, 1], shape=(2, 6, 6)),
    pool("MaxPool", kernel_shape=[3], pads=[1, 0], shape=(2, 6, 6)),
    pool("MaxPool", kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1], shape=(2, 6, 7, 6), free={0: "N", 2: "H"}),
    Case("GlobalAveragePool", x(2, 6, 6, 6), free={0: "N"}),
    Case("GlobalMaxPool", x(1, 6, 6, 6)),
    Case("GlobalAveragePool", x(2, 6, 6)),
]


def resize(
    mode: str, coordinates: str, scale: tuple[float, float], nearest: str = "", free: Mapping[int, str] | None = None
) -> Case:
    attributes = {"mode": mode, "coordinate_transformation_mode": coordinates} | (
        {"nearest_mode": nearest} if nearest else {}
    )
    return Case(
        "Resize",
        x(1, 6, 6, 6),
        {"s": f32([1, 1, *scale])},
        attributes,
        "x - s",
        note=f"-{scale[0]}x{scale[1]}",
        free=free or {},
    )


RESIZES = [
    *(
        resize("nearest", c, s, n)
        for c, n in (
            ("asymmetric", "floor"),
            ("half_pixel", "round_prefer_floor"),
            ("half_pixel", "round_prefer_ceil"),
            ("asymmetric", "round_prefer_floor"),
            ("align_corners", "round_prefer_floor"),
            ("half_pixel", "ceil"),
        )
        for s in ((2.0, 2.0), (1.5, 0.5))
    ),
    *(
        resize("linear", c, s)
        for c in ("half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel")
        for s in ((2.0, 2.0), (0.5, 1.5))
    ),
    resize("nearest", "asymmetric", (2.0, 2.0), "floor", free={0: "N", 2: "H", 3: "W"}),
    resize("linear", "half_pixel", (2.0, 3.0), free={3: "W"}),
    Case("Resize", x(1, 6, 6), {"z": i64(1, 6, 12)}, {"mode": "linear"}, "x - - z"),
]

ACTIVATIONS = [
    *(
        Case(op, x(*CUBE))
        for op in [
            "Relu",
            "Sigmoid",
            "Tanh",
            "HardSwish",
            "Softplus",
            "Softsign",
            "Mish",
            "Elu",
            "Selu",
            "Celu",
            "HardSigmoid",
            "LeakyRelu",
            "Gelu",
        ]
    ),
    Case("Elu", x(*CUBE), attributes={"alpha": 0.5}),
    Case("Celu", x(*CUBE), attributes={"alpha": 2.0}),
    Case("Gelu", x(*CUBE), attributes={"approximate": "tanh"}),
    Case("HardSigmoid", x(*CUBE), attributes={"alpha": 1 / 6, "beta": 0.5}),
    Case("LeakyRelu", x(*CUBE), attributes={"alpha": 0.3}),
    *(
        Case("Clip", x(*CUBE), {k: f32(v) for k, v in bounds.items()}, {}, reads, note=f"-{bounds}")
        for bounds, reads in (
            ({"lo": 0, "hi": 6}, "x lo hi"),
            ({"lo": -1, "hi": 1}, "x lo hi"),
            ({"lo": -0.5, "hi": 2}, "x lo hi"),
            ({"lo": 0, "hi": 1}, "x lo hi"),
            ({"hi": 0.7}, "x - hi"),
            ({"lo": -0.3}, "x lo"),
            ({}, "x"),
        )
    ),
    *(
        Case("PRelu", x(*CUBE), {"slope": normal(*shape, scale=0.5)}, note=f"-slope{shape}")
        for shape in ((6, 1, 1), (6,), (1,), (1, 6, 1), (6, 6, 6), (1, 1, 1, 6))
    ),
    *(Case(op, x(2, 6, 6, 6), attributes={"axis": axis}) for op in ("Softmax", "LogSoftmax") for axis in (-1, 1, 2)),
    Case("Softmax", x(3, 10), attributes={"axis": -1}, free={0: "N"}),
]

FLOATS = {"a": normal(*CUBE), "b": normal(*CUBE)}
BROADCASTS = [
    ((1, 6, 6, 6), (6, 1, 1)),
    ((6,), (1, 6, 6, 6)),
    ((1, 6, 1, 6), (6, 6, 1)),
    ((1, 6, 6, 6), ()),
    ((6, 6), (6, 1)),
    ((2, 6, 6), (6,)),
]
ELEMENTWISE = [
    *(
        Case(op, FLOATS)
        for op in ["Add", "Sub", "Mul", "Min", "Max", "Greater", "Less", "GreaterOrEqual", "LessOrEqual", "Equal"]
    ),
    Case("Div", {"a": normal(*CUBE), "b": np.abs(normal(*CUBE)) + f32(0.5)}),
    Case("Pow", {"a": np.abs(normal(*CUBE)), "b": normal(*CUBE)}, int8=False),
    *(
        Case("Pow", {"a": np.abs(normal(*CUBE))}, {"e": e}, note=f"-{e.dtype}{e.reshape(())}")
        for e in (f32(2), f32(0.5), f32([3]), i64(2), f32(-1.5))
        if e.size
    ),
    *(
        Case(op, {"a": normal(*a), "b": normal(*b)}, note=f"{a}{b}")
        for op in ("Add", "Mul", "Sub")
        for a, b in BROADCASTS
    ),
    *(Case("Add", {"a": normal(*a)}, {"b": normal(*b)}, note=f"-const{b}") for a, b in BROADCASTS if a != (6,)),
    Case("Sub", {"a": normal(*CUBE)}, {"b": normal(6, 1, 1)}, reads="b a"),
    Case("Max", {"a": normal(*CUBE), "b": normal(*CUBE), "c": normal(*CUBE)}),
    Case("Sum", {"a": normal(*CUBE), "b": normal(*CUBE), "c": normal(*CUBE)}),
    Case("Min", {"a": normal(*CUBE)}, {"b": f32(0.3)}),
    Case("Add", {"a": i64(2**40, -7), "b": i64(5, 2**33)}, int8=False),
    Case("Mul", {"a": ids(9, 3, 4), "b": ids(9, 4)}, int8=False),
    Case("Div", {"a": np.array([7, -7, 9], np.int32), "b": np.array([2, 2, 3], np.int32)}, int8=False),
    Case("Mod", {"a": i64(7, -7, 9)}, {"b": i64(3)}, int8=False),
    Case("And", {"a": normal(*CUBE) > 0, "b": normal(6) > 0}, int8=False),
    Case("Or", {"a": normal(*CUBE) > 0, "b": normal(*CUBE) > 0}, int8=False),
    Case("Xor", {"a": normal(*CUBE) > 0, "b": normal(*CUBE) > 0}, int8=False),
    Case("Not", {"a": normal(*CUBE) > 0}, int8=False),
    Case("Where", {"c": normal(6, 1) > 0, "a": normal(*CUBE), "b": normal(6, 1, 1)}),
    Case("Equal", {"a": ids(3, 4, 5), "b": ids(3, 4, 5)}, int8=False),
    *(Case(op, x(*CUBE)) for op in ["Abs", "Neg", "Exp", "Floor", "Ceil", "Round", "Sin", "Cos", "Sign", "Erf"]),
    *(Case(op, {"x": np.abs(normal(*CUBE)) + f32(0.5)}) for op in ["Log", "Sqrt", "Reciprocal"]),
]

REDUCTIONS = [
    *(
        Case(op, x(2, 6, 6, 6), {"axes": i64(*axes)}, {"keepdims": keep}, note=f"-axes{axes}", atol=3e-5)
        for op in ("ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin")
        for axes, keep in (((2, 3), 1), ((2, 3), 0), ((1,), 1), ((1,), 0), ((-1,), 0), ((0, 2), 0), ((0, 1, 2, 3), 0))
    ),
    *(
        Case(op, {"x": np.abs(normal(2, 6, 6, 6)) + f32(0.5)}, {"axes": i64(1, 3)}, {"keepdims": 0}, int8=False)
        for op in ["ReduceProd", "ReduceL1", "ReduceL2", "ReduceSumSquare", "ReduceLogSum", "ReduceLogSumExp"]
    ),
    Case("ReduceMean", x(2, 6, 6)),
    Case("ReduceSum", x(2, 6, 6), attributes={"noop_with_empty_axes": 1}),
    Case("ReduceMean", x(2, 6, 6, 6), {"axes": i64(2)}, {"keepdims": 0}, free={0: "N", 3: "W"}),
    Case("ReduceSum", {"x": ids(2**40, 3, 4)}, {"axes": i64(1)}, int8=False),
    *(
        Case(op, x(2, 6, 6, 6), attributes={"axis": axis, "keepdims": k})
        for op in ("ArgMax", "ArgMin")
        for axis, k in ((1, 1), (1, 0), (-1, 0), (2, 1))
    ),
    Case("CumSum", x(2, 6, 6), {"axis": i64(1).reshape(())}, {"reverse": 1, "exclusive": 1}),
]


def sliced(
    shape: tuple[int, ...],
    starts: tuple[int, ...],
    ends: tuple[int, ...],
    axes: tuple[int, ...],
    steps: tuple[int, ...],
    free: Mapping[int, str] | None = None,
) -> Case:
    constants = {"starts": i64(*starts), "ends": i64(*ends), "axes": i64(*axes), "steps": i64(*steps)}
    return Case("Slice", x(*shape), constants, note=f"-{starts}{ends}{axes}{steps}", free=free or {})


def padded(
    pads: tuple[int, ...], mode: str = "constant", fill: float | None = None, free: Mapping[int, str] | None = None
) -> Case:
    constants = {"pads": i64(*pads)} | ({} if fill is None else {"fill": f32(fill)})
    return Case("Pad", x(*CUBE), constants, {"mode": mode}, note=f"-{pads}{fill}", free=free or {})


MAX, MIN = 2**63 - 1, -(2**63)
MOVES = [
    *(Case("Concat", {"a": normal(*CUBE), "b": normal(*CUBE)}, attributes={"axis": axis}) for axis in (0, 1, 2, -1)),
    Case("Concat", {"a": normal(*CUBE)}, {"b": normal(1, 2, 6, 6)}, {"axis": 1}),
    Case("Split", x(*CUBE), {"sizes": i64(2, 4)}, {"axis": 1}, outputs=2),
    Case("Split", x(*CUBE), {}, {"axis": 2, "num_outputs": 3}, outputs=3),
    sliced(CUBE, (1,), (4,), (1,), (1,)),
    sliced(CUBE, (0, 1), (6, MAX), (2, 3), (2, 2)),
    sliced(CUBE, (-1,), (MIN,), (1,), (-1,)),
    sliced(CUBE, (4, -2), (0, -6), (2, 3), (-2, -1)),
    sliced(CUBE, (-3,), (100,), (-1,), (1,)),
    sliced((2, 6, 6, 7), (1,), (-1,), (3,), (1,), free={0: "N", 3: "W"}),
    sliced((2, 6, 6, 7), (1,), (MAX,), (3,), (2,), free={3: "W"}),
    sliced((2, 6, 6, 7), (-1,), (MIN,), (3,), (-1,), free={3: "W"}),
    padded((0, 0, 1, 2, 0, 0, 3, 0)),
    padded((0, 1, 0, 0, 0, 2, 0, 0), fill=1.5),
    padded((0, 0, 2, 3, 0, 0, 5, 0), "reflect"),
    padded((0, 1, 2, 1, 0, 0, 3, 7), "edge"),
    padded((0, 0, -1, 2, 0, 0, -2, 0)),
    padded((0, 0, 1, 1, 0, 0, 1, 1), free={0: "N", 3: "W"}),
    Case("Tile", x(*CUBE), {"repeats": i64(2, 1, 3, 1)}),
    Case("Expand", x(1, 6, 1, 6), {"shape": i64(2, 6, 4, 1)}),
    Case("Expand", x(6, 1), {"shape": i64(2, 1, 6)}),
    Case("Expand", x(3, 1, 6), {"shape": i64(1, 4, 1)}, free={0: "N"}),
    Case("Reshape", x(*CUBE), {"shape": i64(1, 36, 6)}),
    Case("Reshape", x(*CUBE), {"shape": i64(6, -1)}),
    Case("Reshape", x(*CUBE), {"shape": i64(0, 2, 3, 0, -1)}),
    Case("Reshape", x(2, 6, 6, 6), {"shape": i64(0, 6, -1)}, free={0: "N", 3: "W"}),
    Case("Flatten", x(2, 6, 6, 6), attributes={"axis": 1}, free={0: "N"}),
    Case("Flatten", x(2, 6, 6, 6), attributes={"axis": 2}),
    Case("Flatten", x(2, 6, 6, 6), attributes={"axis": 1}, free={0: "N", 2: "H"}),
    Case("Flatten", x(2, 6, 6, 6), attributes={"axis": 3}, free={0: "N", 3: "W"}),
    *(
        Case("Transpose", x(2, 6, 6, 6), attributes={"perm": perm})
        for perm in ([0, 2, 3, 1], [0, 3, 1, 2], [3, 1, 0, 2])
    ),
    Case("Transpose", x(2, 6, 6), attributes={"perm": [0, 2, 1]}),
    Case("Squeeze", x(1, 6, 1, 6), {"axes": i64(2)}),
    Case("Squeeze", x(2, 6, 1, 6), {"axes": i64(-2)}, free={0: "N", 3: "W"}),
    Case("Unsqueeze", x(2, 6, 6), {"axes": i64(1, -1)}),
    Case("Unsqueeze", x(2, 6, 6), {"axes": i64(0)}, free={0: "N", 2: "W"}),
    Case("Identity", x(*CUBE)),
    *(Case("DepthToSpace", x(1, 8, 4, 4), attributes={"blocksize": 2, "mode": m}) for m in ("DCR", "CRD")),
    Case("SpaceToDepth", x(1, 6, 6, 6), attributes={"blocksize": 2}),
    Case("Shape", x(2, 6, 6, 6), int8=False),
    Case("Shape", x(2, 6, 6, 7), attributes={"start": 1, "end": -1}, int8=False, free={2: "H"}),
    Case("ConstantOfShape", {"x": i64(2, 3)}, int8=False),
    *(Case("Gather", x(*CUBE), {"i": i64(5, -1, 0)}, {"axis": axis}) for axis in (0, 1, 3) if axis),
    Case("Gather", x(*CUBE), {"i": i64(-2).reshape(())}, {"axis": 1}),
    Case("Gather", x(*CUBE), {"i": i64(0, 1, 2, 3).reshape(2, 2)}, {"axis": 2}),
    Case("Gather", {"i": i64(3, -1, 0).reshape(1, 3)}, {"table": normal(9, 5)}, reads="table i"),
    Case("Gather", {"x": normal(2, 5), "i": i64(-1, 1)}, attributes={"axis": 1}, free={1: "W"}, int8=False),
    Case("GatherND", {"x": normal(4, 5, 6), "i": np.array([[0, -1], [3, 2]], np.int64)}, int8=False),
    Case("TopK", x(2, 6, 6), {"k": i64(3)}, {"axis": 1}, outputs=2, int8=False),
    Case("TopK", x(2, 9), {"k": i64(4)}, {"axis": -1, "largest": 0}, outputs=2, int8=False),
    Case("OneHot", {"i": i64(0, 3, -1, 7)}, {"d": i64(5), "v": f32([-1, 2])}, {"axis": 0}, int8=False),
    *(
        Case("Cast", {"x": a}, attributes={"to": to}, int8=False, note=str(a.dtype))
        for a, to in (
            (normal(6) * 10, onnx.TensorProto.INT64),
            (i64(0, 3, -1), onnx.TensorProto.FLOAT),
            (normal(6) * 4, onnx.TensorProto.BOOL),
            (normal(6) > 0, onnx.TensorProto.FLOAT),
            (i64(5, 6), onnx.TensorProto.INT32),
            (normal(6), onnx.TensorProto.FLOAT16),
            (normal(6).astype(np.float16), onnx.TensorProto.FLOAT),
            (ids(200, 6, dtype=np.uint8), onnx.TensorProto.FLOAT),
        )
    ),
]

PRODUCTS = [
    Case("Gemm", x(3, 6), {"w": normal(5, 6), "b": normal(5)}, {"transB": 1}, free={0: "N"}),
    Case("Gemm", x(6, 6), {"w": normal(6, 6)}, {"transB": 1}),
    Case("MatMul", x(6, 6), {"w": normal(6, 6)}),
    Case("MatMul", x(2, 6, 6), {"w": normal(6, 5)}, free={0: "N", 1: "T"}),
    Case("MatMul", x(2, 6, 6, 6), {"w": normal(6, 6)}),
    Case("MatMul", {"a": normal(6, 6), "b": normal(6, 6)}),
    Case("MatMul", {"a": normal(2, 3, 6, 6), "b": normal(2, 3, 6, 6)}),
    Case("MatMul", {"a": normal(2, 3, 4, 6), "b": normal(3, 6, 5)}),
    Case("MatMul", {"a": normal(2, 4, 6)}, {"b": normal(2, 6, 5)}, int8=False),
    Case("MatMul", {"a": normal(2, 6, 4)}, {"c": normal(5, 6)}, reads="c a", int8=False),
    Case("LayerNormalization", x(2, 6, 6), {"g": normal(6), "b": normal(6)}, {"axis": -1}),
    Case("LayerNormalization", x(2, 6, 6), {"g": normal(6, 6)}, {"axis": 1}),
    Case("InstanceNormalization", x(2, 6, 6, 6), {"g": normal(6), "b": normal(6)}),
]

CASES = [*CONVOLUTIONS, *POOLS, *RESIZES, *ACTIVATIONS, *ELEMENTWISE, *REDUCTIONS, *MOVES, *PRODUCTS]


def build(writer: "Writer", case: Case) -> onnx.ModelProto:
    names = case.reads.split() if case.reads else [*case.inputs, *case.constants]
    outputs = [f"y{i}" for i in range(case.outputs)]
    node = onnx.helper.make_node(case.op, ["" if n == "-" else n for n in names], outputs, **case.attributes)
    inputs: dict[str, Array | tuple[str | int, ...]] = dict(case.inputs)
    if case.free:
        first = next(iter(inputs))
        inputs[first] = tuple(case.free.get(i, d) for i, d in enumerate(case.inputs[first].shape))
    return writer.graph([node], inputs, outputs, case.constants)


def inferred(model: onnx.ModelProto, name: str) -> tuple[object, ...]:
    value = next(o for o in model.graph.output if o.name == name)
    return tuple(d.dim_value if d.HasField("dim_value") else d.dim_param for d in value.type.tensor_type.shape.dim)


@pytest.mark.parametrize("case", CASES, ids=[f"{i}-{c.label}" for i, c in enumerate(CASES)])
def test_float_is_as_onnx_runtime_computes_it(writer: "Writer", case: Case) -> None:
    model = build(writer, case)
    want = writer.reference(model, case.inputs)
    emitted = writer.float32(model)
    for engine in ("xnnpack", "builtin"):
        ran = writer.litert(emitted, case.inputs, engine)
        for name, y in want.items():
            got = ran.outputs[name]
            assert got.dtype == y.dtype
            assert got.shape == y.shape
            axes = next(p.axes for p in emitted.outputs if p.name == name)
            assert ran.file_shapes[name] == tuple(y.shape[a] for a in axes or range(y.ndim))
            if y.dtype.kind == "f":
                scale = max(1.0, float(np.abs(y).max()))
                np.testing.assert_allclose(got, y, rtol=0, atol=case.atol * scale if y.dtype == np.float32 else 0)
            else:
                np.testing.assert_array_equal(got, y)


def simulated(
    writer: "Writer", model: onnx.ModelProto, q: QuantizedModel, feeds: Mapping[str, Array]
) -> dict[str, Array]:
    """One node between exact roundings: inputs and constants at their 8-bit values, the result not yet rounded."""
    twin = onnx.ModelProto()
    twin.CopyFrom(model)
    node = next(iter(q.model.graph))
    name, (source, *others) = str(node.name), [str(v.name) if v is not None else "" for v in node.inputs]
    fed = {
        n: np.asarray(q.activations[n].dequantize(q.activations[n].quantize(a))) if n in q.activations else a
        for n, a in feeds.items()
    }
    for tensor in twin.graph.initializer:
        array = onnx.numpy_helper.to_array(tensor)
        if name in q.weights and tensor.name == others[0]:
            array = real_weight(node, q.weights[name]).astype(np.float32)
        elif name in q.biases and others[1:] == [tensor.name]:
            step = np.float64(q.activations[source].scale) * q.weights[name].scales
            array = (q.biases[name] * step).astype(np.float32)
        elif tensor.name in q.activations:
            array = q.activations[tensor.name].dequantize(q.activations[tensor.name].quantize(array))
        tensor.CopyFrom(onnx.numpy_helper.from_array(np.asarray(array), tensor.name))
    return writer.reference(twin, fed)


INT8 = [c for c in CASES if c.int8 and all(a.dtype == np.float32 for a in c.inputs.values())]


@pytest.mark.parametrize("case", INT8, ids=[f"{i}-{c.label}" for i, c in enumerate(INT8)])
def test_int8_is_within_one_level_of_exact_rounding(writer: "Writer", case: Case) -> None:
    model = build(writer, case)
    quantized = writer.quantize(model, [case.inputs])
    emitted = TARGET.emit_integer(quantized)
    want = simulated(writer, model, quantized, case.inputs)
    for engine in ("xnnpack", "builtin"):
        ran = writer.litert(emitted, case.inputs, engine)
        for name, y in want.items():
            got = ran.outputs[name]
            assert got.shape == y.shape
            if y.dtype != np.float32:
                assert (got == y).mean() > 0.95  # a comparison may fall on either side of a rounding
                continue
            q = quantized.activations.get(name) or quantized.output_hint[name]
            levels = np.abs(got.astype(np.float64) - q.dequantize(q.quantize(y))) / q.scale
            assert levels.max() <= 1.01, f"{levels.max():.2f} levels"
