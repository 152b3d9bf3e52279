"""Gemm in one form: A as it is, B transposed and constant, alpha = beta = 1, a bias of one value per output or none.

What cannot be said so becomes MatMul with Transpose, Mul and Add beside it.
"""

import numpy as np
import onnx_ir as ir

from edgekit.build.importing.editing import become, constant_beside
from edgekit.build.rewrite.matching import FloatArray, floats, input_of, nodes, set_constant
from edgekit.quantize.canonical import integer, real


def form_gemms(model: ir.Model) -> bool:
    """True where the graph changed."""
    changed = False
    for node in nodes(model, "Gemm"):
        weight = floats(node.inputs[1])
        changed |= _to_matmul(node) if weight is None else _to_form(node, weight)
    return changed


def _to_form(node: ir.Node, weight: FloatArray) -> bool:
    alpha, beta = real(node, "alpha", 1.0), real(node, "beta", 1.0)
    given = input_of(node, 2)
    bias = _bias(given, weight.shape[0 if integer(node, "transB", 0) else 1], beta)
    array = None if given is None or given.const_value is None else floats(given)
    if (
        integer(node, "transB", 0) == 1
        and not integer(node, "transA", 0)
        and alpha == beta == 1
        and (given is None or (bias is not None and array is not None and array.ndim == 1))
        and (bias is None or array is None or array.shape == bias.shape)
    ):
        return False
    if integer(node, "transA", 0):
        source = node.inputs[0]
        assert source is not None
        node.replace_input_with(0, _transposed(node, source, "a"))
    scaled = weight if alpha == 1 else (weight.astype(np.float64) * alpha).astype(np.float32)
    if alpha != 1 or not integer(node, "transB", 0):
        set_constant(node, 1, "weight", scaled if integer(node, "transB", 0) else scaled.T)
    for name in ("alpha", "beta", "transA"):
        node.attributes.pop(name, None)
    node.attributes["transB"] = ir.AttrInt64("transB", 1)
    if given is None:
        return True
    if bias is not None:
        set_constant(node, 2, "bias", bias)
        return True
    node.resize_inputs(2)
    _add_behind(node, _times(node, given, beta, "bias"))
    return True


def _bias(value: ir.Value | None, outputs: int, beta: float) -> FloatArray | None:
    """C as one value per output; None where it is computed or differs from row to row."""
    array = floats(value)
    if array is None or (array.size != 1 and (array.size != outputs or array.shape[-1] != outputs)):
        return None
    flat = np.broadcast_to(array.reshape(-1), (outputs,)).astype(np.float64) * beta
    return flat.astype(np.float32)


def _to_matmul(node: ir.Node) -> bool:
    """B is computed: y = alpha A' B' + beta C, node by node."""
    a, b = node.inputs[0], node.inputs[1]
    assert a is not None
    assert b is not None
    a = _transposed(node, a, "a") if integer(node, "transA", 0) else a
    b = _transposed(node, b, "b") if integer(node, "transB", 0) else b
    a = _times(node, a, real(node, "alpha", 1.0), "a")
    given, beta = input_of(node, 2), real(node, "beta", 1.0)
    if given is None or beta == 0:
        become(node, "MatMul", [a, b])
        return True
    product = _before(node, "MatMul", [a, b], "product")
    product.shape = node.outputs[0].shape
    become(node, "Add", [product, _times(node, given, beta, "c")])
    return True


def _add_behind(node: ir.Node, value: ir.Value) -> None:
    """The node's result plus `value` takes the result's place; the sum has the node's name with `.sum`."""
    inputs = list(node.inputs)
    attributes = {name: attribute.value for name, attribute in node.attributes.items()}
    product = _before(node, node.op_type, inputs, "product", **attributes)
    product.shape = node.outputs[0].shape
    inner, name = product.producer(), node.name
    become(node, "Add", [product, value])
    reader = next(iter(product.uses())).node
    assert inner is not None
    inner.name, reader.name = name, f"{name}.sum"


def _transposed(node: ir.Node, value: ir.Value, what: str) -> ir.Value:
    result = _before(node, "Transpose", [value], f"{what}_transposed", perm=(1, 0))
    if value.shape is not None and len(value.shape) == 2:
        result.shape = ir.Shape(list(value.shape)[::-1])
    return result


def _times(node: ir.Node, value: ir.Value, factor: float, what: str) -> ir.Value:
    if factor == 1:
        return value
    array = floats(value)
    scaled = None if array is None else (array.astype(np.float64) * factor).astype(np.float32)
    by = constant_beside(node, f"{what}_factor", np.array(factor, np.float32) if scaled is None else scaled)
    if scaled is not None:
        return by
    result = _before(node, "Mul", [value, by], f"{what}_scaled")
    result.shape = value.shape
    return result


def _before(node: ir.Node, op: str, inputs: list[ir.Value | None], what: str, **attributes: object) -> ir.Value:
    name = f"{node.name}.{what}"
    new = ir.node(op, inputs, attributes=attributes or None, name=name, version=node.version)  # type: ignore[arg-type]
    new.outputs[0].name = name
    new.outputs[0].type = node.outputs[0].type
    assert node.graph is not None
    node.graph.insert_before(node, new)
    return new.outputs[0]
