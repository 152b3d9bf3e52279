"""A `QuantizedModel` as standard ONNX with QuantizeLinear and DequantizeLinear: what ORT and OpenVINO read.

The numbers are the quantizer's; only where pairs stand differs per runtime (`Policy`). Rules:

- an integer node reads every 8-bit tensor through a DequantizeLinear, and what it writes goes through a pair;
- a float node between integer ones reads real values, and is shielded where the engine would quantize its weights by
  itself, per tensor, because a DequantizeLinear with one scale stands before it (ORT's `WeightBiasQuantization`);
- a clamp disappears where the saturation of the 8-bit result does the same; where the scale is shared with wider
  tensors and does not, the linear node is rounded first and the clamp stays;
- weights are int8 initializers behind a DequantizeLinear, biases int32 at the accumulator's scale.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx
import onnx_ir as ir
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from edgekit.quantize.canonical import CANONICAL_OPSET, clamp_bounds, constant, integer
from edgekit.quantize.interpreter import IR_VERSION
from edgekit.quantize.quantized import QParams, QuantizedModel
from edgekit.quantize.roles import Kind, data_inputs, role
from edgekit.quantize.simulate import bias_scale
from edgekit.quantize.solver import fused_outputs


@dataclass(frozen=True, slots=True)
class Policy:
    """Where a runtime wants pairs.

    `needs_rounded_result`: linear operators that have no float result there. `keeps_clamps`: a clamp stays although
    rounding does the same. `quantizes_unasked`: operators whose float weights it rounds behind a DequantizeLinear.
    """

    needs_rounded_result: Collection[str]
    keeps_clamps: bool
    quantizes_unasked: Collection[str] = ()


def to_qdq(quantized: QuantizedModel, policy: Policy) -> onnx.ModelProto:
    """Deterministic: the same model and numbers give the same bytes."""
    return _Writer(quantized, policy).write()


class _Writer:
    def __init__(self, quantized: QuantizedModel, policy: Policy) -> None:
        self.q, self.policy = quantized, policy
        self.graph = quantized.model.graph
        self.nodes: list[onnx.NodeProto] = []
        self.initializers: dict[str, onnx.TensorProto] = {}
        self.taken = {str(v.name) for n in self.graph for v in (*n.inputs, *n.outputs) if v is not None}
        self.node_names = {str(n.name) for n in self.graph}
        self.rounded: dict[str, tuple[str, QParams]] = {}  # 8-bit tensor of the model -> its integers
        self.dequantized: dict[str, str] = {}  # 8-bit tensor of the model -> name of its real values
        self.fused = fused_outputs(self.graph, quantized.integer_nodes)
        self.scales: dict[tuple[float, int], tuple[str, str]] = {}

    def write(self) -> onnx.ModelProto:
        for value in self.graph.inputs:
            if value.name in self.q.activations:
                self._pair(str(value.name), str(value.name), self.fresh(f"{value.name}/real"))
        for node in self.graph:
            if node.name in self.q.integer_nodes:
                self._integer(node)
            else:
                self._float(node)
        used = {name for n in self.nodes for name in _all_inputs(n)} | {str(v.name) for v in self.graph.outputs}
        originals = [
            _named(ir.to_proto(v.const_value), str(v.name))
            for v in self.graph.initializers.values()
            if v.name in used and v.const_value is not None
        ]
        graph = helper.make_graph(
            self.nodes,
            self.graph.name or "model",
            [ir.to_proto(v) for v in self.graph.inputs],
            [ir.to_proto(v) for v in self.graph.outputs],
            [*originals, *self.initializers.values()],
        )
        return helper.make_model(
            graph,
            opset_imports=[helper.make_opsetid("", CANONICAL_OPSET)],
            ir_version=IR_VERSION,
            producer_name="edgekit",
        )

    def fresh(self, name: str) -> str:
        """A tensor name that the model does not use, nor a node named after it."""
        while name in self.taken or self.node_names & {f"{name}/q", f"{name}/dq"}:
            name += "_"
        self.taken.add(name)
        return name

    def _store(self, name: str, array: NDArray[np.generic]) -> str:
        name = self.fresh(name)
        # asarray keeps a scalar a scalar: ORT fuses Add and Mul only with scalar scales, not with ones of shape [1]
        self.initializers[name] = numpy_helper.from_array(np.asarray(array, order="C"), name)
        return name

    def _parameters(self, p: QParams) -> tuple[str, str]:
        key = (p.scale, p.zero_point)
        if key not in self.scales:
            n = len(self.scales)
            self.scales[key] = (
                self._store(f"scale_{n}", np.array(p.scale, np.float32)),
                self._store(f"zero_point_{n}", np.array(p.zero_point, np.uint8)),
            )
        return self.scales[key]

    def _pair(self, name: str, source: str, real: str, params: QParams | None = None) -> None:
        """QuantizeLinear and DequantizeLinear from float `source` to float `real`, for the model's tensor `name`."""
        params = params or self.q.activations[name]
        scale, zero = self._parameters(params)
        rounded = self.fresh(f"{name}/8bit")
        self.nodes.append(helper.make_node("QuantizeLinear", [source, scale, zero], [rounded], name=f"{rounded}/q"))
        self.nodes.append(helper.make_node("DequantizeLinear", [rounded, scale, zero], [real], name=f"{rounded}/dq"))
        self.rounded[name], self.dequantized[name] = (rounded, params), real

    def _float(self, node: ir.Node) -> None:
        """As it is; results that integer nodes read get a pair of their own beside the float tensor.

        It reads the model's own names: real values behind an integer node's pair, the unrounded tensor elsewhere.
        """
        proto = ir.to_proto(node)
        if node.op_type in self.policy.quantizes_unasked and (weight := constant(node.inputs[1])) is not None:
            self._shield(node, proto, weight.shape)
        self.nodes.append(proto)
        for value in node.outputs:
            if value.name in self.q.activations:
                self._pair(str(value.name), str(value.name), self.fresh(f"{value.name}/real"))

    def _shield(self, node: ir.Node, proto: onnx.NodeProto, weight_shape: tuple[int, ...]) -> None:
        """Take away what makes the engine quantize the weights of a node that stays float; the numbers stay the same.

        Behind an 8-bit tensor it reads a DequantizeLinear with a scale per channel, all of them equal. Where nodes
        stand between that only move values, engines move the DequantizeLinear too: there the bias becomes integers
        (which costs ORT its fast layout for this node).
        """
        source = str(proto.input[0])
        if self.dequantized.get(source) == source:
            rounded, params = self.rounded[source]
            channels = input_channels(node, weight_shape)
            scale = self._store(f"{node.name}/input_scale", np.full(channels, params.scale, np.float32))
            zero = self._store(f"{node.name}/input_zero", np.full(channels, params.zero_point, np.uint8))
            proto.input[0] = self.fresh(f"{node.name}/input_real")
            self.nodes.append(_dequantize([rounded, scale, zero], proto.input[0], {"axis": 1}))
        elif self._is_moved_from_8bit(node.inputs[0]):
            bias = constant(node.inputs[2]) if len(node.inputs) > 2 else None
            if bias is None:
                bias = np.zeros(output_channels(node, weight_shape), np.float32)
            steps, scales = float_as_integers(np.asarray(bias, np.float32).reshape(-1))
            stored, scale = self._store(f"{node.name}/bias", steps), self._store(f"{node.name}/bias_scale", scales)
            real = self.fresh(f"{node.name}/bias_real")
            self.nodes.append(_dequantize([stored, scale], real, {"axis": 0}))
            del proto.input[2:]
            proto.input.append(real)

    def _is_moved_from_8bit(self, value: ir.Value | None) -> bool:
        """Whether only moving float nodes stand between an integer node's result and this value."""
        producer = value.producer() if value is not None else None
        if value is None or producer is None:
            return False
        if producer.name in self.q.integer_nodes:
            return str(value.name) in self.rounded
        row = role(producer)
        return (
            row is not None
            and row.kind is Kind.SAME
            and any(self._is_moved_from_8bit(v) for v in data_inputs(producer, row))
        )

    def _integer(self, node: ir.Node) -> None:
        row = role(node)
        assert row is not None, node.name  # integer nodes have a role by construction
        proto = ir.to_proto(node)
        for value in data_inputs(node, row):
            name = str(value.name)
            if name not in self.dequantized and (array := constant(value)) is not None:
                self._constant_operand(name, array)
        if row.kind is Kind.CLAMP and node.inputs[0] is not None and node.inputs[0].name in self.fused:
            self._fused_clamp(node, proto)
            return
        proto.input[:] = [self.dequantized.get(name, name) for name in proto.input]
        if row.kind is Kind.LINEAR:
            self._weights(node, proto)
        self._result(node, proto)

    def _result(self, node: ir.Node, proto: onnx.NodeProto) -> None:
        """The node, and a pair behind each result that is 8-bit (the last name is the model's own)."""
        pairs = []
        for i, value in enumerate(node.outputs):
            name = str(value.name)
            params = self.q.activations.get(name)
            if params is None and node.op_type in self.policy.needs_rounded_result:
                params = self.q.output_hint.get(name)
            if params is not None and name:
                raw = self.fresh(f"{name}/raw")
                proto.output[i] = raw
                pairs.append((name, raw, params))
        self.nodes.append(proto)
        for name, raw, params in pairs:
            self._pair(name, raw, name, params)

    def _fused_clamp(self, node: ir.Node, proto: onnx.NodeProto) -> None:
        """The linear node before it is already written, as float; its clamp and the rounding follow."""
        name, params = str(node.outputs[0].name), self.q.activations[str(node.outputs[0].name)]
        source = str(node.inputs[0].name)  # type: ignore[union-attr]
        raw = self.fresh(f"{name}/raw")
        if _saturation_clamps(node, params):
            if self.policy.keeps_clamps:
                proto.output[0] = raw
                self.nodes.append(proto)
                source = raw
            self._pair(name, source, name)
            return
        linear_real = self.fresh(f"{source}/real")
        self._pair(source, source, linear_real, params)
        proto.input[0], proto.output[0] = linear_real, raw
        self.nodes.append(proto)
        self._pair(name, raw, name)

    def _constant_operand(self, name: str, array: NDArray[np.generic]) -> None:
        params = self.q.activations[name]
        scale, zero = self._parameters(params)
        stored = self._store(f"{name}/8bit", params.quantize(np.asarray(array, np.float32)))
        self.dequantized[name] = self.fresh(f"{name}/real")
        self.nodes.append(
            helper.make_node("DequantizeLinear", [stored, scale, zero], [self.dequantized[name]], name=f"{stored}/dq")
        )

    def _weights(self, node: ir.Node, proto: onnx.NodeProto) -> None:
        weight = self.q.weights[str(node.name)]
        stored = self._store(f"{node.name}/weight", weight.values)
        attributes: dict[str, int] = {}
        scales: NDArray[np.float32] = weight.scales
        if weight.axis is not None:
            attributes["axis"] = weight.axis
            if len(scales) != weight.values.shape[weight.axis]:  # grouped ConvTranspose: a scale per group and channel
                groups = len(scales) // weight.values.shape[1]
                shape = (groups, weight.values.shape[1], *(1,) * (weight.values.ndim - 2))
                scales = np.broadcast_to(scales.reshape(shape), (groups, *weight.values.shape[1:]))
                attributes = {"axis": 0, "block_size": weight.values.shape[0] // groups}
        else:
            scales = scales.reshape(())
        scale = self._store(f"{node.name}/weight_scale", scales)
        zero = self._store(f"{node.name}/weight_zero", np.zeros(scales.shape, np.int8))
        proto.input[1] = self.fresh(f"{node.name}/weight_real")
        self.nodes.append(_dequantize([stored, scale, zero], proto.input[1], attributes))
        bias = self.q.biases.get(str(node.name))
        if bias is None:
            return
        stored = self._store(f"{node.name}/bias", bias)
        steps = bias_scale(self.q, node).astype(np.float32)
        per_channel = weight.axis is not None
        scale = self._store(f"{node.name}/bias_scale", steps if per_channel else steps.reshape(()))
        real = self.fresh(f"{node.name}/bias_real")
        axis = {"axis": 0} if per_channel else {}
        zero = self._store(f"{node.name}/bias_zero", np.zeros(steps.shape if per_channel else (), np.int32))
        self.nodes.append(_dequantize([stored, scale, zero], real, axis))
        del proto.input[2:]
        proto.input.append(real)


def _saturation_clamps(clamp: ir.Node, params: QParams) -> bool:
    """Whether the 8-bit result cannot leave the clamp's bounds by more than half a step."""
    lo, hi = clamp_bounds(clamp)
    return params.lo >= lo - params.scale / 2 and params.hi <= hi + params.scale / 2


def output_channels(node: ir.Node, weight_shape: tuple[int, ...]) -> int:
    """Channels of a Conv's, ConvTranspose's or (canonical) Gemm's result."""
    return weight_shape[1] * integer(node, "group", 1) if node.op_type == "ConvTranspose" else weight_shape[0]


def input_channels(node: ir.Node, weight_shape: tuple[int, ...]) -> int:
    """Size of axis 1 of what such a node reads."""
    return weight_shape[0] if node.op_type == "ConvTranspose" else weight_shape[1] * integer(node, "group", 1)


def float_as_integers(x: NDArray[np.float32]) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """Integers and powers of two whose products are `x`, bit for bit.

    >>> steps, scales = float_as_integers(np.array([0.75, -3.0], np.float32))
    >>> steps.tolist(), (steps * scales).tolist()
    ([12582912, -12582912], [0.75, -3.0])
    """
    exponent = np.maximum(np.frexp(x)[1], -125)  # at which the step is the smallest float32 of all
    return np.ldexp(x, 24 - exponent).astype(np.int32), np.ldexp(np.float32(1), exponent - 24)


def _named(tensor: TensorProto, name: str) -> TensorProto:
    tensor.name = name
    return tensor


def _all_inputs(node: onnx.NodeProto) -> list[str]:
    found = list(node.input)
    for attribute in node.attribute:
        for graph in (*([attribute.g] if attribute.type == onnx.AttributeProto.GRAPH else ()), *attribute.graphs):
            found += [o.name for o in graph.output]
            for child in graph.node:
                found += _all_inputs(child)
    return found


def _dequantize(inputs: Sequence[str], output: str, attributes: Mapping[str, int]) -> onnx.NodeProto:
    """DequantizeLinear of a stored tensor, its scale and its zero point."""
    node = helper.make_node("DequantizeLinear", inputs, [output], name=f"{output}/dq")
    node.attribute.extend(helper.make_attribute(name, value) for name, value in sorted(attributes.items()))
    return node
