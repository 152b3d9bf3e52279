"""The integer share of a candidate, read from its runtime: one door to the three counters."""

from collections.abc import Sequence
from importlib import import_module
from typing import Final

from edgekit.build.candidates import Candidate, Golden

_COUNTERS: Final = {
    "onnxruntime": "edgekit.compile.onnxruntime.integer_share",
    "openvino": "edgekit.compile.openvino.integer_share",
    "litert": "edgekit.compile.tflite.integer_share",
}


def integer_share(candidate: Candidate, golden: Sequence[Golden]) -> None:
    """Fill in the candidate's share and its float nodes, where its engine is here and it has multiply-accumulates."""
    if candidate.session is None or not golden:
        return
    counted = import_module(_COUNTERS[candidate.runtime]).integer_share(candidate.loadable, golden[0].inputs)
    candidate.integer_share = round(counted.share, 6) if counted.macs_total else None
    candidate.float_nodes = tuple(str(node[0]) for node in counted.float_nodes)
