"""What OpenVINO's CPU plugin cannot take, or computes wrongly without a word.

Known wrongs are found in the graph; everything else by compiling it in a process of its own.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import onnx_ir as ir

from edgekit.compile.onnxruntime.float_emission import serialized
from edgekit.compile.openvino.trial import compiled_apart
from edgekit.core.errors import Refusal

NAME: Final = "openvino"
WHOLE: Final = "the whole graph"
_WIDE: Final = (ir.DataType.INT64, ir.DataType.UINT64)
_VALUE_INPUTS: Final = {
    **dict.fromkeys(("Gather", "GatherElements", "GatherND", "Slice", "Expand", "Reshape", "Squeeze"), (0,)),
    **dict.fromkeys(("Unsqueeze", "Tile", "Split", "TopK", "Compress", "ReduceSum", "ReduceMax", "ReduceMin"), (0,)),
    **dict.fromkeys(("Pad", "ScatterElements", "ScatterND"), (0, 2)),
    "OneHot": (2,),
}
"""Inputs whose values reach the result, where not all do; indices, sizes and axes do not."""
_UNKNOWN: Final = re.compile(r"No conversion rule found for operations: (.*)")
_OPERATOR: Final = re.compile(r"(\w+)-\d+")  # "Det-22, StringNormalizer-10"
_FAILED: Final = re.compile(r"ONNX node '<Node\(\w+\): (.*?)>'")
_NO_VALUES: Final = frozenset({"Shape", "Size", "NonZero", "ArgMax", "ArgMin", "ConstantOfShape", "EyeLike"})


def refusals(model: ir.Model) -> tuple[Refusal, ...]:
    """Each node that this runtime cannot take. Starts a process that compiles the graph."""
    known = known_refusals(model)
    if known:
        return known
    return compiled_apart(serialized(model))


def known_refusals(model: ir.Model) -> tuple[Refusal, ...]:
    """Nodes that would be computed wrongly or not at all: 64-bit integers from an input to an output, and text."""
    wide = tuple(
        Refusal(
            NAME,
            str(node.name),
            node.op_type,
            f"int64 values of input '{source}' reach output '{output}', and OpenVINO computes them as int32",
            "run it on onnxruntime, or compute in float or int32 if the values fit",
        )
        for source, node, output in _wide_paths(model)
    )
    text = tuple(
        Refusal(
            NAME, str(node.name), node.op_type, f"'{name}' holds text", "run it on onnxruntime, or take the text out"
        )
        for node in model.graph
        if (name := _text(node)) is not None
    )
    return wide + text


def _text(node: ir.Node) -> str | None:
    values = (value for value in (*node.inputs, *node.outputs) if value is not None)
    return next((str(value.name) for value in values if value.dtype is ir.DataType.STRING), None)


def conversion_refusals(nodes: Sequence[tuple[str, str]], message: str) -> tuple[Refusal, ...]:
    """A refusal for each (name, operator) that an exception's text speaks of; else one for the whole graph."""
    unknown = {op for found in _UNKNOWN.finditer(message) for op in _OPERATOR.findall(found[1])}
    failed = {found[1] for found in _FAILED.finditer(message)}
    named = [(name, op) for name, op in nodes if op in unknown] or [(name, op) for name, op in nodes if name in failed]
    named = named or [(name, op) for name, op in nodes if name and f" {name} " in message]
    told = "OpenVINO has no conversion for this operator" if unknown and named else " ".join(message.split())[:400]
    remedy = "replace the node before export, or use another runtime"
    return tuple(Refusal(NAME, name, op, told, remedy) for name, op in named or [(WHOLE, "graph")])


def _wide_paths(model: ir.Model) -> Iterator[tuple[str, ir.Node, str]]:
    """(input, node before the output, output) for each 64-bit output that carries values of a 64-bit input."""
    origin = {id(value): str(value.name) for value in model.graph.inputs if value.dtype in _WIDE}
    if not origin:
        return
    for node in model.graph:
        source = next((origin[id(v)] for v in _values_read(node) if v is not None and id(v) in origin), None)
        if source is None:
            continue
        for value in node.outputs:
            if value.dtype in _WIDE:
                origin[id(value)] = source
    for value in model.graph.outputs:
        producer = value.producer()
        if id(value) in origin and producer is not None:
            yield origin[id(value)], producer, str(value.name)


def _values_read(node: ir.Node) -> Iterable[ir.Value | None]:
    if node.op_type in _NO_VALUES:
        return ()
    places = _VALUE_INPUTS.get(node.op_type)
    return node.inputs if places is None else [node.inputs[i] for i in places if i < len(node.inputs)]
