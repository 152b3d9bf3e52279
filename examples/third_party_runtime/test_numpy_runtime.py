"""The runtime of one's own keeps the contract that ours keep: `pytest examples/third_party_runtime`."""

import json
import sys
from pathlib import Path

import pytest

from edgekit.runtimes.runtime import Runtime
from edgekit.testing import RuntimeContract

sys.path.insert(0, str(Path(__file__).parent))
from numpy_runtime import RUNTIME

Tensors = dict[str, dict[str, object]]


class TestNumpyRuntime(RuntimeContract):
    @pytest.fixture
    def runtime(self) -> Runtime:
        return RUNTIME

    def affine(self, shape: tuple[int | None, ...]) -> dict[str, bytes]:
        return file({"x": of(shape)}, {"y": {**of(shape), "terms": {"x": 2}, "plus": 1}})

    def sum_and_difference(self) -> dict[str, bytes]:
        pair = of((2, 3))
        outputs = {
            "s": {**pair, "terms": {"a": 1, "b": 1}, "plus": 0},
            "d": {**pair, "terms": {"a": 1, "b": -1}, "plus": 0},
        }
        return file({"a": pair, "b": pair}, outputs)

    def increment(self) -> dict[str, bytes]:
        return file({"x": of((3,), "int64")}, {"y": {**of((3,), "int64"), "terms": {"x": 1}, "plus": 1}})

    def increment_int32(self) -> dict[str, bytes]:
        return file({"x": of((3,), "int32")}, {"y": {**of((3,), "int32"), "terms": {"x": 1}, "plus": 1}})

    def ignores_second(self) -> dict[str, bytes]:
        inputs = {"x": of((2, 3)), "unused": of((4,))}
        return file(inputs, {"y": {**of((2, 3)), "terms": {"x": 2}, "plus": 0}})


def of(shape: tuple[int | None, ...], dtype: str = "float32") -> dict[str, object]:
    return {"dtype": dtype, "shape": list(shape)}


def file(inputs: Tensors, outputs: Tensors) -> dict[str, bytes]:
    return {"model.json": json.dumps({"inputs": inputs, "outputs": outputs}).encode()}
