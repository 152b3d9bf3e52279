"""Bytes of an ONNX file and its external data, all in memory; refuses what is no ONNX model.

Nothing here looks at what the graph means. Nothing is ever written. External data is read from inside the model's own
folder only: a model is data from elsewhere and must not name other files of this machine.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Final

import onnx
import onnx_ir as ir
from google.protobuf.descriptor import FieldDescriptor  # type: ignore[import-untyped]
from google.protobuf.message import DecodeError, Message  # type: ignore[import-untyped]

from edgekit.core.errors import BadInput, Unsupported
from edgekit.core.files import input_fault, read_input

REMEDY: Final = "give the .onnx file as it was exported"
_TEXT_PROBE: Final = 512
_PRINTABLE: Final = 0.97
_TEXT_OR_MESSAGE: Final = (FieldDescriptor.TYPE_STRING, FieldDescriptor.TYPE_MESSAGE)
_TYPED: Final = ("float_data", "int32_data", "int64_data", "double_data", "uint64_data")
_COMPLEX: Final = (onnx.TensorProto.COMPLEX64, onnx.TensorProto.COMPLEX128)  # two numbers each


@dataclass(frozen=True, slots=True)
class OnnxFile:
    """A model in memory; `sha256` is of the file's bytes and each external tensor's, in the file's order."""

    proto: onnx.ModelProto
    sha256: str


def read_onnx(path: Path) -> OnnxFile:
    """The model in a file, weights included.

    Raises `BadInput` where it is missing, empty, text, truncated, without a graph, or where external data is missing,
    too short, or outside the model's folder; `Unsupported` for an IR version to come; `EnvironmentFault` where a file
    cannot be read.
    """
    raw = read_input(path)
    proto = parse(raw, str(path))
    digest = hashlib.sha256(raw)
    for tensor in tensors(proto):
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            content = _external(tensor, path)
            digest.update(content)
            tensor.raw_data = content
            tensor.ClearField("external_data")
            tensor.data_location = onnx.TensorProto.DEFAULT
        _check_size(tensor, path)
    return OnnxFile(proto, digest.hexdigest())


def parse(raw: bytes, label: str) -> onnx.ModelProto:
    """Raw bytes as a model with a graph. Raises `BadInput`, `Unsupported`."""
    if not raw:
        raise BadInput(label, "an empty file, not an ONNX model", REMEDY)
    proto = onnx.ModelProto()
    try:
        proto.ParseFromString(raw)
    except DecodeError as error:
        if _is_text(raw):
            raise BadInput(label, "a text file, not an ONNX model", REMEDY) from None
        raise BadInput(label, f"not an ONNX model, or cut short ({error})", REMEDY) from None
    if not proto.HasField("graph") or not (proto.graph.node or proto.graph.output):
        why = "a text file, not an ONNX model" if _is_text(raw) else "holds no ONNX graph"
        raise BadInput(label, why, REMEDY)
    if proto.ir_version > onnx.IR_VERSION:
        why = f"IR version {proto.ir_version} is newer than {onnx.IR_VERSION}, the newest that is read"
        raise Unsupported(label, why, f"export with IR version {onnx.IR_VERSION} or older, or pip install -U onnx")
    _check_texts(proto, label)
    if not proto.opset_import:
        raise BadInput(label, "names no opset: cut short, or not a whole ONNX model", REMEDY)
    return proto


def _check_texts(message: Message, label: str) -> None:
    """Names are UTF-8: protobuf gives those that are not as bytes, which nothing behind it takes."""
    for field, content in message.ListFields():
        if field.type not in _TEXT_OR_MESSAGE:
            continue
        for each in (content,) if isinstance(content, str | bytes | Message) else content:
            if isinstance(each, bytes):
                raise BadInput(label, f"damaged: a {field.name} is no UTF-8 text", REMEDY)
            if isinstance(each, Message):
                _check_texts(each, label)


def tensors(proto: onnx.ModelProto) -> Iterator[onnx.TensorProto]:
    """Every tensor: initializers and attributes, in subgraphs and local functions too, in the file's order."""
    yield from _of_graph(proto.graph)
    for function in proto.functions:
        yield from _of_nodes(function.node)


