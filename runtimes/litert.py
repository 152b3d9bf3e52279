"""LiteRT (the package ai-edge-litert): TFLite files with XNNPACK, for Python of today."""

from typing import Final

from edgekit.runtimes.tflite_interpreter import InterpreterRuntime

RUNTIME: Final = InterpreterRuntime(
    name="litert", distribution="ai-edge-litert", module="ai_edge_litert.interpreter", extra="litert"
)
