"""The promises of `edgekit.quantize.canonical`, checked on every network at hand and on PyTorch's form of one."""

import hashlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from numpy.typing import NDArray
from onnx import helper, numpy_helper

from edgekit.build.importing import ImportedModel, import_model
from edgekit.quantize.canonical import CANONICAL_OPSET, constant, ints

ROOT = Path(__file__).resolve().parents[2]
SHARED = Path(os.environ.get("EDGEKIT_SHARED", ROOT / "../shared")).resolve()
LITE0 = SHARED / "data/models/efficientnet_lite0.onnx"


@dataclass(frozen=True, slots=True)
class Network:
    """A model file, what it is bound to, and how many nodes of some operators its canonical form has."""

    path: Path
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    fixed: Mapping[str, int] = field(default_factory=dict)
    counts: Mapping[str, int] = field(default_factory=dict)

    def imported(self) -> ImportedModel:
        if not self.path.is_file():
            pytest.skip(f"needs {self.path.name}")
        return import_model(self.path, input_shapes=self.shapes, fixed=self.fixed)


KEPT, LOCAL = SHARED / "data/models", ROOT / ".data/models"
NETWORKS = {
    "efficientnet": Network(LITE0, counts={"Conv": 49, "Clip": 33, "Add": 9, "Gemm": 1, "Flatten": 1}),
    "squeezenet": Network(KEPT / "squeezenet1_1.onnx", counts={"Conv": 26, "Relu": 26}),
    "mobilenet": Network(KEPT / "mobilenet_v1_0.25_128.onnx", counts={"Conv": 28, "Clip": 27}),
    "yolox": Network(KEPT / "yolox_nano.onnx", counts={"Conv": 113, "Sigmoid": 110}),
    "text detector": Network(LOCAL / "ch_PP-OCRv4_det_infer.onnx", counts={"HardSwish": 24, "BatchNormalization": 0}),
    "text detector of one size": Network(LOCAL / "ch_PP-OCRv4_det_infer.onnx", {"x": (1, 3, 320, 320)}),
    "text recogniser": Network(LOCAL / "ch_PP-OCRv4_rec_infer.onnx", counts={"LayerNormalization": 5}),
    "text recogniser of one size": Network(
        LOCAL / "ch_PP-OCRv4_rec_infer.onnx", {"x": (1, 3, 48, 320)}, {}, {"Shape": 0}
    ),
    "text turner": Network(LOCAL / "ch_ppocr_mobile_v2.0_cls_infer.onnx", counts={"HardSwish": 18, "HardSigmoid": 9}),
    "voice detector": Network(
        LOCAL / "silero_vad.onnx", {"input": (1, 512), "state": (2, 1, 128)}, {"sr": 16000}, {"If": 0, "LSTM": 1}
    ),
    "voice detector of free size": Network(LOCAL / "silero_vad.onnx", {}, {"sr": 16000}),
    "voice detector of one rate": Network(LOCAL / "silero_vad_16k_op15.onnx"),
    "file type": Network(LOCAL / "magika_v3_3.onnx", counts={"Gelu": 2}),
    "sentences": Network(LOCAL / "minilm_l6.onnx", counts={"Gelu": 6, "LayerNormalization": 13}),
}


@pytest.fixture(scope="module", params=NETWORKS)
def network(request: pytest.FixtureRequest) -> Network:
    return NETWORKS[request.param]


@pytest.fixture(scope="module")
def imported(network: Network) -> ImportedModel:
    return network.imported()


def test_every_rewrite_held(imported: ImportedModel) -> None:
    assert not [note for note in imported.notes if "left out" in note or "not proved" in note]


def test_known_operators_are_there(network: Network, imported: ImportedModel) -> None:
    ops = [node.op_type for node in imported.model.graph]
    assert {op: ops.count(op) for op in network.counts} == dict(network.counts)


def test_the_graph_is_of_one_opset_and_valid(imported: ImportedModel) -> None:
    model = imported.model
    assert model.graph.opset_imports == {"": CANONICAL_OPSET}
    assert not model.functions
    assert all(node.domain == "" for node in ir.traversal.RecursiveGraphIterator(model.graph))
    onnx.checker.check_model(ir.to_proto(model))


