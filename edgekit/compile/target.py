"""The Protocol of a target: from a canonical graph to the files of one runtime."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import onnx_ir as ir

from edgekit.core.artifact import LoadableArtifact, Port
from edgekit.core.errors import Refusal
from edgekit.quantize.quantized import QuantizedModel


@dataclass(frozen=True, slots=True)
class Emitted:
    """The files of one artifact: same graph in, same bytes out, in any process and folder."""

    files: Mapping[str, bytes]
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]

    def loadable(self, label: str) -> LoadableArtifact:
        """The form that `Runtime.load` takes."""
        return LoadableArtifact(self.files, self.inputs, self.outputs, label)


class Target(Protocol):
    """One runtime seen from the host. `name` is the runtime's name in flags, JSON, tables and manifest."""

    name: str

    def refusals(self, model: ir.Model) -> tuple[Refusal, ...]:
        """Each node of a canonical graph that this runtime cannot take; empty: it takes the model."""
        ...

    def emit_float(self, model: ir.Model) -> Emitted:
        """Files that compute the canonical graph in float32. Raises `RuntimeRefuses`."""
        ...

    def emit_integer(self, quantized: QuantizedModel) -> Emitted:
        """Files that compute `integer_nodes` in 8-bit integers with exactly the numbers given, the rest in float32.

        Raises `RuntimeRefuses`. An integer node without an integer kernel here is computed in float between
        dequantize and quantize: same numbers, and the integer share shows it.
        """
        ...
