"""Float types inside the graph: float16 and bfloat16 are widened, float64 is narrowed, all to float32.

Ports keep the model's own dtypes; a session converts at the door. Integers stay as they are.
"""

from typing import Final

import numpy as np
import onnx_ir as ir

from edgekit.build.importing.structure import all_graphs, all_nodes
from edgekit.core.errors import Unsupported

CHANGED: Final = {
    ir.DataType.FLOAT16: "widened",
    ir.DataType.BFLOAT16: "widened",
    ir.DataType.DOUBLE: "narrowed",
}
_KEPT: Final = frozenset(
    {
        ir.DataType.FLOAT,
        ir.DataType.INT8,
        ir.DataType.INT16,
        ir.DataType.INT32,
        ir.DataType.INT64,
        ir.DataType.UINT8,
        ir.DataType.UINT16,
        ir.DataType.UINT32,
        ir.DataType.UINT64,
        ir.DataType.BOOL,
        ir.DataType.STRING,
        ir.DataType.UNDEFINED,
    }
)
_DTYPE_ATTRIBUTES: Final = ("to", "dtype", "output_dtype")  # name an element type in every operator that has them


def to_float32(model: ir.Model) -> tuple[str, ...]:
    """Change every float tensor, attribute and value to float32; one note per type that was met.

    Raises `Unsupported` naming the tensor or node for types that have no exact place here (4- and 8-bit floats,
    4-bit integers, complex numbers).
    """
    met: set[ir.DataType] = set()
    for graph in all_graphs(model):
        for value in (*graph.inputs, *graph.initializers.values()):
            _change_value(value, f"'{value.name}'", met)
    for node in all_nodes(model):
        subject = f"'{node.name}' ({node.op_type})"
        for value in node.outputs:
            _change_value(value, subject, met)
        _change_attributes(node, subject, met)
    return tuple(
        f"{kind.name.lower()} tensors are {CHANGED[kind]} to float32; inputs and outputs keep the model's types"
        if kind is not ir.DataType.DOUBLE
        else "double (float64) tensors are narrowed to float32; inputs and outputs keep the model's types"
        for kind in CHANGED
        if kind in met
    )


def _change_value(value: ir.Value, subject: str, met: set[ir.DataType]) -> None:
    if value.const_value is not None:
        value.const_value = _changed(value.const_value, subject, met)
        value.type = ir.TensorType(value.const_value.dtype)
        return
    kind = value.dtype
    if not isinstance(value.type, ir.TensorType):
        value.type = None  # of a sequence: inference finds it again from what is put in
        return
    if kind is None:
        return
    if _is_changed(kind, subject, met):
        value.type = ir.TensorType(ir.DataType.FLOAT)


def _change_attributes(node: ir.Node, subject: str, met: set[ir.DataType]) -> None:
    for name, attribute in tuple(node.attributes.items()):
        if attribute.type is ir.AttributeType.TENSOR:
            node.attributes[name] = ir.AttrTensor(name, _changed(attribute.as_tensor(), subject, met))
            continue
        names_type = attribute.type is ir.AttributeType.INT and name in _DTYPE_ATTRIBUTES
        if names_type and _is_changed(ir.DataType(attribute.as_int()), subject, met):
            node.attributes[name] = ir.AttrInt64(name, int(ir.DataType.FLOAT))


def _changed(tensor: ir.TensorProtocol, subject: str, met: set[ir.DataType]) -> ir.TensorProtocol:
    if not _is_changed(tensor.dtype, subject, met):
        return tensor
    array = tensor.numpy()
    if tensor.dtype is ir.DataType.DOUBLE:  # a mask of -1.8e308 must not become infinite: 0 * inf is no number
        largest = np.finfo(np.float32).max
        array = np.where(np.isfinite(array), np.clip(array, -largest, largest), array)
    return ir.tensor(np.asarray(array).astype(np.float32), name=tensor.name)


def _is_changed(kind: ir.DataType, subject: str, met: set[ir.DataType]) -> bool:
    if kind in _KEPT:
        return False
    if kind not in CHANGED:
        remedy = "export the model in float32, float16 or bfloat16"
        raise Unsupported(subject, f"type {kind.name.lower()} is not taken", remedy)
    met.add(kind)
    return True