def test_names_are_unique_and_ports_keep_theirs(network: Network, imported: ImportedModel) -> None:
    model = imported.model
    names = [node.name for node in ir.traversal.RecursiveGraphIterator(model.graph)]
    assert all(names)
    assert len(set(names)) == len(names)
    values = [v.name for v in (*model.graph.inputs, *model.graph.initializers.values())]
    values += [v.name for node in model.graph for v in node.outputs if v.name]
    assert len(set(values)) == len(values)
    source = onnx.load(network.path).graph
    assert [v.name for v in model.graph.outputs] == [v.name for v in source.output]
    weights = {tensor.name for tensor in source.initializer}
    kept = [v.name for v in source.input if v.name not in weights and v.name not in network.fixed]
    assert [v.name for v in model.graph.inputs] == kept == [port.name for port in imported.inputs]


def test_no_node_does_nothing(imported: ImportedModel) -> None:
    graph = imported.model.graph
    assert not [node.name for node in graph if node.op_type in ("Constant", "Dropout")]
    for node in graph:
        if node.op_type == "Identity":
            source = node.inputs[0]
            assert source is not None
            assert node.outputs[0].is_graph_output()
            assert source.producer() is None or source.is_graph_output()
    for output in graph.outputs:
        assert output.producer() is not None


def test_constants_are_folded_and_in_memory(imported: ImportedModel) -> None:
    for node in imported.model.graph:
        assert any(constant(v) is None for v in node.inputs if v is not None) or not node.inputs, node.name
    for value in imported.model.graph.initializers.values():
        assert value.const_value is not None
        assert not isinstance(value.const_value, ir.ExternalTensor)
        assert value.uses()


def test_floats_are_float32(imported: ImportedModel) -> None:
    for value in _values(imported.model):
        assert value.dtype is not None, value.name
        assert not value.dtype.is_floating_point() or value.dtype is ir.DataType.FLOAT, value.name


def test_shapes_are_known_where_all_inputs_are(network: Network, imported: ImportedModel) -> None:
    if any(not isinstance(dim, int) for port in imported.inputs for dim in port.shape):
        pytest.skip("has free axes")
    for value in _values(imported.model):
        assert value.shape is not None, value.name
        assert all(isinstance(dim, int) for dim in value.shape), value.name


def test_windows_are_spelt_in_full(imported: ImportedModel) -> None:
    for node in imported.model.graph:
        if node.op_type not in ("Conv", "ConvTranspose", "MaxPool", "AveragePool"):
            continue
        assert "auto_pad" not in node.attributes
        for name in ("pads", "strides", "kernel_shape", "dilations"):
            assert ints(node, name), (node.name, name)
        assert node.op_type not in ("Conv", "ConvTranspose") or "group" in node.attributes


def test_gemms_have_one_form(imported: ImportedModel) -> None:
    for node in imported.model.graph:
        if node.op_type == "Gemm":
            assert {name: a.value for name, a in node.attributes.items()} == {"transB": 1}
            weight, bias = constant(node.inputs[1]), constant(node.inputs[2]) if len(node.inputs) > 2 else None
            assert weight is not None
            assert bias is None or bias.shape == weight.shape[:1]


def test_clips_have_constant_scalar_bounds(imported: ImportedModel) -> None:
    for node in imported.model.graph:
        if node.op_type == "Clip":
            for bound in node.inputs[1:]:
                array = constant(bound)
                assert bound is None or (array is not None and array.shape == ())


def test_nothing_is_left_to_fold_into_linear_nodes(imported: ImportedModel) -> None:
    for node in imported.model.graph:
        if node.op_type == "BatchNormalization":
            raise AssertionError(node.name)
        if node.op_type not in ("Mul", "Add") or all(constant(v) is None for v in node.inputs):
            continue
        for value in node.inputs:
            maker = None if value is None else value.producer()
            if maker is not None and maker.op_type in ("Conv", "ConvTranspose", "Gemm"):
                assert len(tuple(value.uses())) > 1 or value.is_graph_output(), node.name  # type: ignore[union-attr]