def _of_graph(graph: onnx.GraphProto) -> Iterator[onnx.TensorProto]:
    yield from graph.initializer
    for sparse in graph.sparse_initializer:
        yield from (sparse.values, sparse.indices)
    yield from _of_nodes(graph.node)


def _of_nodes(nodes: object) -> Iterator[onnx.TensorProto]:
    for node in nodes:  # type: ignore[attr-defined]
        for attribute in node.attribute:
            if attribute.HasField("t"):
                yield attribute.t
            yield from attribute.tensors
            for graph in (*([attribute.g] if attribute.HasField("g") else ()), *attribute.graphs):
                yield from _of_graph(graph)


def _external(tensor: onnx.TensorProto, model: Path) -> bytes:
    """The bytes that a tensor names. Raises `BadInput` naming the tensor and the file."""
    entries = {entry.key: entry.value for entry in tensor.external_data}
    location = entries.get("location", "")
    subject = f"external data '{location}' of tensor '{tensor.name}'"
    file = _inside(model, location, subject)
    try:
        offset = int(entries.get("offset") or 0)
        wanted = int(entries["length"]) if entries.get("length") else _expected_size(tensor)
        if offset < 0 or (wanted or 0) < 0:
            raise ValueError
    except ValueError:
        raise BadInput(subject, "offset or length is no whole number of bytes", "export the model again") from None
    try:
        with open(file, "rb") as stream:
            stream.seek(offset)
            content = stream.read(-1 if wanted is None else wanted)
    except FileNotFoundError:
        raise BadInput(
            subject, f"no such file beside {model.name}", "copy the data file along with the model"
        ) from None
    except OSError as error:
        raise input_fault(file, error) from error
    if wanted is not None and len(content) != wanted:
        why = f"{wanted} bytes are wanted at {offset} and {len(content)} are there"
        raise BadInput(subject, why, "copy the data file again: it is cut short, or of another model")
    return content


def _inside(model: Path, location: str, subject: str) -> Path:
    """The real path of a location; raises `BadInput` where links and dots lead out of the model's folder."""
    folder = model.parent.resolve()
    try:
        file = (folder / location).resolve()
    except (OSError, ValueError, RuntimeError) as error:  # a loop of links, a NUL
        raise BadInput(subject, f"no usable path: {error}", "export the model again") from None
    if not location or Path(location).is_absolute() or "\\" in location or not file.is_relative_to(folder):
        raise BadInput(subject, "lies outside the model's own folder", "put the data file itself beside the model")
    return file


def _expected_size(tensor: onnx.TensorProto) -> int | None:
    """Bytes that dims and dtype ask for; None for strings, whose size is free."""
    try:
        kind = ir.DataType(tensor.data_type)
    except ValueError:
        kind = ir.DataType.UNDEFINED
    if kind is ir.DataType.UNDEFINED or any(dim < 0 for dim in tensor.dims):
        raise BadInput(f"tensor '{tensor.name}'", "has no element type, or a size below zero", "export the model again")
    if kind is ir.DataType.STRING:
        return None
    bits = round(8 * kind.itemsize)
    return -(-int(prod(tensor.dims)) * bits // 8)


def _check_size(tensor: onnx.TensorProto, path: Path) -> None:
    expected = _expected_size(tensor)
    if expected is None:
        return
    if tensor.HasField("raw_data"):
        found, unit = len(tensor.raw_data), "bytes"
    else:
        found, unit = sum(len(getattr(tensor, name)) for name in _TYPED), "numbers"
        expected = int(prod(tensor.dims))
        packed = ir.DataType(tensor.data_type).itemsize < 1
        halves = 2 if tensor.data_type in _COMPLEX else 1
        if packed or found == expected * halves:
            return
    if found != expected:
        why = f"tensor '{tensor.name}' holds {found} {unit} where its shape asks for {expected}"
        raise BadInput(str(path), why, "export the model again")


def _is_text(raw: bytes) -> bool:
    probe = raw[:_TEXT_PROBE]
    return sum(32 <= byte < 127 or byte in b"\t\r\n" for byte in probe) >= _PRINTABLE * len(probe)
