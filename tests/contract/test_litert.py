"""LiteRT keeps the runtime contract."""

from pathlib import Path

import pytest

from edgekit.runtimes.runtime import Runtime
from edgekit.testing import RuntimeContract
from edgekit.testing.runtime_contract import Files

pytest.importorskip("ai_edge_litert", reason="LiteRT is not installed")
GOLDEN = Path(__file__).parents[1] / "golden/contract"


class TestLiteRt(RuntimeContract):
    @pytest.fixture
    def runtime(self) -> Runtime:
        from edgekit.runtimes.litert import RUNTIME

        return RUNTIME

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


def golden(name: str) -> Files:
    return {"model.tflite": (GOLDEN / f"{name}.tflite").read_bytes()}