def test_transposes_do_not_follow_each_other(imported: ImportedModel) -> None:
    for node in imported.model.graph:
        if node.op_type == "Transpose":
            maker = node.inputs[0].producer() if node.inputs[0] is not None else None
            assert maker is None or maker.op_type != "Transpose"
            perm = ints(node, "perm")
            assert perm != tuple(range(len(perm)))


def _values(model: ir.Model) -> Iterator[ir.Value]:
    yield from model.graph.inputs
    yield from model.graph.initializers.values()
    for node in model.graph:
        yield from (value for value in node.outputs if value.name)


# --- one network, as PyTorch's exporter writes it ---


def as_pytorch_writes_it(model: onnx.ModelProto) -> onnx.ModelProto:
    """Explicit pads become Pad nodes whose amounts are computed; Flatten becomes a Reshape to computed sizes.

    torch.nn.ZeroPad2d in front of a convolution is exported as ConstantOfShape, Concat, Reshape, Slice with a negative
    step, Transpose, Reshape and Cast of constants; x.view(x.size(0), -1) as Shape, Gather, Unsqueeze, Concat, Reshape.
    """
    raw = onnx.ModelProto()
    raw.CopyFrom(model)
    nodes = list(raw.graph.node)
    del raw.graph.node[:]
    for node in nodes:
        if node.op_type == "Conv":
            raw.graph.node.extend(_padded(node))
        elif node.op_type == "Flatten":
            raw.graph.node.extend(_viewed(node))
        else:
            raw.graph.node.append(node)
    return raw


def _constant(name: str, array: NDArray[np.generic]) -> onnx.NodeProto:
    return helper.make_node("Constant", [], [name], name=f"{name}/Constant", value=numpy_helper.from_array(array))


def _padded(conv: onnx.NodeProto) -> list[onnx.NodeProto]:
    pads = next(a for a in conv.attribute if a.name == "pads")
    top, left, bottom, right = pads.ints
    if not any(pads.ints):
        return [conv]
    p = f"{conv.name}/pad"
    pads.ints[:] = [0, 0, 0, 0]
    data, conv.input[0] = conv.input[0], f"{p}/padded"
    ints64 = np.int64
    return [
        _constant(f"{p}/own", np.array([left, right, top, bottom], ints64)),  # last axis first, as torch has it
        _constant(f"{p}/more", np.array([4], ints64)),
        helper.make_node("ConstantOfShape", [f"{p}/more"], [f"{p}/zeros"], value=helper.make_tensor("v", 7, [1], [0])),
        helper.make_node("Concat", [f"{p}/own", f"{p}/zeros"], [f"{p}/all"], axis=0),
        _constant(f"{p}/pairs", np.array([-1, 2], ints64)),
        helper.make_node("Reshape", [f"{p}/all", f"{p}/pairs"], [f"{p}/by_axis"]),
        _constant(f"{p}/start", np.array([-1], ints64)),
        _constant(f"{p}/end", np.array([-(2**63) + 1], ints64)),
        _constant(f"{p}/axis", np.array([0], ints64)),
        _constant(f"{p}/step", np.array([-1], ints64)),
        helper.make_node(
            "Slice", [f"{p}/by_axis", f"{p}/start", f"{p}/end", f"{p}/axis", f"{p}/step"], [f"{p}/turned"]
        ),
        helper.make_node("Transpose", [f"{p}/turned"], [f"{p}/begins_ends"], perm=[1, 0]),
        _constant(f"{p}/flat", np.array([-1], ints64)),
        helper.make_node("Reshape", [f"{p}/begins_ends", f"{p}/flat"], [f"{p}/amounts"]),
        helper.make_node("Cast", [f"{p}/amounts"], [f"{p}/cast"], to=onnx.TensorProto.INT64),
        _constant(f"{p}/value", np.array(0, np.float32)),
        helper.make_node("Pad", [data, f"{p}/cast", f"{p}/value"], [f"{p}/padded"], name=p, mode="constant"),
        conv,
    ]


