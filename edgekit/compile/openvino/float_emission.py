"""ONNX to OpenVINO IR whose bytes depend on the graph only.

OpenVINO names layers by counters of the process and keeps notes about the conversion; `canonical_ir` takes both out:
a layer keeps a name that the model gave, every other is called by its type and id.
"""

import re
import tempfile
import xml.etree.ElementTree as ElementTree
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any, Final

import onnx
import onnx_ir as ir
import openvino

from edgekit.compile.onnxruntime.float_emission import ports_of, serialized
from edgekit.compile.openvino.checks import conversion_refusals, known_refusals
from edgekit.compile.openvino.cures import cure
from edgekit.compile.target import Emitted
from edgekit.core.errors import RuntimeRefuses

XML: Final = "model.xml"
BIN: Final = "model.bin"
_NOTES: Final = frozenset({"fused_names", "original_fused_names"})  # where a layer came from; nothing reads it
_PART: Final = "/WithoutBiases"  # the convolution or product of a node that becomes two layers
_SEPARATOR: Final = re.compile(r"(?<!\\),")  # between the names of a tensor; a comma inside a name is escaped


def emit_float(model: ir.Model) -> Emitted:
    """`model.xml` and `model.bin` with float32 weights. Raises `RuntimeRefuses`."""
    refused = known_refusals(model)
    if refused:
        raise RuntimeRefuses(refused)
    inputs, outputs = ports_of(model)
    return Emitted(ir_from_onnx(serialized(model)), inputs, outputs)


def ir_from_onnx(content: bytes) -> dict[str, bytes]:
    """The two files of an ONNX model, inputs and outputs in its order. Raises `RuntimeRefuses` naming the operator."""
    proto = onnx.ModelProto.FromString(content)
    cure(proto)
    kept = {node.name for node in proto.graph.node if node.name}
    kept |= {each.name for each in (*proto.graph.input, *proto.graph.output)}
    try:
        converted = openvino.Core().read_model(proto.SerializeToString(deterministic=True), b"")
    except RuntimeError as error:
        nodes = [(node.name, node.op_type) for node in proto.graph.node]
        raise RuntimeRefuses(conversion_refusals(nodes, str(error))) from error
    xml, weights = canonical_ir(converted, kept)
    return {XML: xml, BIN: weights}


def canonical_ir(model: Any, kept: Collection[str] = ()) -> tuple[bytes, bytes]:  # noqa: ANN401  (no types)
    """XML and weights of an `openvino.Model`; `kept` are the layer and tensor names that are the user's own."""
    with tempfile.TemporaryDirectory(prefix="edgekit-openvino-") as folder:
        path = Path(folder) / XML
        openvino.save_model(model, path, compress_to_fp16=False)
        root = ElementTree.fromstring(path.read_bytes())
        weights = path.with_suffix(".bin").read_bytes()
    root.set("name", "model")
    for notes in root.findall("rt_info"):
        root.remove(notes)
    own = frozenset(kept)
    for layers in _layer_lists(root):
        _rename(layers, own)
    xml: bytes = ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)
    return xml, weights


def _layer_lists(root: ElementTree.Element) -> Iterator[ElementTree.Element]:
    """The graph's list of layers and those of its subgraphs."""
    yield from root.iter("layers")


def _rename(layers: ElementTree.Element, kept: Collection[str]) -> None:
    taken: set[str] = set()
    for layer in layers.findall("layer"):
        name = layer.get("name", "")
        if name.removesuffix(_PART) not in kept or name in taken:
            name = f"{layer.get('type')}_{layer.get('id')}"
        while name in taken:
            name += "_"
        taken.add(name)
        layer.set("name", name)
        for notes in layer.findall("rt_info"):
            for note in list(notes):
                if note.get("name") in _NOTES:
                    notes.remove(note)
        for port in layer.iter("port"):
            _keep_names(port, kept)


def _keep_names(port: ElementTree.Element, kept: Collection[str]) -> None:
    """A tensor has a set of names, in no order; the user's own are kept, sorted."""
    names = port.attrib.pop("names", None)
    if names is None:
        return
    own = sorted(name for name in _SEPARATOR.split(names) if name.replace("\\,", ",") in kept)
    if own:
        port.set("names", ",".join(own))
