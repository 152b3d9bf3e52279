"""tflite-runtime, the legacy engine for TFLite files: small and quick to import; numpy < 2 and Python ≤ 3.11."""

from typing import Final

from edgekit.runtimes.tflite_interpreter import InterpreterRuntime

RUNTIME: Final = InterpreterRuntime(
    name="tflite-runtime", distribution="tflite-runtime", module="tflite_runtime.interpreter", extra="tflite"
)
