"""Compiles an ONNX model in a process of its own: `python -m edgekit.compile.openvino.trial < model.onnx`.

A foreign graph can crash `compile_model`; here it takes only this process with it. Prints the reason of a refusal and
ends with 3; any other end that is not 0 is a crash.
"""

import subprocess
import sys
from typing import Final

REFUSED: Final = 3


def reason_to_refuse(content: bytes, *, timeout_s: float = 600) -> str | None:
    """Why this ONNX model cannot be compiled, or None."""
    command = [sys.executable, "-m", "edgekit.compile.openvino.trial"]
    try:
        ended = subprocess.run(command, input=content, capture_output=True, timeout=timeout_s, check=False)
    except subprocess.TimeoutExpired:
        return f"compile_model did not end within {timeout_s:.0f} s"
    if ended.returncode == 0:
        return None
    if ended.returncode == REFUSED:
        return ended.stdout.decode(errors="replace")
    if ended.returncode < 0:
        return f"compile_model crashes (signal {-ended.returncode})"
    return "the trial ended with " + (ended.stderr.decode(errors="replace").strip().splitlines() or ["no word"])[-1]


def main() -> int:
    """Read standard input, compile, say why not."""
    from edgekit.compile.openvino.float_emission import BIN, XML, ir_from_onnx
    from edgekit.core.artifact import LoadableArtifact
    from edgekit.core.errors import RuntimeRefuses
    from edgekit.runtimes.openvino import compiled_model

    try:
        files = ir_from_onnx(sys.stdin.buffer.read())
        compiled_model(LoadableArtifact({XML: files[XML], BIN: files[BIN]}, (), ()), threads=1)
    except RuntimeRefuses as refused:
        sys.stdout.write(refused.refusals[0].reason)
        return REFUSED
    except RuntimeError as error:
        sys.stdout.write(str(error))
        return REFUSED
    return 0


if __name__ == "__main__":
    sys.exit(main())
