"""The forms of one value of the model in the file: orders of axes, float or 8-bit.

A producer writes one form. A reader asks for what it needs and gets an existing form, or one made on the spot
(TRANSPOSE, RESHAPE where only sizes of 1 move, QUANTIZE, DEQUANTIZE) and kept for the next reader.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import ai_edge_litert.schema_py_generated as schema
import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from edgekit.compile.tflite.axes import Axes, arranged, as_is, permutation, same_memory
from edgekit.compile.tflite.dims import dims, static
from edgekit.compile.tflite.flatfile import FREE, FlatFile, Tensor
from edgekit.compile.tflite.lowering import dtype_of
from edgekit.core.errors import Unsupported
from edgekit.quantize.canonical import constant
from edgekit.quantize.quantized import QParams


@dataclass(frozen=True, slots=True)
class Form:
    """A tensor that holds a value in some order of axes."""

    axes: Axes
    tensor: Tensor


class Forms:
    """All forms of all values of one graph."""

    def __init__(self, file: FlatFile) -> None:
        self.file = file
        self._forms: dict[str, list[Form]] = {}

    def of(self, value: ir.Value) -> Sequence[Form]:
        """The forms made so far, the producer's first."""
        return self._forms.get(str(value.name), ())

    def put(self, value: ir.Value, form: Form) -> None:
        """Register the producer's form."""
        self._forms.setdefault(str(value.name), []).append(form)

    def declare(self, value: ir.Value, axes: Axes, q: QParams | None) -> Tensor:
        """A new tensor with the shape of the value in that order, not yet registered."""
        dtype = "int8" if q is not None else dtype_of(value)
        return self.file.tensor(str(value.name), arranged(static(dims(value)), axes), dtype, q)

    def get(self, value: ir.Value, accepted: Sequence[Axes], q: QParams | None) -> Form:
        """The value in one of the accepted orders, the first preferred: 8-bit at `q`, or in its own type."""
        array = constant(value)
        if array is not None:
            return Form(accepted[0], self.file.constant(str(value.name), _held(array, accepted[0], q), q))
        forms = self._forms.get(str(value.name))
        if not forms:
            raise Unsupported(f"'{value.name}'", "nothing computes it", "check the model with onnx.checker")
        alike = [f for f in forms if f.tensor.q == q]
        for axes in accepted:
            for form in alike:
                if form.axes == axes:
                    return form
        if alike:
            return self._reordered(value, alike[0], accepted)
        source = next((f for axes in accepted for f in forms if f.axes == axes), forms[0])
        if source.tensor.q is not None and source.axes not in accepted:  # move bytes, not floats
            source = self._reordered(value, source, accepted)
        converted = self._converted(value, source, q)
        return converted if converted.axes in accepted else self._reordered(value, converted, accepted)

    def rounded(self, value: ir.Value, accepted: Sequence[Axes], q: QParams) -> Form:
        """The value in float after rounding to `q`: what a float kernel of an integer node reads."""
        array = constant(value)
        if array is not None:
            real = q.dequantize(q.quantize(np.asarray(array, np.float32)))
            return Form(accepted[0], self.file.constant(str(value.name), _held(real, accepted[0], None)))
        forms = self._forms.get(str(value.name))
        if forms and forms[0].tensor.q == q:
            return self.get(value, accepted, None)
        coarse = self.get(value, accepted, q)
        made = self.file.tensor(str(value.name), coarse.tensor.shape, dtype_of(value))
        convert(self.file, coarse.tensor, made)
        return Form(coarse.axes, made)

    def _keep(self, value: ir.Value, form: Form) -> Form:
        self._forms[str(value.name)].append(form)
        return form

    def _reordered(self, value: ir.Value, source: Form, accepted: Sequence[Axes]) -> Form:
        shape = static(dims(value))
        wanted = next((a for a in accepted if same_memory(shape, source.axes, a)), accepted[0])
        held = arranged(shape, wanted)
        if same_memory(shape, source.axes, wanted) and held.count(FREE) <= 1:
            return self._keep(value, Form(wanted, self.file.reshaped(source.tensor, held, str(value.name))))
        made = self.file.tensor(str(value.name), held, source.tensor.dtype, source.tensor.q)
        perm = self.file.constant("perm", np.asarray(permutation(source.axes, wanted), np.int32))
        self.file.operator("TRANSPOSE", [source.tensor, perm], [made], schema.TransposeOptionsT())
        return self._keep(value, Form(wanted, made))

    def _converted(self, value: ir.Value, source: Form, q: QParams | None) -> Form:
        dtype = "int8" if q is not None else dtype_of(value)
        made = self.file.tensor(str(value.name), source.tensor.shape, dtype, q)
        convert(self.file, source.tensor, made)
        return self._keep(value, Form(source.axes, made))


def convert(file: FlatFile, source: Tensor, made: Tensor) -> None:
    """Between float and 8-bit, or between 8-bit parameters."""
    if made.q is None:
        file.operator("DEQUANTIZE", [source], [made], schema.DequantizeOptionsT())
    else:
        file.operator("QUANTIZE", [source], [made], schema.QuantizeOptionsT())


def signed(q: QParams, x: NDArray[np.generic]) -> NDArray[np.int8]:
    """Real values as the file's signed 8-bit integers."""
    return (q.quantize(np.asarray(x, np.float32)).astype(np.int16) - 128).astype(np.int8)


def _held(array: NDArray[np.generic], axes: Axes, q: QParams | None) -> NDArray[np.generic]:
    held = array.transpose(axes) if axes != as_is(array.ndim) else array
    return signed(q, held) if q is not None else held
