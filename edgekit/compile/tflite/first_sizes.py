"""Sizes that the file's inputs have until the caller resizes them, where the model leaves a size free.

An engine plans memory when it loads a file, so that the sizes written there must be some that the model can run at: 1
for the batch, and for the other axes the first of a few that shape inference lets through to the end.
"""

from collections.abc import Mapping
from typing import Final

import onnx
import onnx_ir as ir

from edgekit.compile.tflite.dims import dims

TRIED: Final = (32, 64, 128, 256, 512, 16, 8, 4, 2, 1)
"""Powers of two first: networks that shrink and grow again want multiples."""
_SMALL: Final = 1024  # elements; a longer constant is no shape


def first_sizes(model: ir.Model) -> dict[str, int]:
    """A size for each free size of the inputs, by its name."""
    names = {
        d: axis for value in model.graph.inputs for axis, d in reversed([*enumerate(dims(value))]) if isinstance(d, str)
    }
    batch = {name: 1 for name, axis in names.items() if axis == 0}
    others = [name for name in names if name not in batch]
    if not others:
        return batch
    skeleton = _skeleton(model)
    for size in TRIED:
        sizes = batch | dict.fromkeys(others, size)
        if _is_possible(skeleton, model, sizes):
            return sizes
    return batch | dict.fromkeys(others, 1)


def _skeleton(model: ir.Model) -> onnx.ModelProto:
    """The model without what is known of its computed shapes, and without its large constants: quick to copy."""
    graph = model.graph
    made = onnx.helper.make_graph(
        [ir.to_proto(node) for node in graph],
        "skeleton",
        [],
        [onnx.ValueInfoProto(name=v.name) for v in graph.outputs],
    )
    for name, value in graph.initializers.items():
        tensor = value.const_value
        if tensor is not None and tensor.size <= _SMALL:
            made.initializer.append(ir.to_proto(tensor))
            made.initializer[-1].name = name
        elif tensor is not None:
            made.input.append(onnx.helper.make_tensor_value_info(name, tensor.dtype.value, tensor.shape.numpy()))
    opsets = [onnx.helper.make_opsetid(domain, number) for domain, number in graph.opset_imports.items()]
    return onnx.helper.make_model(made, opset_imports=opsets)


def _is_possible(skeleton: onnx.ModelProto, model: ir.Model, sizes: Mapping[str, int]) -> bool:
    bound = onnx.ModelProto()
    bound.CopyFrom(skeleton)
    for value in model.graph.inputs:
        assert value.dtype is not None
        shape = [d if isinstance(d, int) else sizes[d] for d in dims(value)]
        bound.graph.input.append(onnx.helper.make_tensor_value_info(str(value.name), value.dtype.value, shape))
    try:
        found = onnx.shape_inference.infer_shapes(bound, strict_mode=True, data_prop=True)
    except onnx.shape_inference.InferenceError:
        return False
    shapes = [v.type.tensor_type.shape.dim for v in (*found.graph.value_info, *found.graph.output)]
    return all(d.dim_value > 0 for shape in shapes for d in shape if d.HasField("dim_value"))
