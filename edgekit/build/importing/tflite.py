"""A `.tflite` file as it stands: its ports, its operators and the quantization of its 8-bit ports.

The file is shipped unchanged, so nothing is rewritten here. The bounds of every table are checked before it is read:
the reader behind it trusts its offsets.
"""

import hashlib
import struct
from pathlib import Path
from typing import Any, Final

import ai_edge_litert.schema_py_generated as schema
import numpy as np

from edgekit.build.importing.imported import ImportedTflite, Quantization
from edgekit.core.artifact import Dim, Port
from edgekit.core.errors import BadInput, Unsupported
from edgekit.core.files import read_input
from edgekit.runtimes.flatbuffer_bounds import is_inside

_IDENTIFIER: Final = b"TFL3"  # bytes 4..8 of every TFLite flatbuffer
_REMEDY: Final = "give the .tflite file as it was converted"
_CUSTOM: Final = schema.BuiltinOperator.CUSTOM
_DTYPES: Final[dict[int, str]] = {
    schema.TensorType.FLOAT32: "float32",
    schema.TensorType.FLOAT16: "float16",
    schema.TensorType.FLOAT64: "float64",
    schema.TensorType.INT8: "int8",
    schema.TensorType.INT16: "int16",
    schema.TensorType.INT32: "int32",
    schema.TensorType.INT64: "int64",
    schema.TensorType.UINT8: "uint8",
    schema.TensorType.UINT16: "uint16",
    schema.TensorType.UINT32: "uint32",
    schema.TensorType.UINT64: "uint64",
    schema.TensorType.BOOL: "bool",
    schema.TensorType.COMPLEX64: "complex64",
    schema.TensorType.COMPLEX128: "complex128",
    schema.TensorType.STRING: "object",
}
_NAMES: Final = {code: name for name, code in vars(schema.BuiltinOperator).items() if not name.startswith("_")}


def import_tflite(path: Path) -> ImportedTflite:
    """Read a TFLite file. Raises `BadInput` where it is missing, no TFLite file or damaged, `Unsupported` by name."""
    content = read_input(path)
    if content[4:8] != _IDENTIFIER:
        why = "an empty file, not a TFLite model" if not content else "lacks the mark TFL3 of a TFLite model"
        raise BadInput(str(path), why, _REMEDY)
    if not is_inside(content):
        raise BadInput(str(path), "damaged or cut short: its parts lie beyond its end", _REMEDY)
    model = _unpacked(content, path)
    graphs = model.subgraphs or []
    if not graphs or not _are_indices_right(graphs[0], model.operatorCodes or []):
        raise BadInput(str(path), "holds no whole graph", _REMEDY)
    graph = graphs[0]
    read = {int(index) for operator in graph.operators or () for index in operator.inputs}
    read |= {int(index) for index in graph.outputs}
    names = _port_names(graph)
    inputs = tuple(_port(graph, int(i), names, is_unused=int(i) not in read) for i in graph.inputs)
    outputs = tuple(_port(graph, int(i), names, is_unused=False) for i in graph.outputs)
    return ImportedTflite(
        content,
        inputs,
        outputs,
        {names[int(i)]: q for i in (*graph.inputs, *graph.outputs) if (q := _quantization(graph.tensors[i]))},
        tuple(_operator(model.operatorCodes[operator.opcodeIndex]) for operator in graph.operators or ()),
        hashlib.sha256(content).hexdigest(),
        (),
    )


def _unpacked(content: bytes, path: Path) -> Any:  # noqa: ANN401  (the schema has no types)
    """The file as objects. Raises `BadInput`: plain numbers and option tables have no bounds checked before."""
    try:
        return schema.ModelT.InitFromPackedBuf(content, 0)
    except (struct.error, IndexError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise BadInput(str(path), f"the TFLite file is damaged ({error})", _REMEDY) from None


def _are_indices_right(graph: Any, codes: list[Any]) -> bool:  # noqa: ANN401  (the schema has no types)
    """Every tensor and operator code that is named exists; -1 is an input left out."""
    count = len(graph.tensors or ())
    ports = [graph.inputs, graph.outputs]
    if any(array is None or len(array) == 0 for array in ports[1:]) or ports[0] is None:
        return False
    operators = graph.operators or ()
    if any(not 0 <= operator.opcodeIndex < len(codes) or operator.inputs is None for operator in operators):
        return False
    named = [np.concatenate([np.asarray(a, np.int64) for a in ports])]
    optional = [np.asarray(operator.inputs, np.int64) for operator in operators]
    return all(((a >= 0) & (a < count)).all() for a in named) and all(((a >= -1) & (a < count)).all() for a in optional)


def _port_names(graph: Any) -> dict[int, str]:  # noqa: ANN401
    """Ports by tensor index; a name that two ports share gets the tensor's index behind it."""
    indices = dict.fromkeys(int(i) for i in (*graph.inputs, *graph.outputs))
    names: dict[int, str] = {}
    for index in indices:
        raw = graph.tensors[index].name
        name = raw.decode("utf-8", "replace") if raw else f"tensor_{index}"
        names[index] = name if name not in names.values() else f"{name}.{index}"
    return names


def _port(graph: Any, index: int, names: dict[int, str], *, is_unused: bool) -> Port:  # noqa: ANN401
    tensor, name = graph.tensors[index], names[index]
    dtype = _DTYPES.get(tensor.type)
    if dtype is None:
        raise Unsupported(f"'{name}'", f"has TFLite type {tensor.type}, which numpy does not have", "convert it anew")
    sizes = tensor.shape if tensor.shapeSignature is None or len(tensor.shapeSignature) == 0 else tensor.shapeSignature
    dims: tuple[Dim, ...] = tuple(
        int(size) if size >= 0 else f"{name}.{axis}" for axis, size in enumerate(() if sizes is None else sizes)
    )
    return Port(name, dtype, dims, unused=is_unused)


def _quantization(tensor: Any) -> Quantization | None:  # noqa: ANN401
    """Per-tensor parameters; None for a float port."""
    q = tensor.quantization
    if q is None or q.scale is None or len(q.scale) != 1:
        return None
    return Quantization(float(q.scale[0]), int(q.zeroPoint[0]) if q.zeroPoint is not None and len(q.zeroPoint) else 0)


def _operator(code: Any) -> str:  # noqa: ANN401
    number = max(code.builtinCode, code.deprecatedBuiltinCode)
    if number == _CUSTOM:
        custom = code.customCode or b"?"
        return f"CUSTOM:{custom.decode('utf-8', 'replace') if isinstance(custom, bytes) else custom}"
    return str(_NAMES.get(number, f"operator {number}"))