def _viewed(flatten: onnx.NodeProto) -> list[onnx.NodeProto]:
    p, (data,), (result,) = flatten.name, flatten.input, flatten.output
    return [
        helper.make_node("Shape", [data], [f"{p}/shape"]),
        _constant(f"{p}/zero", np.array(0, np.int64)),
        helper.make_node("Gather", [f"{p}/shape", f"{p}/zero"], [f"{p}/batch"]),
        _constant(f"{p}/axis", np.array([0], np.int64)),
        helper.make_node("Unsqueeze", [f"{p}/batch", f"{p}/axis"], [f"{p}/batches"]),
        _constant(f"{p}/rest", np.array([-1], np.int64)),
        helper.make_node("Concat", [f"{p}/batches", f"{p}/rest"], [f"{p}/sizes"], axis=0),
        helper.make_node("Reshape", [data, f"{p}/sizes"], [result], name=p),
    ]


def structure(model: ir.Model) -> list[tuple[object, ...]]:
    """Everything of a graph but its names."""
    numbers: dict[str | None, str] = {value.name: f"input {i}" for i, value in enumerate(model.graph.inputs)}
    rows: list[tuple[object, ...]] = []
    for node in model.graph:
        operands = []
        for value in node.inputs:
            array = constant(value)
            if array is not None:
                operands.append(f"{array.dtype}{array.shape} {hashlib.sha256(array.tobytes()).hexdigest()}")
            else:
                operands.append("-" if value is None else numbers[value.name])
        for output in node.outputs:
            numbers[output.name] = f"tensor {len(numbers)}"
        attributes = tuple(sorted((name, str(a.value)) for name, a in node.attributes.items()))
        rows.append((node.op_type, tuple(operands), attributes))
    return rows


def test_pytorch_s_pads_and_views_come_to_the_graph_of_the_tidied_file(tmp_path: Path) -> None:
    if not LITE0.is_file():
        pytest.skip("needs efficientnet_lite0.onnx")
    raw = as_pytorch_writes_it(onnx.load(LITE0))
    path = tmp_path / "raw.onnx"
    path.write_bytes(raw.SerializeToString())
    assert len(raw.graph.node) > 400
    assert structure(import_model(path).model) == structure(import_model(LITE0).model)


@pytest.mark.skipif("EDGEKIT_RAW_LITE0" not in os.environ, reason="EDGEKIT_RAW_LITE0 names no export of PyTorch's own")
def test_an_export_of_pytorch_s_own_comes_to_the_graph_of_the_tidied_file() -> None:
    def shape_of(model: ir.Model) -> list[tuple[object, ...]]:
        return [(op, tuple(str(o).split(" ")[0] for o in operands), a) for op, operands, a in structure(model)]  # type: ignore[attr-defined]

    for name in os.environ["EDGEKIT_RAW_LITE0"].split(os.pathsep):
        assert shape_of(import_model(Path(name)).model) == shape_of(import_model(LITE0).model), name


def test_a_crash_of_the_engine_s_own_inlining_does_no_harm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edgekit.build.importing.onnx_model.settle_branches", lambda model: None)
    imported = NETWORKS["voice detector"].imported()
    assert "If" in [node.op_type for node in imported.model.graph]
    assert not [note for note in imported.notes if "left out" in note or "not proved" in note]


def test_bytes_do_not_depend_on_the_process() -> None:
    if not LITE0.is_file():
        pytest.skip("needs efficientnet_lite0.onnx")
    script = (
        "import hashlib, sys; from pathlib import Path; import onnx_ir as ir\n"
        "from edgekit.build.importing import import_model\n"
        "model = import_model(Path(sys.argv[1])).model\n"
        "print(hashlib.sha256(ir.to_proto(model).SerializeToString()).hexdigest())"
    )
    seen = {
        subprocess.run(
            [sys.executable, "-c", script, str(LITE0)],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("1", "2")
    }
    assert len(seen) == 1


def test_importing_takes_a_moment() -> None:
    if not LITE0.is_file():
        pytest.skip("needs efficientnet_lite0.onnx")
    begun = time.process_time()
    import_model(LITE0)
    assert time.process_time() - begun < 3.0
