"""What a runtime is given to load: files in memory and the ports that tie them to the model's own names.

A `Port` is the user's view of one input or output: the model's own name, dtype and shape. A file may hold the tensor
with its axes in another order (TFLite: NHWC) or under another name: the session maps ports to file tensors by
position and by `axes`, so that every runtime is called the same way.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

Dim = int | str  # a named dimension is free; sizes that share a name are equal


@dataclass(frozen=True, slots=True)
class Port:
    """One input or output of a model.

    `dtype` is a numpy name ("float32", "int64", …). `axes` is the order in which the file holds the model's axes
    (file_shape[i] = shape[axes[i]]; a 4-D NCHW tensor kept as NHWC has axes (0, 2, 3, 1)); None: as the model.
    """

    name: str
    dtype: str
    shape: tuple[Dim, ...]
    axes: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class LoadableArtifact:
    """The files of one artifact by name (for example "model.onnx", or "model.xml" and "model.bin"), and its ports in file order."""

    files: Mapping[str, bytes]
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    label: str = field(default="artifact")  # for messages: "lite0 (litert, int8)"
