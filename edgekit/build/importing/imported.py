"""What importing gives: a canonical graph with the user's ports, or a TFLite file as it stands."""

from dataclasses import dataclass

import onnx_ir as ir

from edgekit.core.artifact import Port


@dataclass(frozen=True, slots=True)
class ImportedModel:
    """A canonical graph, the user's view of its ports, and what was changed on the way.

    `inputs` and `outputs` have the model's own names, order and dtypes (a float16 model keeps float16 here although the
    graph computes in float32); free axes have names. `source_sha256` covers the file and its external data.
    """

    model: ir.Model
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    source_sha256: str
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Quantization:
    """The affine map of one 8-bit tensor of a TFLite file: real = scale · (q − zero_point), per tensor."""

    scale: float
    zero_point: int


@dataclass(frozen=True, slots=True)
class ImportedTflite:
    """A `.tflite` file: its bytes, its ports in the file's own axes, and the quantization of 8-bit ports by name."""

    content: bytes
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    quantization: dict[str, Quantization]
    operators: tuple[str, ...]
    source_sha256: str
    notes: tuple[str, ...]
