"""ONNX Runtime keeps the runtime contract."""

from collections.abc import Sequence

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.helper import make_node

from edgekit.runtimes.runtime import Runtime
from edgekit.testing import RuntimeContract
from edgekit.testing.runtime_contract import Files

Tensor = tuple[str, int, tuple[int | None, ...]]


class TestOnnxRuntime(RuntimeContract):
    @pytest.fixture
    def runtime(self) -> Runtime:
        from edgekit.runtimes.onnxruntime import RUNTIME

        return RUNTIME

    def affine(self, shape: tuple[int | None, ...]) -> Files:
        nodes = [make_node("Mul", ["x", "two"], ["double"]), make_node("Add", ["double", "one"], ["y"])]
        x, y = ("x", TensorProto.FLOAT, shape), ("y", TensorProto.FLOAT, shape)
        return model(nodes, [x], [y], two=np.float32(2), one=np.float32(1))

    def sum_and_difference(self) -> Files:
        nodes = [make_node("Sub", ["a", "b"], ["difference"]), make_node("Add", ["a", "b"], ["sum"])]
        tensors: list[Tensor] = [(name, TensorProto.FLOAT, (2, 3)) for name in ("a", "b", "sum", "difference")]
        return model(nodes, tensors[:2], tensors[2:])

    def increment(self) -> Files:
        return self.integers_of(TensorProto.INT64, np.int64(1))

    def increment_int32(self) -> Files:
        return self.integers_of(TensorProto.INT32, np.int32(1))

    def integers_of(self, dtype: int, one: np.generic) -> Files:
        return model([make_node("Add", ["x", "one"], ["y"])], [("x", dtype, (3,))], [("y", dtype, (3,))], one=one)

    def ignores_second(self) -> Files:
        tensors: list[Tensor] = [("x", TensorProto.FLOAT, (2, 3)), ("unused", TensorProto.FLOAT, (4,))]
        nodes = [make_node("Mul", ["x", "two"], ["y"])]
        return model(nodes, tensors, [("y", TensorProto.FLOAT, (2, 3))], two=np.float32(2))


def model(
    nodes: Sequence[onnx.NodeProto], inputs: Sequence[Tensor], outputs: Sequence[Tensor], **constants: np.generic
) -> Files:
    graph = helper.make_graph(
        nodes,
        "contract",
        [helper.make_tensor_value_info(*each) for each in inputs],
        [helper.make_tensor_value_info(*each) for each in outputs],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return {"model.onnx": proto.SerializeToString()}
