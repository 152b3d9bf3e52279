"""A TFLite file being written: tensors, operators, buffers, and their bytes.

Knows the flatbuffer schema and nothing of ONNX. Bytes depend on the content alone: equal constants share one buffer,
operators and tensors that no output needs are left out, and there is no date in the file.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import ai_edge_litert.schema_py_generated as schema
import flatbuffers
import numpy as np
from numpy.typing import NDArray

from edgekit.compile.tflite.versions import Signature, version
from edgekit.quantize.quantized import QParams

FREE: Final = -1
SCHEMA_VERSION: Final = 3
MIN_RUNTIME: Final = "2.14.0"
DTYPES: Final = {
    "float32": schema.TensorType.FLOAT32,
    "float16": schema.TensorType.FLOAT16,
    "float64": schema.TensorType.FLOAT64,
    "int8": schema.TensorType.INT8,
    "uint8": schema.TensorType.UINT8,
    "int16": schema.TensorType.INT16,
    "uint16": schema.TensorType.UINT16,
    "int32": schema.TensorType.INT32,
    "uint32": schema.TensorType.UINT32,
    "int64": schema.TensorType.INT64,
    "bool": schema.TensorType.BOOL,
}
_ALIGNMENT: Final = 16  # kernels read constants with vector loads
_OLD_CODES: Final = 127  # operator codes above live in `builtinCode` only


@dataclass(frozen=True, slots=True)
class AxisScales:
    """One scale per slice of an axis, zero point 0: weights and their biases."""

    scales: NDArray[np.float32]
    axis: int


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor of the file. A free size in `shape` is `FREE`. `q`: parameters of an int8 tensor (unsigned domain)."""

    index: int
    shape: tuple[int, ...]
    dtype: str
    q: QParams | None = None
    axis_scales: AxisScales | None = None
    name: str = ""


@dataclass(frozen=True, slots=True)
class Operator:
    """One operator: `inputs` may hold None for an optional input that is absent."""

    op: str
    inputs: tuple[Tensor | None, ...]
    outputs: tuple[Tensor, ...]
    options: object | None


class _AlignedBuffer(schema.BufferT):  # type: ignore[misc]
    """A buffer whose bytes start on a multiple of 16, as the schema demands and the generated code does not do."""

    def Pack(self, builder: flatbuffers.Builder) -> int:
        offset = None
        if self.data is not None and len(self.data):
            builder.StartVector(1, len(self.data), _ALIGNMENT)
            builder.head -= len(self.data)
            builder.Bytes[builder.head : builder.head + len(self.data)] = self.data
            offset = builder.EndVector()
        schema.BufferStart(builder)
        if offset is not None:
            schema.BufferAddData(builder, offset)
        return int(schema.BufferEnd(builder))


