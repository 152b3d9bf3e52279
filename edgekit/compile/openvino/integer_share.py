"""What OpenVINO does in integers, from the graph that it executes (`get_runtime_model`).

Multiply-accumulates are counted on the artifact's own operators, since the executed graph hides some in fused
subgraphs; each executed layer names the operators that it took in and the precision that it runs at. An operator that
no executed layer names was folded away.
"""

from collections.abc import Iterator, Mapping
from math import prod
from typing import Any, Final

import numpy as np
import openvino
from numpy.typing import NDArray

from edgekit.compile.integer_share import (
    IntegerShare,
    Work,
    convolution_macs,
    product_macs,
    recurrent_macs,
    transposed_macs,
)
from edgekit.core.artifact import LoadableArtifact
from edgekit.runtimes.openvino import compile_options, read_model

_INTEGERS: Final = frozenset({"u8", "i8"})


def integer_share(artifact: LoadableArtifact, inputs: Mapping[str, NDArray[np.generic]]) -> IntegerShare:
    """Compiles the artifact for the shapes of these inputs. Raises what OpenVINO raises for wrong ones."""
    model = read_model(artifact)
    ports = [port for port in artifact.inputs if len(model.inputs) == len(artifact.inputs) or not port.unused]
    shapes = {
        index: list(inputs[port.name].shape) if port.axes is None else [inputs[port.name].shape[a] for a in port.axes]
        for index, port in enumerate(ports)
        if port.name in inputs and model.inputs[index].get_partial_shape().is_dynamic
    }
    if shapes:
        model.reshape(shapes)
    layers = openvino.Core().compile_model(model, "CPU", compile_options(threads=1)).get_runtime_model()
    return IntegerShare.of(_works(model, layers))


def _works(model: Any, layers: Any) -> Iterator[Work]:  # noqa: ANN401  (the engine has no types)
    executed = [
        (f",{_note(layer, 'originalLayersNames')},", _note(layer, "runtimePrecision").lower())
        for layer in layers.get_ordered_ops()
    ]
    for node in model.get_ordered_ops():
        macs = _macs(node)
        name = str(node.get_friendly_name())
        precision = next((each for names, each in executed if f",{name}," in names), None)
        if macs and precision is not None:
            yield Work(name, str(node.get_type_name()), macs, precision in _INTEGERS)


def _note(layer: Any, key: str) -> str:  # noqa: ANN401
    value = layer.get_rt_info()[key]
    return str(value.astype(str) if hasattr(value, "astype") else value)


def _macs(node: Any) -> int:  # noqa: ANN401
    """Multiply-accumulates of a node, 0 for one that is not counted."""
    kind = node.get_type_name()
    if not any(word in kind for word in ("Convolution", "MatMul", "LSTM", "GRU", "RNN")):
        return 0
    if any(port.get_partial_shape().is_dynamic for port in (*node.inputs(), *node.outputs())):
        return 0
    inputs = [list(port.get_shape()) for port in node.inputs()]
    output = list(node.outputs()[0].get_shape())
    match kind:
        case "Convolution" | "GroupConvolution":
            return convolution_macs(output, inputs[1])
        case "ConvolutionBackpropData" | "GroupConvolutionBackpropData":
            return transposed_macs(inputs[0], inputs[1])
        case "MatMul":
            return product_macs(inputs[0], inputs[1], output)
        case "LSTMSequence" | "GRUSequence" | "RNNSequence":
            return recurrent_macs(
                prod(inputs[0][:2]), [shape for shape in inputs[2:] if len(shape) == 3 and shape[1] > 1][-2:]
            )
        case _:
            return 0
