"""What OpenVINO does in integers, from the graph that it executes (`get_runtime_model`).

Each executed convolution, product and recurrent layer says at which precision it runs, and has the shapes to count.
Attention is different: the CPU plugin fuses softmax(q k) v into one layer, whose two products are counted on the
artifact's own graph, around the Softmax that the fused layer names.
"""

from collections.abc import Collection, Iterator, Mapping
from math import prod
from typing import Any, Final

import numpy as np
import openvino
from numpy.typing import NDArray

from edgekit.compile.integer_share import (
    IntegerShare,
    Shape,
    Work,
    convolution_macs,
    product_macs,
    recurrent_macs,
    transposed_macs,
)
from edgekit.core.artifact import LoadableArtifact
from edgekit.runtimes.openvino import compile_options, read_model

_INTEGERS: Final = frozenset({"u8", "i8"})
_STEPS: Final = 8  # nodes between a Softmax and the products around it: scales, masks, reshapes, fake quantization


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
    executed = openvino.Core().compile_model(model, "CPU", compile_options(threads=1)).get_runtime_model()
    return IntegerShare.of(_works(model, executed))


def _works(model: Any, executed: Any) -> Iterator[Work]:  # noqa: ANN401  (the engine has no types)
    softmaxes = {
        str(node.get_friendly_name()): node for node in model.get_ordered_ops() if node.get_type_name() == "Softmax"
    }
    own_names = {str(node.get_friendly_name()) for node in model.get_ordered_ops()}
    for layer in executed.get_ordered_ops():
        kind, name = _note(layer, "layerType"), _own_name(layer, own_names)
        is_integer = _note(layer, "runtimePrecision").lower() in _INTEGERS
        macs = _macs(layer, kind)
        if macs:
            yield Work(name, kind, macs, is_integer)
        elif kind.lower() != "softmax":
            taken_in = f",{_note(layer, 'originalLayersNames')},"
            for softmax in (node for own, node in softmaxes.items() if f",{own}," in taken_in):
                yield Work(name, kind, sum(_product(each) for each in _products_around(softmax)), is_integer)


def _own_name(layer: Any, own: Collection[str]) -> str:  # noqa: ANN401
    """The artifact's name for the last operator that a layer took in; OpenVINO's own names change per process."""
    names = _note(layer, "originalLayersNames").split(",")
    return next((name for name in reversed(names) if name in own), _note(layer, "layerType"))


def _note(layer: Any, key: str) -> str:  # noqa: ANN401
    value = layer.get_rt_info()[key]
    return str(value.astype(str) if hasattr(value, "astype") else value)


def _macs(layer: Any, kind: str) -> int:  # noqa: ANN401
    """Multiply-accumulates of an executed layer, 0 for one that is not counted."""
    if not any(
        word in kind for word in ("Convolution", "Deconvolution", "MatMul", "FullyConnected", "RNN", "LSTM", "GRU")
    ):
        return 0
    if any(port.get_partial_shape().is_dynamic for port in (*layer.inputs(), *layer.outputs())):
        return 0
    inputs: list[Shape] = [list(port.get_shape()) for port in layer.inputs()]
    output: Shape = list(layer.outputs()[0].get_shape())
    if kind == "Convolution":
        return convolution_macs(output, inputs[1])
    if kind == "Deconvolution":
        return transposed_macs(inputs[0], inputs[1])
    if kind in ("MatMul", "FullyConnected"):
        return product_macs(inputs[0], inputs[1], output)
    weights = [shape for shape in inputs[1:] if len(shape) == 3 and shape[1] > 1]  # [directions, gates × hidden, …]
    return recurrent_macs(prod(inputs[0][:2]), weights[-2:])


def _product(node: Any) -> int:  # noqa: ANN401
    a, b = (list(node.input(index).get_shape()) for index in range(2))
    return product_macs(a, b, list(node.output(0).get_shape()))


def _products_around(softmax: Any) -> list[Any]:  # noqa: ANN401
    """The MatMul that feeds a Softmax and the one that reads it."""
    found = []
    for step in (_reader, _source):
        node = softmax
        for _ in range(_STEPS):
            node = step(node)
            if node is None or node.get_type_name() == "MatMul":
                break
        if node is not None and node.get_type_name() == "MatMul":
            found.append(node)
    return found


def _reader(node: Any) -> Any:  # noqa: ANN401
    return next((target.get_node() for target in node.output(0).get_target_inputs()), None)


def _source(node: Any) -> Any:  # noqa: ANN401
    return node.input(0).get_source_output().get_node() if node.get_input_size() else None
