"""What a TFLite engine does in integers, from the types of the file's own operators.

Both engines, with XNNPACK or with their own kernels, compute an operator in the type of its tensors; an operator with
8-bit weights under float activations is counted as float.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import prod
from typing import Any, Final

import ai_edge_litert.schema_py_generated as schema
import numpy as np
from ai_edge_litert.interpreter import Interpreter
from numpy.typing import NDArray

from edgekit.compile.integer_share import IntegerShare, Shape, Work, product_macs
from edgekit.core.artifact import LoadableArtifact

Macs = Callable[[list[Shape], Shape], int]  # shapes of the inputs, shape of the output

_INTEGERS: Final = (np.int8, np.uint8, np.int16)
_COUNTED: Final[Mapping[int, tuple[str, int, Macs]]] = {  # operator -> name, input that holds activations, MACs
    schema.BuiltinOperator.CONV_2D: ("CONV_2D", 0, lambda i, o: prod(o) * prod(i[1][1:])),
    schema.BuiltinOperator.CONV_3D: ("CONV_3D", 0, lambda i, o: prod(o) * prod(i[1][:-1])),
    schema.BuiltinOperator.DEPTHWISE_CONV_2D: ("DEPTHWISE_CONV_2D", 0, lambda i, o: prod(o) * prod(i[1][1:3])),
    schema.BuiltinOperator.FULLY_CONNECTED: ("FULLY_CONNECTED", 0, lambda i, o: prod(o) * i[1][-1]),
    schema.BuiltinOperator.BATCH_MATMUL: ("BATCH_MATMUL", 0, lambda i, o: product_macs(i[0], i[1], o)),
    schema.BuiltinOperator.TRANSPOSE_CONV: ("TRANSPOSE_CONV", 2, lambda i, o: prod(i[2]) * prod(i[1][:3])),
}


def integer_share(artifact: LoadableArtifact, inputs: Mapping[str, NDArray[np.generic]]) -> IntegerShare:
    """Shapes are those of these inputs. Raises `ValueError` or `RuntimeError` where the engine refuses the file."""
    content = artifact.content(".tflite")
    interpreter = Interpreter(model_content=content, num_threads=1)
    details = interpreter.get_input_details()
    ports = [port for port in artifact.inputs if len(details) == len(artifact.inputs) or not port.unused]
    for port, detail in zip(ports, details, strict=True):
        if port.name in inputs and -1 in detail["shape_signature"]:
            shape = inputs[port.name].shape
            axes = range(len(shape)) if port.axes is None else port.axes
            interpreter.resize_tensor_input(detail["index"], [shape[axis] for axis in axes])
    interpreter.allocate_tensors()
    tensors = {int(each["index"]): each for each in interpreter.get_tensor_details()}
    return IntegerShare.of(_works(schema.ModelT.InitFromPackedBuf(content, 0), tensors))


def _works(model: Any, tensors: Mapping[int, dict[str, Any]]) -> Iterator[Work]:  # noqa: ANN401
    for operator in model.subgraphs[0].operators:
        code = model.operatorCodes[operator.opcodeIndex]
        counted = _COUNTED.get(max(code.builtinCode, code.deprecatedBuiltinCode))
        if counted is None:
            continue
        name, activations, macs = counted
        output = tensors[int(operator.outputs[0])]
        shapes = [_shape(tensors, index) for index in operator.inputs]
        used = [tensors[int(operator.inputs[index])]["dtype"] for index in (activations, 1)]
        yield Work(str(output["name"]), name, macs(shapes, _shape(tensors, operator.outputs[0])), _is_integer(used))


def _is_integer(dtypes: Sequence[type]) -> bool:
    return all(dtype in _INTEGERS for dtype in dtypes)


def _shape(tensors: Mapping[int, dict[str, Any]], index: int) -> Shape:
    """An input that is left out has index -1."""
    return [int(size) for size in tensors[int(index)]["shape"]] if index >= 0 else []
