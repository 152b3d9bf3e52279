"""A node being emitted: what an emitter of the operator table sees and may do.

An emitter reads inputs, declares outputs and writes operators; the same emitter serves float and 8-bit, since tensors
carry their parameters. Fusion, rounding of outputs and requantization happen in `finish`, the same for all.
"""

from collections.abc import Sequence

import ai_edge_litert.schema_py_generated as schema
import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from edgekit.compile.tflite.axes import Axes, arranged
from edgekit.compile.tflite.dims import Dim, dims
from edgekit.compile.tflite.flatfile import FREE, AxisScales, FlatFile, Tensor
from edgekit.compile.tflite.forms import Form, Forms, convert
from edgekit.compile.tflite.plan import INF, Clamp, Mode, Step, out_params
from edgekit.quantize.canonical import constant
from edgekit.quantize.quantized import QParams, QuantizedModel, QWeight
from edgekit.quantize.simulate import real_weight

Shape = Sequence[int]


class Site:
    """One node. `frame` is the order of axes that `layout` chose for it."""

    def __init__(self, step: Step, forms: Forms, quantized: QuantizedModel | None) -> None:
        self.step, self.forms, self.quantized = step, forms, quantized
        self.node: ir.Node = step.node
        self.frame: Axes = step.frame
        self.file: FlatFile = forms.file
        self._made: dict[int, Tensor] = {}
        self._fused = False

    @property
    def is_integer(self) -> bool:
        """Whether tensors are 8-bit here."""
        return self.step.mode is Mode.INTEGER

    # Reading

    def x(self, index: int = 0, *, accepted: Sequence[Axes] | None = None) -> Tensor:
        """Input `index` as the layout has settled it."""
        return self.held(index, accepted=accepted).tensor

    def held(self, index: int, *, accepted: Sequence[Axes] | None = None) -> Form:
        """Input `index` and the order that it is held in, where several are accepted."""
        value = self.node.inputs[index]
        assert value is not None
        orders = accepted or self.step.view.inputs[index]
        assert orders is not None
        q = self._params(value)
        if q is None or self.is_integer:
            return self.forms.get(value, orders, q)
        return self.forms.rounded(value, orders, q)

    def _params(self, value: ir.Value) -> QParams | None:
        """8-bit parameters that an integer node reads the value with; None: it is read as it is."""
        if self.quantized is None or value.dtype != ir.DataType.FLOAT or self.step.mode is Mode.FLOAT:
            return None
        return self.quantized.activations.get(str(value.name))

    def dims(self, index: int = 0) -> tuple[Dim, ...]:
        """Shape of input `index`, in the model's order."""
        return dims(self.node.inputs[index])

    def constant(self, index: int) -> NDArray[np.generic] | None:
        """The array of input `index`, in the model's order; None where absent or computed."""
        return constant(self.node.inputs[index]) if index < len(self.node.inputs) else None

    def real_constant(self, index: int) -> NDArray[np.float32]:
        """A constant float input as this node computes with it: rounded where the node is an integer one."""
        value, array = self.node.inputs[index], self.constant(index)
        assert value is not None
        assert array is not None
        real = np.asarray(array, np.float32)
        q = self._params(value)
        return real if q is None else q.dequantize(q.quantize(real))

    def weight(self) -> tuple[NDArray[np.generic], NDArray[np.float32] | None]:
        """Input 1 of a linear node as this node computes with it: int8 values and scales, or float values and None."""
        found = self._weight()
        if found is None:
            array = self.constant(1)
            assert array is not None
            return array, None
        if self.is_integer:
            return found.values, np.asarray(found.scales, np.float32).reshape(-1)
        return real_weight(self.node, found), None

    def bias(self, channels: int, index: int = 2) -> tuple[NDArray[np.generic] | None, NDArray[np.float32] | None]:
        """Bias of `channels` values as int32 with its scales, or float; None: zero."""
        found = self._weight()
        if found is None or self.quantized is None:
            return self.constant(index), None
        source = self.node.inputs[0]
        assert source is not None
        params = self.quantized.activations.get(str(source.name))
        if params is None:  # no input scale, so no integers for the bias either
            return self.constant(index), None
        input_scale = np.float32(params.scale)
        scales = np.broadcast_to(input_scale * np.asarray(found.scales, np.float32).reshape(-1), (channels,))
        bias = self.quantized.biases.get(str(self.node.name))
        if self.is_integer:
            return (np.zeros(channels, np.int32) if bias is None else bias.reshape(-1)), np.array(scales, np.float32)
        return (None if bias is None else (bias.reshape(-1) * scales.astype(np.float64)).astype(np.float32)), None

    def _weight(self) -> QWeight | None:
        if self.quantized is None or self.step.mode is Mode.FLOAT:
            return None
        return self.quantized.weights.get(str(self.node.name))

    # Writing

    def y(self, index: int = 0, *, q: QParams | None = None) -> Tensor:
        """Output `index`, to be written by an operator. `q`: parameters that the kernel imposes (as its input's)."""
        value = self.step.result(index)
        is_rounded = self.is_integer and value.dtype == ir.DataType.FLOAT
        params = (q or self._out(index)) if is_rounded else None
        self._made[index] = self.forms.declare(value, self.step.view.outputs[index], params)
        return self._made[index]

    def give(self, tensor: Tensor, index: int = 0) -> None:
        """Output `index` is a tensor that is there already."""
        self._made[index] = tensor

    def out_shape(self, index: int = 0) -> tuple[int, ...]:
        """File shape of output `index`, free sizes as `FREE`."""
        sizes = [d if isinstance(d, int) else FREE for d in dims(self.step.result(index))]
        return arranged(sizes, self.step.view.outputs[index])

    def temp(
        self, shape: Shape, like: Tensor | None = None, *, dtype: str = "float32", q: QParams | None = None
    ) -> Tensor:
        """A tensor between two operators of this node, with the type and parameters of `like`, or those given."""
        dtype, q = (like.dtype, like.q) if like is not None else (dtype, q)
        return self.file.tensor(f"{self.step.result(0).name}/part", shape, dtype, q)

    def const(
        self,
        array: NDArray[np.generic],
        what: str = "constant",
        q: QParams | None = None,
        axis_scales: AxisScales | None = None,
    ) -> Tensor:
        """A constant of this node. An array for `q` is given as the signed integers themselves."""
        return self.file.constant(f"{self.node.name}/{what}", array, q, axis_scales)

    def ints(self, values: object, what: str) -> Tensor:
        """An int32 constant: a number, a list or nested lists."""
        return self.const(np.asarray(values, np.int32), what)

    def number(self, value: float) -> Tensor:
        """A float32 scalar."""
        return self.const(np.asarray(value, np.float32), "number")

    def op(
        self,
        name: str,
        inputs: Sequence[Tensor | None],
        output: Tensor | Sequence[Tensor],
        options: object | None = None,
    ) -> Tensor:
        """Write an operator; the first output is returned."""
        outputs = [output] if isinstance(output, Tensor) else list(output)
        self.file.operator(name, inputs, outputs, options)
        return outputs[0]

    def reshape(self, source: Tensor, shape: Shape) -> Tensor:
        """The same elements in a shape with at most one free size."""
        return self.file.reshaped(source, shape, f"{self.step.result(0).name}/part")

    def activation(self) -> int:
        """The fused activation code for the operator that writes output 0."""
        clamp = self.step.clamp
        if clamp is None or clamp.code is None or not self.step.row.fuses:
            return int(schema.ActivationFunctionType.NONE)
        self._fused = True
        return clamp.code

    def finish(self) -> None:
        """Clamp what was not fused, round to the parameters that the solver gave, register the outputs."""
        for index, made in sorted(self._made.items()):
            value, axes = self.step.result(index), self.step.view.outputs[index]
            if index == 0 and self.step.clamp is not None and not self._fused:
                made = self.clamped(made, self.step.clamp)
            wanted = self._out(index) if value.dtype == ir.DataType.FLOAT else None
            if wanted is not None and made.q != wanted and self.step.mode is not Mode.FLOAT:
                rounded = self.forms.declare(value, axes, wanted)
                convert(self.file, made, rounded)
                made = rounded
            self.forms.put(value, Form(axes, made))

    def _out(self, index: int) -> QParams | None:
        return None if self.quantized is None else out_params(self.step, index, self.quantized)

    def clamped(self, made: Tensor, clamp: Clamp) -> Tensor:
        """The tensor within the bounds; 8-bit bounds are rounded, those that saturation gives cost nothing."""
        q = made.q
        if q is None:
            bounds = (("MAXIMUM", clamp.lo, clamp.lo > -INF), ("MINIMUM", clamp.hi, clamp.hi < INF))
            arrays = [(op, np.asarray(b, np.float32)) for op, b, on in bounds if on]
        else:
            first, last = clamp.first(q), clamp.last(q)
            arrays = [
                (op, np.asarray(b - 128, np.int8))
                for op, b, on in (("MAXIMUM", first, first > 0), ("MINIMUM", last, last < 255))
                if on
            ]
        for op, bound in arrays:
            made = self.op(
                op,
                [made, self.const(np.asarray(bound), "bound", q)],
                self.temp(made.shape, made),
                schema.MaximumMinimumOptionsT(),
            )
        return made
