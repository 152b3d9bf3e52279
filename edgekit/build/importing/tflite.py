"""A `.tflite` file as it stands: its bytes, and its ports read from the flatbuffer.

Nothing is converted: the file ships as it is. Ports are in the file's own axes (NHWC, as a rule).
"""

import hashlib
import struct
from pathlib import Path
from typing import Any, Final

import ai_edge_litert.schema_py_generated as schema

from edgekit.build.importing.imported import ImportedTflite, Quantization
from edgekit.core.artifact import Dim, Port
from edgekit.core.errors import BadInput, Unsupported
from edgekit.core.files import read_input
from edgekit.runtimes.flatbuffer_bounds import is_inside

IDENTIFIER: Final = b"TFL3"
REMEDY: Final = "give the .tflite file as it was exported"
_DTYPES: Final = {
    getattr(schema.TensorType, name.upper()): name
    for name in (
        *("float16", "float32", "float64", "int8", "int16", "int32", "int64"),
        *("uint8", "uint16", "uint32", "uint64", "bool", "complex64"),
    )
}
_OPERATORS: Final = {
    code: name for name, code in vars(schema.BuiltinOperator).items() if isinstance(code, int) and name.isupper()
}


def import_tflite(path: Path) -> ImportedTflite:
    """Read a TFLite file's ports, dtypes, shapes and quantization.

    Raises `BadInput` where it is missing, cut short or no TFLite file, `Unsupported` where a port's type has no numpy
    name.
    """
    content = read_input(path)
    if content[4:8] != IDENTIFIER:
        raise BadInput(str(path), "not a TFLite file" if content else "an empty file", REMEDY)
    if not is_inside(content):
        raise BadInput(str(path), "the TFLite file is cut short or damaged", REMEDY)
    try:
        model = schema.ModelT.InitFromPackedBuf(content, 0)
    except (struct.error, IndexError, TypeError, ValueError, UnicodeDecodeError) as error:
        raise BadInput(str(path), f"the TFLite file is damaged ({error})", REMEDY) from None
    if not model.subgraphs:
        raise BadInput(str(path), "the TFLite file holds no graph", REMEDY)
    graph = model.subgraphs[0]
    tensors = [graph.tensors[i] for i in (*graph.inputs, *graph.outputs)]
    names = [tensor.name.decode("utf-8", "replace") for tensor in tensors]
    read = {int(i) for operator in graph.operators or () for i in operator.inputs}
    ports = [
        _port(tensor, name, is_unused=at < len(graph.inputs) and graph.inputs[at] not in read)
        for at, (tensor, name) in enumerate(zip(tensors, names, strict=True))
    ]
    operators = tuple(_operator(model.operatorCodes[o.opcodeIndex]) for o in graph.operators or ())
    quantized = {n: q for n, t in zip(names, tensors, strict=True) if (q := _quantization(t)) is not None}
    count = len(graph.inputs)
    return ImportedTflite(
        content,
        tuple(ports[:count]),
        tuple(ports[count:]),
        quantized,
        operators,
        hashlib.sha256(content).hexdigest(),
        ("a TFLite file ships as it is: nothing is converted or quantized",),
    )


def _port(tensor: Any, name: str, *, is_unused: bool) -> Port:  # noqa: ANN401 - flatc generates no types
    dtype = _DTYPES.get(tensor.type)
    if dtype is None:
        raise Unsupported(
            f"'{name}'", f"has TFLite type {tensor.type}, which numpy does not have", "cast it in the model"
        )
    shape = () if tensor.shape is None else [int(d) for d in tensor.shape]
    signature = tensor.shapeSignature
    free = shape if signature is None or len(signature) != len(shape) else [int(d) for d in signature]
    dims: tuple[Dim, ...] = tuple(
        f"{name}.{i}" if f < 0 else d for i, (d, f) in enumerate(zip(shape, free, strict=True))
    )
    return Port(name, dtype, dims, unused=is_unused)


def _quantization(tensor: Any) -> Quantization | None:  # noqa: ANN401
    q = tensor.quantization
    if q is None or q.scale is None or len(q.scale) != 1:
        return None
    return Quantization(float(q.scale[0]), int(q.zeroPoint[0]) if q.zeroPoint is not None else 0)


def _operator(code: Any) -> str:  # noqa: ANN401
    if code.customCode is not None:
        return f"custom {code.customCode.decode('utf-8', 'replace')}"
    number = max(code.builtinCode, code.deprecatedBuiltinCode)
    return _OPERATORS.get(number, f"operator {number}")
