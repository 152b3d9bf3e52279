"""The arithmetic of the 8-bit network in float: what every runtime should give, without its saturation or its ties.

A tensor that an integer node wrote is held as its uint8 values; a reader takes their real values. An integer node that
reads a float tensor rounds it on the way in. Linear nodes are the caller's (`linear`), so that the same walk serves
evaluation and the correction of one layer after the other.
"""

from collections.abc import Callable, Collection, Mapping, Sequence

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from edgekit.quantize.canonical import constant, input_name
from edgekit.quantize.interpreter import Array, NodeRunner, Step, reads, walk
from edgekit.quantize.quantized import QParams, QuantizedModel, QWeight
from edgekit.quantize.roles import Kind, data_inputs, role
from edgekit.quantize.weights import channel_axis

Linear = Callable[[ir.Node, list[NDArray[np.float32]]], list[NDArray[np.float32]]]
"""(linear node, its input per sample) -> its float result per sample, before any clamp."""


def real_values(array: Array, params: QParams | None) -> Array:
    """The float tensor behind a held one."""
    return params.dequantize(array.astype(np.uint8)) if params is not None and array.dtype == np.uint8 else array


def real_weight(node: ir.Node, weight: QWeight) -> NDArray[np.float32]:
    """The float weights that the integers stand for."""
    if weight.axis is None:
        return weight.values.astype(np.float32) * weight.scales.reshape(())
    scales = weight.scales
    if node.op_type == "ConvTranspose":
        groups = len(scales) // weight.values.shape[1]
        per_group = scales.reshape(groups, weight.values.shape[1])
        scales = np.repeat(per_group, weight.values.shape[0] // groups, axis=0)
        return weight.values.astype(np.float32) * scales.reshape(*scales.shape, *(1,) * (weight.values.ndim - 2))
    shape = [1] * weight.values.ndim
    shape[channel_axis(node)] = -1
    return weight.values.astype(np.float32) * scales.reshape(shape)


def stepper(
    integer: Collection[str],
    activations: Mapping[str, QParams],
    hints: Mapping[str, QParams],
    linear: Linear,
    threads: int,
) -> Step:
    """A step for `interpreter.walk` that rounds where the 8-bit network rounds. `hints` are rounded to float."""

    def read_rounded(name: str, array: Array) -> Array:
        params = activations.get(name)
        if params is None or array.dtype == np.uint8:
            return real_values(array, params)
        return params.dequantize(params.quantize(np.asarray(array, np.float32)))

    def step(node: ir.Node, inputs: list[list[Array]]) -> list[list[Array]]:
        row = role(node) if node.name in integer else None
        computed = [v for v in reads(node) if v.const_value is None]
        names = [str(v.name) for v in computed]
        if row is None:
            runner = NodeRunner(node, threads=threads)
            return [
                runner([real_values(a, activations.get(n)) for n, a in zip(names, arrays, strict=True)])
                for arrays in inputs
            ]
        rounded = {str(v.name) for v in data_inputs(node, row)}
        real = [
            [
                read_rounded(n, a) if n in rounded else real_values(a, activations.get(n))
                for n, a in zip(names, arrays, strict=True)
            ]
            for arrays in inputs
        ]
        if row.kind is Kind.LINEAR:
            results: list[list[Array]] = [[y] for y in linear(node, [np.asarray(r[0], np.float32) for r in real])]
        else:
            constants = {
                str(v.name): _rounded(c, activations[str(v.name)])
                for v in data_inputs(node, row)
                if (c := constant(v)) is not None
            }
            runner = NodeRunner(node, threads=threads, constants=constants)
            results = [runner(r) for r in real]
        written = [str(v.name) for v in node.outputs if v.name]
        return [[_written(n, a, activations, hints) for n, a in zip(written, r, strict=True)] for r in results]

    return step


def _written(name: str, array: Array, activations: Mapping[str, QParams], hints: Mapping[str, QParams]) -> Array:
    if name in activations:
        return activations[name].quantize(np.asarray(array, np.float32))
    if name in hints:
        return hints[name].dequantize(hints[name].quantize(np.asarray(array, np.float32)))
    return array


def _rounded(array: Array, params: QParams) -> Array:
    """A constant as the integer network sees it."""
    return params.dequantize(params.quantize(np.asarray(array, np.float32)))


def linear_runner(node: ir.Node, weight: NDArray[np.float32], threads: int) -> NodeRunner:
    """The node with other weights and a bias of zero."""
    constants: dict[str, Array] = {input_name(node, 1): weight}
    if len(node.inputs) > 2 and (bias := node.inputs[2]) is not None and (b := constant(bias)) is not None:
        constants[str(bias.name)] = np.zeros_like(b)
    return NodeRunner(node, threads=threads, constants=constants)


def add_bias(node: ir.Node, y: NDArray[np.float32], bias: NDArray[np.float32]) -> NDArray[np.float32]:
    """`bias` per output channel of a linear node's result."""
    channels_first = node.op_type in ("Conv", "ConvTranspose")
    return y + bias.reshape(1, -1, *(1,) * (y.ndim - 2)) if channels_first else y + bias


def simulate(
    quantized: QuantizedModel, samples: Sequence[Mapping[str, Array]], *, threads: int, round_outputs: bool = False
) -> list[dict[str, Array]]:
    """Graph outputs per sample. `round_outputs`: also round where a runtime has no float result (`output_hint`)."""

    def linear(node: ir.Node, inputs: list[NDArray[np.float32]]) -> list[NDArray[np.float32]]:
        name = str(node.name)
        weight = quantized.weights[name]
        runner = linear_runner(node, real_weight(node, weight), threads)
        results = [np.asarray(runner([x])[0], np.float32) for x in inputs]
        if name in quantized.biases:
            step_size = bias_scale(quantized, node)
            bias = (quantized.biases[name] * step_size).astype(np.float32)
            results = [add_bias(node, y, bias) for y in results]
        return results

    step = stepper(
        quantized.integer_nodes,
        quantized.activations,
        quantized.output_hint if round_outputs else {},
        linear,
        threads,
    )
    wanted = {str(v.name) for v in quantized.model.graph.outputs}
    outputs: list[dict[str, Array]] = [{} for _ in samples]
    for _, tensors in walk(quantized.model, samples, step):
        for name, column in tensors.items():
            if name in wanted:
                for kept, array in zip(outputs, column, strict=True):
                    kept[name] = real_values(array, quantized.activations.get(name))
    return outputs


def bias_scale(quantized: QuantizedModel, node: ir.Node) -> NDArray[np.float64]:
    """Real value of one step of the node's int32 accumulator, per output channel."""
    source = quantized.activations[input_name(node, 0)]
    return np.float64(source.scale) * quantized.weights[str(node.name)].scales.astype(np.float64)
