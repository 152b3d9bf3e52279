"""The user's view of a graph's inputs and outputs."""

import onnx_ir as ir

from edgekit.core.artifact import Dim, Port
from edgekit.core.errors import Unsupported


def numpy_name(value: ir.Value) -> str:
    """The numpy name of a value's dtype. Raises `Unsupported` where numpy has none, or it is no tensor."""
    if not isinstance(value.type, ir.TensorType):
        raise Unsupported(f"'{value.name}'", f"is no tensor but {value.type}", "export tensors at the model's ports")
    if value.type.dtype is ir.DataType.STRING:
        return "object"
    try:
        name = str(value.type.dtype.numpy().name)
    except TypeError:
        name = value.type.dtype.name.lower()
    if name not in _NUMPY:
        raise Unsupported(f"'{value.name}'", f"has type {name}, which numpy does not have", "cast it in the model")
    return name


def port(value: ir.Value, dtype: str, *, is_unused: bool) -> Port:
    """A port with the model's own dtype. Raises `Unsupported` where the rank is not known."""
    if value.shape is None:
        remedy = f"bind it: --input-shape {value.name}:1,3,224,224"
        if not value.is_graph_input():
            remedy = "bind the shapes of the inputs, or declare the output's shape in the model"
        raise Unsupported(f"'{value.name}'", "its rank is not known", remedy)
    dims: tuple[Dim, ...] = tuple(
        dim if isinstance(dim, int) else dim.value or f"{value.name}.{axis}" for axis, dim in enumerate(value.shape)
    )
    return Port(str(value.name), dtype, dims, unused=is_unused)


_NUMPY = frozenset(
    [
        "bool",
        "int8",
        "int16",
        "int32",
        "int64",
        "uint8",
        "uint16",
        "uint32",
        "uint64",
        "float16",
        "float32",
        "float64",
        "complex64",
        "complex128",
    ]
)
