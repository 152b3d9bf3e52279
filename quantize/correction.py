"""Weights and biases of the linear nodes, one layer strictly after the other.

Each layer sees what the corrected 8-bit network before it gives. Its weights are rounded for that input, and its bias
takes what is left of the mean error per output channel (Nagel et al., arXiv 1906.04721, from data). Correcting several
layers at once over-corrects and destroys the network.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from edgekit.quantize.calibration import channel_mean
from edgekit.quantize.canonical import constant, input_name
from edgekit.quantize.interpreter import Array, walk
from edgekit.quantize.quantized import QParams, QuantizedModel, QWeight
from edgekit.quantize.roles import is_linear
from edgekit.quantize.rounding import covariance, round_by_output
from edgekit.quantize.simulate import add_bias, linear_runner, real_weight, stepper
from edgekit.quantize.solver import Parameters, fused_outputs
from edgekit.quantize.weights import WeightSet, channel_axis, from_rows, round_to_nearest, rows_of, weight_scales

BIAS_LIMIT: Final = 2**30  # half of int32: the products are added to it
SMALLEST_RATIO: Final = 2.0**-30  # of accumulator step to output step: XNNPACK and gemmlowp shift no further


@dataclass(frozen=True, slots=True)
class Corrections:
    """What is done beside plain rounding."""

    round_by_output: bool = True
    bias: bool = True


def quantize_linear(
    model: ir.Model,
    integer: frozenset[str],
    parameters: Parameters,
    *,
    weights: WeightSet,
    granularity: str,
    corrections: Corrections,
    samples: Sequence[Mapping[str, Array]],
    channel_means: Mapping[str, Sequence[NDArray[np.float32]]],
    threads: int,
) -> QuantizedModel:
    """The whole `QuantizedModel`. `samples` and `channel_means` (see `Calibration`) belong together, sample by sample.

    Without corrections no sample is needed.
    """
    activations, found_weights, found_biases = parameters.activations, {}, {}
    output_params = {**parameters.output_hint, **activations}
    fused = fused_outputs(model.graph, integer)

    def quantize_one(node: ir.Node, inputs: list[NDArray[np.float32]]) -> tuple[QWeight, NDArray[np.float64] | None]:
        weight = np.asarray(constant(node.inputs[1]), np.float64)
        rows = np.asarray(rows_of(node, weight), np.float64)
        scales = weight_scales(rows, weights)
        if granularity == "tensor":
            scales = np.full_like(scales, scales.max())
        bias = float_bias(node)
        source = activations[input_name(node, 0)]
        scales = _fit_accumulator(scales, bias, source, output_params.get(_result_name(node, fused)))
        if corrections.round_by_output and inputs and node.op_type != "ConvTranspose":
            q = round_by_output(rows, scales, covariance(node, inputs, weight.shape), weights)
        else:
            q = round_to_nearest(rows, scales, weights)
        values = np.ascontiguousarray(from_rows(node, q, weight.shape).astype(np.int8))
        flat = scales.reshape(-1).astype(np.float32)
        if granularity == "tensor":
            return QWeight(values, flat[:1], None), bias
        return QWeight(values, flat, channel_axis(node)), bias

    def linear(node: ir.Node, inputs: list[NDArray[np.float32]]) -> list[NDArray[np.float32]]:
        name = str(node.name)
        weight, bias = quantize_one(node, inputs)
        found_weights[name] = weight
        runner = linear_runner(node, real_weight(node, weight), threads)
        results = [np.asarray(runner([x])[0], np.float32) for x in inputs]
        if corrections.bias and node.op_type != "MatMul" and results:
            errors = np.stack(
                [m - channel_mean(node, y) for m, y in zip(channel_means[name], results, strict=True)]
            ).astype(np.float64)
            bias = shrunk_mean(errors - (0 if bias is None else bias)) + (0 if bias is None else bias)
        if bias is None:
            return results
        step = np.float64(activations[input_name(node, 0)].scale) * weight.scales.astype(np.float64)
        whole = np.clip(np.rint(bias / step), -BIAS_LIMIT, BIAS_LIMIT).astype(np.int32)
        found_biases[name] = whole
        return [add_bias(node, y, (whole * step).astype(np.float32)) for y in results]

    if samples:
        for _ in walk(model, samples, stepper(integer, activations, {}, linear, threads)):
            pass
    else:
        for node in model.graph:
            if node.name in integer and is_linear(node):
                linear(node, [])
    return QuantizedModel(model, integer, activations, found_weights, found_biases, parameters.output_hint)


def float_bias(node: ir.Node) -> NDArray[np.float64] | None:
    """The constant bias [channels], or None."""
    bias = constant(node.inputs[2]) if len(node.inputs) > 2 else None
    return None if bias is None else np.asarray(bias, np.float64).reshape(-1)


def shrunk_mean(errors: NDArray[np.float64]) -> NDArray[np.float64]:
    """Mean over samples [S, C], per channel shrunk by its own uncertainty (positive-part James–Stein).

    A correction that the samples do not agree on is noise of the calibration set and would hurt elsewhere.
    """
    mean: NDArray[np.float64] = errors.mean(axis=0)
    if len(errors) < 2:
        return mean
    uncertainty = errors.var(axis=0, ddof=1) / len(errors)
    return np.asarray(mean * np.clip(1 - uncertainty / np.maximum(mean**2, 1e-300), 0, 1))


def _result_name(node: ir.Node, fused: frozenset[str]) -> str:
    """The tensor that a linear node's accumulator is rounded to: its clamp's, where it is fused."""
    value = node.outputs[0]
    return str((value.consumers()[0].outputs[0] if value.name in fused else value).name)


def _fit_accumulator(
    scales: NDArray[np.float64], bias: NDArray[np.float64] | None, source: QParams, result: QParams | None
) -> NDArray[np.float64]:
    """Coarser weight scales where the int32 bias would overflow or the result's shift would be out of reach."""
    if bias is not None:
        needed = np.abs(bias) / (BIAS_LIMIT * source.scale)
        scales = np.maximum(scales, needed.reshape(scales.shape))
    if result is not None:
        scales = np.maximum(scales, SMALLEST_RATIO * result.scale / source.scale)
    return scales.astype(np.float32).astype(np.float64)
