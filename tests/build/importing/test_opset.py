"""Each change between opsets: the table is whole, and a small model of the old form keeps its result."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper

from edgekit.build.importing import import_model
from edgekit.build.importing.admission import NEWEST_OPSET, OLDEST_OPSET
from edgekit.build.importing.opset_changes import ADAPTERS, EXPANSIONS, SAME
from edgekit.core.errors import Unsupported
from edgekit.quantize.canonical import CANONICAL_OPSET

Array = NDArray[np.generic]
I64 = TensorProto.INT64


def i64(*values: int) -> Array:
    return np.asarray(values, np.int64)


def f32(*values: float) -> Array:
    return np.asarray(values, np.float32)


@dataclass(frozen=True)
class Row:
    """One operator in one old form. Inputs: "x" of `shape`, then the weights in order."""

    op: str
    opset: int
    shape: tuple[int, ...]
    attributes: dict[str, Any] = field(default_factory=dict)
    weights: tuple[Array | np.generic | None, ...] = ()
    outputs: int = 1
    kinds: tuple[int, ...] = ()

    def __str__(self) -> str:
        return (
            f"{self.op}-{self.opset}-{'x'.join(map(str, self.shape))}-{len(str(self.attributes))}-{len(self.weights)}"
        )


IMAGE = (1, 4, 6, 6)
ROWS = (
    Row("Upsample", 9, IMAGE, {"mode": "nearest"}, (f32(1, 1, 2, 2),)),
    Row("Upsample", 9, IMAGE, {"mode": "nearest"}, (f32(1, 1, 2.6, 1.7),)),
    Row("Upsample", 9, IMAGE, {"mode": "linear"}, (f32(1, 1, 2, 3),)),
    Row("Resize", 10, IMAGE, {"mode": "nearest"}, (f32(1, 1, 2.5, 2),)),
    Row("Resize", 10, IMAGE, {"mode": "nearest"}, (f32(1, 1, 0.5, 0.5),)),
    Row("Resize", 10, IMAGE, {"mode": "nearest"}, (f32(1, 1, 0.35, 2.3),)),
    Row("Resize", 10, IMAGE, {"mode": "linear"}, (f32(1, 1, 0.5, 1.5),)),
    *(
        Row("Resize", 11, IMAGE, {"mode": m, "coordinate_transformation_mode": c, **n}, w)
        for m, n in (
            ("nearest", {"nearest_mode": "floor"}),
            ("nearest", {"nearest_mode": "round_prefer_ceil"}),
            ("linear", {}),
            ("cubic", {"cubic_coeff_a": -0.5}),
        )
        for c in ("half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric")
        for w in ((f32(), f32(1, 1, 2, 1.5)), (f32(), f32(), i64(1, 4, 9, 11)))
    ),
    Row(
        "Resize",
        11,
        IMAGE,
        {"mode": "nearest", "coordinate_transformation_mode": "tf_half_pixel_for_nn", "nearest_mode": "floor"},
        (f32(), f32(1, 1, 1.7, 2.3)),
    ),
    Row(
        "Resize",
        11,
        IMAGE,
        {"mode": "linear", "coordinate_transformation_mode": "tf_crop_and_resize", "extrapolation_value": 3.0},
        (f32(0, 0, 0.2, 0.1, 1, 1, 0.9, 1.2), f32(), i64(1, 4, 5, 5)),
    ),
    Row("Slice", 9, IMAGE, {"starts": [1, -4], "ends": [3, 99], "axes": [1, 3]}),
    Row("Slice", 9, IMAGE, {"starts": [0, 1], "ends": [1, 3]}),
    Row("Slice", 10, IMAGE, {}, (i64(0, 5), i64(4, -7), i64(1, 2), i64(2, 3))),
    Row("TopK", 9, (3, 9), {"k": 4}, (), 2, (TensorProto.FLOAT, I64)),
    Row("TopK", 10, (3, 9), {"axis": 0}, (i64(2),), 2, (TensorProto.FLOAT, I64)),
    Row("Clip", 9, IMAGE, {"min": -0.5, "max": 0.75}),
    Row("Clip", 10, IMAGE, {"min": 0.0}),
    Row("Clip", 9, IMAGE, {"max": 0.25}),
    Row("Clip", 9, IMAGE),
    Row("Pad", 9, IMAGE, {"pads": [0, 0, 1, 2, 0, 0, 3, 0], "value": 1.5}),
    Row("Pad", 10, IMAGE, {"pads": [0, 0, 1, 2, 0, 0, 3, 0], "mode": "reflect"}),
    Row("Pad", 10, IMAGE, {"pads": [0, 0, 1, 2, 0, 0, 3, 0], "mode": "edge"}),
    Row("Pad", 10, IMAGE, {"pads": [0, 0, -1, 0, 0, 0, 0, -2]}),
    *(
        Row(op, opset, shape, {} if axis is None else {"axis": axis})
        for op in ("Softmax", "LogSoftmax", "Hardmax")
        for opset in (9, 11, 12)
        for shape in ((2, 3, 4, 5), (2, 7), (2, 5, 1, 1))
        for axis in (None, 0, 1, -1, 2)
        if (opset > 10 or axis != -1) and (axis or 0) < len(shape)
    ),
    *(
        Row(op, opset, IMAGE, {"axes": axes, "keepdims": keep})
        for op in (
            *("ReduceL1", "ReduceL2", "ReduceLogSumExp", "ReduceMax", "ReduceMean"),
            *("ReduceMin", "ReduceProd", "ReduceSum", "ReduceSumSquare"),
        )
        for opset, axes in ((9, [1, 3]), (11, [-1]), (13, [2, 3]), (17, [-3]))
        for keep in (0, 1)
        if (op, opset > 12) != ("ReduceSum", True)
    ),
    Row("ReduceMean", 9, IMAGE),
    Row("ReduceSum", 11, IMAGE, {"keepdims": 0}),
    Row("Split", 9, IMAGE, {"axis": 1, "split": [1, 3]}, (), 2),
    Row("Split", 11, IMAGE, {"axis": -1}, (), 3),
    Row("Split", 13, IMAGE, {"axis": 1}, (i64(3, 1),), 2),
    Row("Split", 13, IMAGE, {"axis": 2}, (), 2),
    Row("Squeeze", 9, (1, 3, 1, 4), {"axes": [0, 2]}),
    Row("Squeeze", 11, (1, 3, 1, 4), {"axes": [-2]}),
    Row("Squeeze", 11, (1, 3, 1, 4)),
    Row("Unsqueeze", 9, (3, 4), {"axes": [0, 3]}),
    Row("Unsqueeze", 12, (3, 4), {"axes": [-1]}),
    Row("Dropout", 9, IMAGE, {"ratio": 0.3}),
    Row("Dropout", 11, IMAGE),
    Row("Dropout", 13, IMAGE, {}, (np.float32(0.4),)),
    Row("Dropout", 13, IMAGE, {}, (np.float32(0.4), np.bool_(False))),
    *(
        Row("BatchNormalization", opset, IMAGE, {"epsilon": 1e-3}, (f32(1, 2, 3, 4),) * 4)
        for opset in (9, 13, 14, 15, 17)
    ),
    Row("Flatten", 9, IMAGE, {"axis": 2}),
    Row("AveragePool", 9, IMAGE, {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "strides": [2, 2]}),
    Row("AveragePool", 10, IMAGE, {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1}),
    Row("AveragePool", 11, IMAGE, {"kernel_shape": [2, 2], "pads": [1, 1, 1, 1], "count_include_pad": 1}),
    Row("AveragePool", 22, IMAGE, {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1}),
    Row("MaxPool", 9, IMAGE, {"kernel_shape": [3, 3], "strides": [2, 2], "auto_pad": "SAME_UPPER"}),
    Row("MaxPool", 10, IMAGE, {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1}),
    Row("MaxPool", 22, IMAGE, {"kernel_shape": [2, 2], "dilations": [2, 2]}),
    Row("Gemm", 9, (3, 5), {"alpha": 0.5}, (np.ones((5, 2), np.float32), f32(1, 2))),
    Row("Gemm", 11, (3, 5), {}, (np.ones((5, 2), np.float32),)),
    Row("ArgMax", 9, IMAGE, {"axis": 1}, (), 1, (I64,)),
    Row("ArgMin", 12, IMAGE, {"axis": -1, "keepdims": 0}, (), 1, (I64,)),
    Row("DepthToSpace", 9, IMAGE, {"blocksize": 2}),
    Row("DepthToSpace", 11, IMAGE, {"blocksize": 2, "mode": "CRD"}),
    Row("PRelu", 9, IMAGE, {}, (np.full((4, 1, 1), 0.2, np.float32),)),
    Row("LeakyRelu", 9, IMAGE, {"alpha": 0.3}),
    Row("Concat", 9, IMAGE, {"axis": 1}, (np.ones(IMAGE, np.float32),)),
    Row("Gather", 9, IMAGE, {"axis": 1}, (i64(2, 0),)),
    Row("Scatter", 9, (3, 4), {"axis": 1}, (np.asarray([[1, 2]], np.int64), f32(7, 8).reshape(1, 2))),
    Row("Reshape", 9, IMAGE, {}, (i64(0, -1, 3),)),
    Row("Expand", 9, (3, 1), {}, (i64(2, 3, 4),)),
    Row("Tile", 9, (3, 1), {}, (i64(2, 3),)),
    Row("Transpose", 9, IMAGE, {"perm": [0, 2, 3, 1]}),
    Row("HardSigmoid", 9, IMAGE, {"alpha": 0.3}),
    Row("Elu", 9, IMAGE),
    Row("Selu", 10, IMAGE),
    Row("Sum", 9, IMAGE, {}, (np.ones(IMAGE, np.float32),)),
    Row("Max", 9, IMAGE, {}, (np.zeros(IMAGE, np.float32),)),
    Row("LRN", 9, IMAGE, {"size": 3}),
    Row("InstanceNormalization", 9, IMAGE, {}, (f32(1, 2, 3, 4), f32(0, 1, 0, 1))),
    Row("LpNormalization", 9, (3, 4)),
    Row("GlobalAveragePool", 9, IMAGE),
    Row("CumSum", 11, (3, 4), {}, (np.int64(1),)),
    Row("RoiAlign", 10, IMAGE, {"output_height": 2, "output_width": 2}, (f32(0, 0, 4, 3).reshape(1, 4), i64(0))),
    Row("RoiAlign", 16, IMAGE, {"output_height": 2, "output_width": 2}, (f32(0, 0, 4, 3).reshape(1, 4), i64(0))),
    *(
        Row("GridSample", 16, IMAGE, {"mode": mode}, (np.linspace(-1, 1, 18, dtype=np.float32).reshape(1, 3, 3, 2),))
        for mode in ("bilinear", "nearest", "bicubic")
    ),
    Row("DFT", 17, (1, 8, 1), {"axis": 1}),
    Row("DFT", 17, (1, 8, 4, 1), {}),
    Row("GroupNormalization", 18, IMAGE, {"num_groups": 2}, (f32(1, 2), f32(0, 1))),
    Row("MeanVarianceNormalization", 9, IMAGE, {"axes": [0, 2, 3]}),
    Row("LayerNormalization", 17, IMAGE, {"axis": -1}, (f32(1, 2, 3, 4, 5, 6),)),
    Row("Resize", 18, IMAGE, {"mode": "linear", "axes": [2, 3]}, (None, f32(2, 0.5))),
    Row("Relu", 28, IMAGE),
    Row("Swish", 24, IMAGE),
    Row("Swish", 24, IMAGE, {"alpha": 1.7}),
    Row("RMSNormalization", 23, (2, 3, 4), {"axis": -2}, (np.arange(12, dtype=np.float32).reshape(3, 4),)),
    Row("Gelu", 20, IMAGE, {"approximate": "tanh"}),
    Row("Cast", 9, IMAGE, {"to": int(TensorProto.INT32)}, (), 1, (int(TensorProto.INT32),)),
    Row("Cast", 25, IMAGE, {"to": I64}, (), 1, (I64,)),
)


def write(small: Callable[..., Path], row: Row) -> Path:
    names = [f"w{i}" for i in range(len(row.weights))]
    inputs = ["x", *(n if w is not None else "" for n, w in zip(names, row.weights, strict=True))]
    outputs = [f"y{i}" for i in range(row.outputs)]
    kinds = row.kinds or (TensorProto.FLOAT,) * row.outputs
    return small(
        [helper.make_node(row.op, inputs, outputs, "node", **row.attributes)],
        inputs={"x": row.shape},
        outputs=list(zip(outputs, kinds, strict=True)),
        weights={n: np.asarray(w) for n, w in zip(names, row.weights, strict=True) if w is not None},
        opset=row.opset,
    )


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_old_form_keeps_its_result(
    row: Row, small: Callable[..., Path], equals_original: Callable[..., object]
) -> None:
    x = np.random.default_rng(7).standard_normal(row.shape).astype(np.float32)
    equals_original(write(small, row), {"x": x})


def test_each_change_of_an_operator_has_a_row() -> None:
    first: dict[str, int] = {}
    changed: set[tuple[str, int]] = set()
    for schema in onnx.defs.get_all_schemas_with_history():
        if schema.domain == "":
            first[schema.name] = min(first.get(schema.name, 99), schema.since_version)
            changed.add((schema.name, schema.since_version))
    wanted = {(n, v) for n, v in changed if OLDEST_OPSET < v <= CANONICAL_OPSET and v != first[n]}
    same = {(name, opset) for opset, names in SAME.items() for name in names.split()}
    removed = {("Resize", 10)}
    assert wanted - same - set(ADAPTERS) == set()
    assert same & set(ADAPTERS) == set()
    assert (same | set(ADAPTERS)) - wanted - removed == set()


def test_each_newer_operator_is_expanded_or_refused(small: Callable[..., Path]) -> None:
    newer = {
        s.name
        for s in onnx.defs.get_all_schemas()
        if s.domain == "" and s.since_version > CANONICAL_OPSET and not _existed(s.name)
    }
    assert set(EXPANSIONS) <= newer
    path = small(
        [helper.make_node("BitCast", ["x"], ["y"], "cast", to=I64)], inputs={"x": (2,)}, outputs=["y"], opset=26
    )
    with pytest.raises(Unsupported, match=r"'cast' \(BitCast\).*opset 26.*opset 21"):
        import_model(path)


def _existed(name: str) -> bool:
    try:
        onnx.defs.get_schema(name, CANONICAL_OPSET, "")
    except onnx.defs.SchemaError:
        return False
    return True


def test_newest_opset_is_that_of_the_library_tested_with() -> None:
    assert onnx.defs.onnx_opset_version() >= NEWEST_OPSET


@pytest.mark.parametrize("opset", [8, 1])
def test_too_old_opset_is_refused_by_number(small: Callable[..., Path], opset: int) -> None:
    path = small([helper.make_node("Relu", ["x"], ["y"])], inputs={"x": (2,)}, outputs=["y"], opset=opset)
    with pytest.raises(Unsupported, match=rf"opset {opset} is older than 9"):
        import_model(path)


def test_newer_attribute_with_its_default_is_taken_and_another_refused(small: Callable[..., Path]) -> None:
    def model(mode: str) -> Path:
        node = helper.make_node("SpaceToDepth", ["x"], ["y"], "s2d", blocksize=2, mode=mode)
        return small([node], inputs={"x": (1, 1, 4, 4)}, outputs=["y"], opset=28)

    assert import_model(model(mode="DCR")).model.graph.node(0).attributes.keys() == {"blocksize"}
    with pytest.raises(Unsupported, match=r"'s2d'.*'mode'"):
        import_model(model(mode="CRD"))


def test_branches_are_brought_along(small: Callable[..., Path], equals_original: Callable[..., object]) -> None:
    def branch(name: str, low: float) -> onnx.GraphProto:
        node = helper.make_node("Clip", ["x"], [f"{name}_y"], min=low, max=1.0)
        output = helper.make_tensor_value_info(f"{name}_y", TensorProto.FLOAT, None)
        return helper.make_graph([node], name, [], [output])

    nodes = [
        helper.make_node("ReduceSum", ["x"], ["s"], axes=[0], keepdims=0),
        helper.make_node("Greater", ["s", "zero"], ["c"]),
        helper.make_node("If", ["c"], ["y"], then_branch=branch("a", 0.0), else_branch=branch("b", -0.5)),
    ]
    path = small(nodes, inputs={"x": (4,)}, outputs=["y"], weights={"zero": np.float32(0)}, opset=9)
    for sign in (1, -1):
        equals_original(path, {"x": sign * f32(0.3, 2, -0.1, 0.2)})
