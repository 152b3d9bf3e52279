"""What ONNX Runtime refuses, found by asking it: a session of the graph, unoptimised."""

import re
from typing import Final

import onnx_ir as ir
import onnxruntime as ort
from onnxruntime.capi import onnxruntime_pybind11_state as state

from edgekit.compile.onnxruntime.float_emission import serialized
from edgekit.core.errors import Refusal

_FAULTS: Final = (state.Fail, state.InvalidArgument, state.InvalidGraph, state.NotImplemented, state.RuntimeException)
_NAMED: Final = (  # how its messages name a node or its operator
    re.compile(r'In Node, \("(?P<node>.*?)", (?P<op>\w+),'),
    re.compile(r"node with name '(?P<node>.*?)'"),
    re.compile(r"\bnode ?\((?P<node>.*?)\)", re.IGNORECASE),
    re.compile(r"Node:\s*(?P<node>\S+)"),
    re.compile(r"operator \((?P<op>\w+)\)"),
    re.compile(r"for (?P<op>\w+)\(\d+\)"),
)
REMEDY: Final = "replace the node before export, or bind its shapes"


def refusals(model: ir.Model) -> tuple[Refusal, ...]:
    """The node at which the engine stops, or nothing; it names one at a time."""
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    try:
        ort.InferenceSession(serialized(model), options, providers=["CPUExecutionProvider"])
    except _FAULTS as error:
        return (_refusal(model, str(error)),)
    return ()


def _refusal(model: ir.Model, message: str) -> Refusal:
    operators = {str(node.name): node.op_type for node in model.graph}
    found: dict[str, str] = {}
    for pattern in _NAMED:
        match = pattern.search(message)
        found |= {k: v for k, v in (match.groupdict() if match else {}).items() if k not in found}
    name = found.get("node", "")
    op = operators.get(name) or found.get("op") or "graph"
    name = name or next((n for n, o in operators.items() if o == op), "the whole graph")
    return Refusal("onnxruntime", name, op, " ".join(message.split()), REMEDY)
