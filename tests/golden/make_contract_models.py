"""Makes the tiny TFLite files of the runtime contract: `python tests/golden/make_contract_models.py`.

The files are kept as bytes, since the legacy engine's environment has neither a writer nor a schema. Needs LiteRT,
which carries the flatbuffer schema.
"""

from dataclasses import dataclass, field
from pathlib import Path

import flatbuffers
import numpy as np
from ai_edge_litert import schema_py_generated as schema

FOLDER = Path(__file__).parent / "contract"
FLOAT32, INT32, INT64 = schema.TensorType.FLOAT32, schema.TensorType.INT32, schema.TensorType.INT64
ADD, SUB, MUL = schema.BuiltinOperator.ADD, schema.BuiltinOperator.SUB, schema.BuiltinOperator.MUL
OPTIONS = {
    ADD: (schema.BuiltinOptions.AddOptions, schema.AddOptionsT),
    SUB: (schema.BuiltinOptions.SubOptions, schema.SubOptionsT),
    MUL: (schema.BuiltinOptions.MulOptions, schema.MulOptionsT),
}


@dataclass
class TinyModel:
    """Tensors and operators by name, in the order in which they were added."""

    names: list[str] = field(default_factory=list)
    tensors: list[schema.TensorT] = field(default_factory=list)
    buffers: list[schema.BufferT] = field(default_factory=lambda: [schema.BufferT()])  # buffer 0 is empty by rule
    operators: list[schema.OperatorT] = field(default_factory=list)
    codes: list[int] = field(default_factory=list)

    def tensor(self, name: str, shape: list[int], dtype: int = FLOAT32, value: float | None = None) -> None:
        """A tensor; -1 in `shape` is a free size, `value` makes it a constant."""
        each = schema.TensorT()
        each.name, each.type, each.shape = name, dtype, [max(size, 1) for size in shape]
        each.shapeSignature = shape if -1 in shape else None
        each.buffer = 0
        if value is not None:
            buffer = schema.BufferT()
            kind = {FLOAT32: "<f4", INT32: "<i4", INT64: "<i8"}[dtype]
            buffer.data = list(np.full(shape, value, kind).tobytes())
            self.buffers.append(buffer)
            each.buffer = len(self.buffers) - 1
        self.names.append(name)
        self.tensors.append(each)

    def operator(self, code: int, inputs: list[str], output: str) -> None:
        """An elementwise operator of two tensors."""
        if code not in self.codes:
            self.codes.append(code)
        each = schema.OperatorT()
        each.opcodeIndex = self.codes.index(code)
        each.inputs = [self.names.index(name) for name in inputs]
        each.outputs = [self.names.index(output)]
        each.builtinOptionsType, options = OPTIONS[code]
        each.builtinOptions = options()
        self.operators.append(each)

    def bytes(self, inputs: list[str], outputs: list[str]) -> bytes:
        """The flatbuffer."""
        graph = schema.SubGraphT()
        graph.name = "main"
        graph.tensors, graph.operators = self.tensors, self.operators
        graph.inputs = [self.names.index(name) for name in inputs]
        graph.outputs = [self.names.index(name) for name in outputs]
        model = schema.ModelT()
        model.version, model.description = 3, "edgekit contract"
        model.subgraphs, model.buffers = [graph], self.buffers
        model.operatorCodes = []
        for code in self.codes:
            each = schema.OperatorCodeT()
            each.builtinCode = each.deprecatedBuiltinCode = code
            each.version = 1
            model.operatorCodes.append(each)
        builder = flatbuffers.Builder(1024)
        builder.Finish(model.Pack(builder), b"TFL3")
        return bytes(builder.Output())


def affine(shape: list[int]) -> bytes:
    """y = 2 x + 1."""
    model = TinyModel()
    for name in ("x", "double", "y"):
        model.tensor(name, shape)
    model.tensor("two", [1], value=2)
    model.tensor("one", [1], value=1)
    model.operator(MUL, ["x", "two"], "double")
    model.operator(ADD, ["double", "one"], "y")
    return model.bytes(["x"], ["y"])


def sum_and_difference() -> bytes:
    """a + b and a - b of [2, 3]; the tensors stand in another order than the graph's inputs and outputs."""
    model = TinyModel()
    for name in ("difference", "b", "sum", "a"):
        model.tensor(name, [2, 3])
    model.operator(SUB, ["a", "b"], "difference")
    model.operator(ADD, ["a", "b"], "sum")
    return model.bytes(["a", "b"], ["sum", "difference"])


def increment(dtype: int) -> bytes:
    """y = x + 1 of [3] in integers."""
    model = TinyModel()
    model.tensor("x", [3], dtype)
    model.tensor("y", [3], dtype)
    model.tensor("one", [1], dtype, value=1)
    model.operator(ADD, ["x", "one"], "y")
    return model.bytes(["x"], ["y"])


def ignores_second() -> bytes:
    """y = 2 x of [2, 3]; the input `unused` is read by nothing."""
    model = TinyModel()
    model.tensor("x", [2, 3])
    model.tensor("unused", [4])
    model.tensor("y", [2, 3])
    model.tensor("two", [1], value=2)
    model.operator(MUL, ["x", "two"], "y")
    return model.bytes(["x", "unused"], ["y"])


FILES = {
    "affine_1x2x3x4": lambda: affine([1, 2, 3, 4]),
    "affine_1x3x4x2": lambda: affine([1, 3, 4, 2]),
    "affine_1xN": lambda: affine([1, -1]),
    "sum_and_difference": sum_and_difference,
    "increment": lambda: increment(INT64),
    "increment_int32": lambda: increment(INT32),
    "ignores_second": ignores_second,
}

if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, make in FILES.items():
        (FOLDER / f"{name}.tflite").write_bytes(make())