class FlatFile:
    """Collects tensors and operators in execution order; `finish` gives the bytes."""

    def __init__(self) -> None:
        self.tensors: list[Tensor] = []
        self.operators: list[Operator] = []
        self._constants: dict[int, bytes] = {}
        self._known: dict[tuple[object, ...], Tensor] = {}
        self._names: dict[str, int] = {}
        self._reshapes: dict[tuple[int, tuple[int, ...]], Tensor] = {}
        self._origins: dict[int, Tensor] = {}

    def tensor(self, name: str, shape: Sequence[int], dtype: str, q: QParams | None = None) -> Tensor:
        """A computed tensor. A name that is taken gets a number."""
        return self._add(Tensor(len(self.tensors), tuple(shape), dtype, q, None, self._unique(name)))

    def constant(
        self, name: str, array: NDArray[np.generic], q: QParams | None = None, axis_scales: AxisScales | None = None
    ) -> Tensor:
        """A constant tensor; the same content with the same parameters is one tensor."""
        array = np.asarray(array, order="C")
        data = array.tobytes()
        scales = (axis_scales.scales.tobytes(), axis_scales.axis) if axis_scales is not None else None
        key = (hashlib.sha256(data).digest(), array.shape, array.dtype.name, q, scales)
        if key not in self._known:
            made = Tensor(len(self.tensors), array.shape, array.dtype.name, q, axis_scales, self._unique(name))
            self._known[key] = self._add(made)
            self._constants[made.index] = data
        return self._known[key]

    def is_constant(self, tensor: Tensor) -> bool:
        """Whether the tensor's content is in the file."""
        return tensor.index in self._constants

    def rename(self, tensor: Tensor, name: str) -> Tensor:
        """The same tensor under another name, which `reserve` has kept for it."""
        self.tensors[tensor.index] = replace(self.tensors[tensor.index], name=name)
        return self.tensors[tensor.index]

    def reserve(self, names: Sequence[str]) -> None:
        """Keep these names for `tensor` calls that come with `rename`: the model's own inputs and outputs."""
        self._names.update({f"{n}": 1 for n in names})

    def operator(
        self, op: str, inputs: Sequence[Tensor | None], outputs: Sequence[Tensor], options: object | None = None
    ) -> None:
        """Append an operator."""
        self.operators.append(Operator(op, tuple(inputs), tuple(outputs), options))

    def reshaped(self, source: Tensor, shape: Sequence[int], name: str) -> Tensor:
        """The same elements in a shape with at most one free size; what is there already costs nothing.

        A reshape of a reshape goes back to the first tensor: LiteRT 2.3 shares memory along such chains and then lets
        an elementwise kernel write over a tensor that is still to be read.
        """
        source = self._origins.get(source.index, source)
        if source.shape == tuple(shape):
            return source
        key = (source.index, tuple(shape))
        if key not in self._reshapes:
            made = self.tensor(name, shape, source.dtype, source.q)
            target = self.constant("shape", np.asarray(shape, np.int32))
            self.operator("RESHAPE", [source, target], [made], schema.ReshapeOptionsT(list(shape)))
            self._reshapes[key] = made
            self._origins[made.index] = source
        return self._reshapes[key]

    def finish(
        self, inputs: Mapping[str, Tensor], outputs: Mapping[str, Tensor], first: Mapping[int, Sequence[int]]
    ) -> bytes:
        """The file. Keys are the names in the signature; `first`: shape of an input until the caller resizes it."""
        operators = self._needed({t.index for t in outputs.values()})
        used = {t.index for t in (*inputs.values(), *outputs.values())}
        used |= {t.index for o in operators for t in (*o.inputs, *o.outputs) if t is not None}
        kept = [t for t in self.tensors if t.index in used]
        place = {t.index: i for i, t in enumerate(kept)}

        model = schema.ModelT(version=SCHEMA_VERSION, description="edgekit")
        buffers: dict[bytes, int] = {}
        model.buffers = [_AlignedBuffer()]  # buffer 0 is empty by convention

        def buffer(data: bytes) -> int:
            if data not in buffers:
                buffers[data] = len(model.buffers)
                model.buffers.append(_AlignedBuffer(data=data))
            return buffers[data]

        tensors = [
            self._packed(t, buffer(self._constants[t.index]) if t.index in self._constants else 0, first.get(t.index))
            for t in kept
        ]
        codes: dict[tuple[str, int], int] = {}
        model.operatorCodes = []
        packed = []
        for operator in operators:
            key = (operator.op, _version(operator))
            if key not in codes:
                codes[key] = len(codes)
                code = getattr(schema.BuiltinOperator, operator.op)
                model.operatorCodes.append(
                    schema.OperatorCodeT(min(code, _OLD_CODES), version=key[1], builtinCode=code)
                )
            made = schema.OperatorT(opcodeIndex=codes[key])
            made.inputs = [place[t.index] if t is not None else -1 for t in operator.inputs]
            made.outputs = [place[t.index] for t in operator.outputs]
            if operator.options is not None:
                made.builtinOptionsType = getattr(
                    schema.BuiltinOptions, type(operator.options).__name__.removesuffix("T")
                )
                made.builtinOptions = operator.options
            packed.append(made)
        into = [place[t.index] for t in inputs.values()]
        out_of = [place[t.index] for t in outputs.values()]
        model.subgraphs = [schema.SubGraphT(tensors, into, out_of, packed, "main")]
        model.signatureDefs = [
            schema.SignatureDefT(
                [schema.TensorMapT(n, i) for n, i in zip(inputs, into, strict=True)],
                [schema.TensorMapT(n, i) for n, i in zip(outputs, out_of, strict=True)],
                "serving_default",
            )
        ]
        model.metadata = [schema.MetadataT("min_runtime_version", buffer(MIN_RUNTIME.encode().ljust(16, b"\0")))]
        builder = flatbuffers.Builder(sum(map(len, buffers)) + 1024 * (len(kept) + 8))
        builder.Finish(model.Pack(builder), b"TFL3")
        return bytes(builder.Output())

    def _add(self, tensor: Tensor) -> Tensor:
        self.tensors.append(tensor)
        return tensor

    def _unique(self, name: str) -> str:
        seen = self._names.get(name, 0)
        self._names[name] = seen + 1
        return name if not seen else self._unique(f"{name}.{seen}")

    def _needed(self, wanted: set[int]) -> list[Operator]:
        kept, wanted = [], set(wanted)
        for operator in reversed(self.operators):
            if any(t.index in wanted for t in operator.outputs):
                kept.append(operator)
                wanted |= {t.index for t in operator.inputs if t is not None}
        return kept[::-1]

    def _packed(self, tensor: Tensor, buffer: int, first: Sequence[int] | None) -> schema.TensorT:
        tensor = self.tensors[tensor.index]
        shape = list(first or (1 if d == FREE else d for d in tensor.shape))
        made = schema.TensorT(shape, DTYPES[tensor.dtype], buffer, tensor.name, hasRank=True)
        if FREE in tensor.shape:
            made.shapeSignature = list(tensor.shape)
        made.quantization = _quantization(tensor)
        return made


def _quantization(tensor: Tensor) -> schema.QuantizationParametersT | None:
    if tensor.axis_scales is not None:
        scales = np.asarray(tensor.axis_scales.scales, np.float32)
        zeros = np.zeros(len(scales), np.int64)
        return schema.QuantizationParametersT(scale=scales, zeroPoint=zeros, quantizedDimension=tensor.axis_scales.axis)
    if tensor.q is None:
        return None
    zero_point = tensor.q.zero_point - 128  # the file's domain is signed
    return schema.QuantizationParametersT(
        scale=np.array([tensor.q.scale], np.float32), zeroPoint=np.array([zero_point], np.int64)
    )


def _version(operator: Operator) -> int:
    inputs = operator.inputs
    present = [t for t in inputs if t is not None]
    output = operator.outputs[0]
    grows = False
    if operator.op == "MUL" and output.q is not None and all(t.q is not None for t in present):
        product = np.prod([t.q.scale for t in present if t.q is not None])
        grows = bool(product / output.q.scale >= 1.0)
    return version(
        operator.op,
        Signature(
            dtypes=[t.dtype if t is not None else "none" for t in inputs],
            ranks=[len(t.shape) if t is not None else 0 for t in inputs],
            output=output.dtype,
            options=operator.options,
            broadcasts=len(present) > 1 and present[0].shape != present[1].shape,
            grows=grows,
            grouped=operator.op == "CONV_2D" and present[0].shape[3] != present[1].shape[3],
            axis_scales=present[0].axis_scales is not None if present else False,
        ),
    )
