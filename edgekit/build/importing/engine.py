"""What ONNX Runtime says of the graph before anything is rewritten: the reference answer comes from it.

A graph that contradicts itself (types, shapes, values of attributes) is a damaged file; an operator without a kernel
is refused by name. Either way the node is named, and no later stage meets the engine's exception.
"""

from typing import Final

import onnx_ir as ir

from edgekit.compile.targets import target
from edgekit.core.errors import BadInput, RuntimeRefuses

ENGINE: Final = "onnxruntime"
_NO_KERNEL: Final = "NOT_IMPLEMENTED"


def admit_by_engine(model: ir.Model) -> None:
    """Raises `BadInput` where the graph is contradictory, `RuntimeRefuses` where the engine lacks an operator."""
    refusals = target(ENGINE).refusals(model)
    if not refusals:
        return
    first = refusals[0]
    if _NO_KERNEL in first.reason:
        raise RuntimeRefuses(refusals)
    reason = first.reason.split(" : ")[-1]
    raise BadInput(f"'{first.node}' ({first.op})", f"ONNX Runtime does not load it: {reason}", "export the model again")
