"""A model that takes pixels as they are: the arithmetic of the preprocessing becomes its first nodes."""

from dataclasses import replace

import numpy as np
import onnx_ir as ir

from edgekit.build.importing import ImportedModel
from edgekit.core.errors import UsageError
from edgekit.core.preprocess import Preprocess
from edgekit.quantize.canonical import constant


def real_name(name: str) -> str:
    """The tensor behind a uint8 input that holds the model's real values."""
    return f"{name}/real"


def take_pixels(imported: ImportedModel, name: str, preprocess: Preprocess) -> tuple[ImportedModel, Preprocess]:
    """The model with a uint8 input of the same name and shape, and the preprocessing that is left to do outside.

    real = (pixel / divisor - mean) / std becomes Cast, Mul and Add. Raises `UsageError` where the preprocessing pads
    in units of the tensor, which pixels cannot express.
    """
    if preprocess.pad is not None:
        raise UsageError("--input uint8", "this preprocessing pads with a real number", "keep --input float32")
    graph = imported.model.graph
    (position, old) = next((i, v) for i, v in enumerate(graph.inputs) if v.name == name)
    levels = preprocess.denormalise_range().astype(np.float64)  # affine in the pixel: two of its points fix it
    gain, offset = levels[:, 1] - levels[:, 0], levels[:, 0]
    planar = preprocess.layout == "nchw"
    shape = (1, -1, 1, 1) if planar else (1, 1, 1, -1)
    pixels = ir.Value(name=name, type=ir.TensorType(ir.DataType.UINT8), shape=old.shape)
    cast = ir.node("Cast", [pixels], {"to": ir.DataType.FLOAT}, name=f"{name}/cast")
    nodes, result = [cast], cast.outputs[0]
    for op, values, neutral in (("Mul", gain, 1.0), ("Add", offset, 0.0)):
        if (values != neutral).any():
            factors = values.astype(np.float32).reshape(shape)
            operand = ir.Value(
                name=f"{name}/{op.lower()}",
                shape=ir.Shape(factors.shape),
                type=ir.TensorType(ir.DataType.FLOAT),
                const_value=ir.tensor(factors),
            )
            graph.register_initializer(operand)
            node = ir.node(op, [result, operand], name=f"{name}/normalise_{op.lower()}")
            nodes.append(node)
            result = node.outputs[0]
    for i, node in enumerate(nodes):
        made = node.outputs[0]
        made.type, made.shape = ir.TensorType(ir.DataType.FLOAT), old.shape
        made.name = real_name(name) if made is result else f"{name}/step_{i}"
    for reader, index in tuple(old.uses()):
        reader.replace_input_with(index, result)
    graph.inputs[position] = pixels
    first = next(iter(graph), None)
    if first is None:
        graph.extend(nodes)
    else:
        graph.insert_before(first, nodes)
    assert all(constant(v) is None for v in graph.inputs)
    ports = tuple(replace(p, dtype="uint8") if p.name == name else p for p in imported.inputs)
    left = replace(preprocess, dtype="uint8", divisor=1.0, mean=(0.0,), std=(1.0,))
    return replace(imported, inputs=ports), left
