"""Compiles an ONNX model in a process of its own: `python -m edgekit.compile.openvino.trial < model.onnx`.

A foreign graph can crash `compile_model`; here it takes only this process with it. Prints the refusals as JSON; an end
that is not 0 is a crash.
"""

import json
import subprocess
import sys
from dataclasses import asdict
from typing import Final

from edgekit.core.errors import Refusal, RuntimeRefuses

_COMMAND: Final = (sys.executable, "-m", "edgekit.compile.openvino.trial")
_REMEDY: Final = "use another runtime"


def compiled_apart(content: bytes, *, timeout_s: float = 600) -> tuple[Refusal, ...]:
    """Why this ONNX model cannot be compiled; empty: it can."""
    try:
        ended = subprocess.run(_COMMAND, input=content, capture_output=True, timeout=timeout_s, check=False)
    except subprocess.TimeoutExpired:
        return (_for_all(f"compile_model did not end within {timeout_s:.0f} s"),)
    if ended.returncode < 0:
        return (_for_all(f"compile_model crashes (signal {-ended.returncode})"),)
    if ended.returncode > 0:
        last = ended.stderr.decode(errors="replace").strip().splitlines()[-1:] or ["no word"]
        return (_for_all(f"the process that compiles it ended with {ended.returncode}: {last[0]}"),)
    return tuple(Refusal(**each) for each in json.loads(ended.stdout))


def _for_all(reason: str) -> Refusal:
    return Refusal("openvino", "the whole graph", "graph", reason, _REMEDY)


def main() -> int:
    """Read standard input, compile, print the refusals."""
    json.dump([asdict(each) for each in _refusals(sys.stdin.buffer.read())], sys.stdout)
    return 0


def _refusals(content: bytes) -> tuple[Refusal, ...]:
    import onnx

    from edgekit.compile.openvino.checks import conversion_refusals
    from edgekit.compile.openvino.float_emission import ir_from_onnx
    from edgekit.core.artifact import LoadableArtifact
    from edgekit.runtimes.openvino import compiled_model

    try:
        compiled_model(LoadableArtifact(ir_from_onnx(content), (), ()), threads=1)
    except RuntimeRefuses as refused:
        return refused.refusals
    except RuntimeError as error:
        nodes = [(node.name, node.op_type) for node in onnx.ModelProto.FromString(content).graph.node]
        return conversion_refusals(nodes, str(error))
    return ()


if __name__ == "__main__":
    sys.exit(main())
