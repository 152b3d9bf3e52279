"""Attributes that say what is so without them are dropped, so that one meaning has one form."""

from typing import Final

import onnx
import onnx_ir as ir

from edgekit.build.rewrite.matching import nodes
from edgekit.quantize.canonical import CANONICAL_OPSET

_KEPT: Final = frozenset({"group"})  # windows are spelt in full


def drop_default_attributes(model: ir.Model) -> bool:
    """True where the graph changed."""
    changed = False
    for node in nodes(model):
        schema = onnx.defs.get_schema(node.op_type, CANONICAL_OPSET, "")
        for name, attribute in tuple(node.attributes.items()):
            default = schema.attributes[name].default_value if name in schema.attributes else None
            if default is None or default.type == onnx.AttributeProto.UNDEFINED or name in _KEPT:
                continue
            if _same(attribute.value, onnx.helper.get_attribute_value(default)):
                del node.attributes[name]
                changed = True
    return changed


def _same(value: object, default: object) -> bool:
    return (value.encode() if isinstance(value, str) else value) == default
