"""Both engines that read TFLite files keep the runtime contract, on the same files.

Needs numpy, pytest and one of the engines; the other's tests are skipped.
"""

from pathlib import Path

import pytest

from edgekit.runtimes.runtime import Runtime
from edgekit.testing import RuntimeContract
from edgekit.testing.runtime_contract import Files

GOLDEN = Path(__file__).parents[1] / "golden/contract"


class TfliteContract(RuntimeContract):
    """The contract on the golden TFLite files."""

    def affine(self, shape: tuple[int | None, ...]) -> Files:
        return golden("affine_" + "x".join("N" if size is None else str(size) for size in shape))

    def sum_and_difference(self) -> Files:
        return golden("sum_and_difference")

    def increment(self) -> Files:
        return golden("increment")

    def increment_int32(self) -> Files:
        return golden("increment_int32")

    def ignores_second(self) -> Files:
        return golden("ignores_second")


class TestLiteRt(TfliteContract):
    @pytest.fixture
    def runtime(self) -> Runtime:
        pytest.importorskip("ai_edge_litert", reason="LiteRT is not installed")
        from edgekit.runtimes.litert import RUNTIME

        return RUNTIME


class TestTfliteRuntime(TfliteContract):
    @pytest.fixture
    def runtime(self) -> Runtime:
        pytest.importorskip("tflite_runtime", reason="tflite-runtime is not installed")
        from edgekit.runtimes.tflite_runtime import RUNTIME

        return RUNTIME


def golden(name: str) -> Files:
    return {"model.tflite": (GOLDEN / f"{name}.tflite").read_bytes()}
