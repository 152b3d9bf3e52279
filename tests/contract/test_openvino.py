"""OpenVINO keeps the runtime contract."""

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgekit.runtimes.runtime import Runtime
from edgekit.testing import RuntimeContract
from edgekit.testing.runtime_contract import Files

openvino = pytest.importorskip("openvino", reason="OpenVINO is not installed")
ops = openvino.opset13


class TestOpenVino(RuntimeContract):
    @pytest.fixture
    def runtime(self) -> Runtime:
        from edgekit.runtimes.openvino import RUNTIME

        return RUNTIME

    def affine(self, shape: tuple[int | None, ...]) -> Files:
        x = ops.parameter(openvino.PartialShape([-1 if size is None else size for size in shape]), np.float32)
        return saved([ops.add(ops.multiply(x, np.float32(2)), np.float32(1))], [x])

    def sum_and_difference(self) -> Files:
        a, b = ops.parameter([2, 3], np.float32), ops.parameter([2, 3], np.float32)
        return saved([ops.add(a, b), ops.subtract(a, b)], [a, b])

    def increment(self) -> Files:
        x = ops.parameter([3], np.int64)
        return saved([ops.add(x, np.int64(1))], [x])

    def increment_int32(self) -> Files:
        x = ops.parameter([3], np.int32)
        return saved([ops.add(x, np.int32(1))], [x])

    def ignores_second(self) -> Files:
        """The file has dropped the second input."""
        x = ops.parameter([2, 3], np.float32)
        return saved([ops.multiply(x, np.float32(2))], [x])


def saved(results: Sequence[Any], parameters: Sequence[Any]) -> Files:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.xml"
        openvino.save_model(openvino.Model(list(results), list(parameters), "contract"), path, compress_to_fp16=False)
        return {"model.xml": path.read_bytes(), "model.bin": path.with_suffix(".bin").read_bytes()}
