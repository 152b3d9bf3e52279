"""What a runtime is given to load: files in memory and the ports that tie them to the model's own names.

A `Port` is the user's view of one input or output: the model's own name, dtype and shape. A file may hold the tensor
with its axes in another order (TFLite: NHWC) or under another name: the session maps ports to file tensors by
position and by `axes`, so that every runtime is called the same way.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from edgekit.core.errors import BadInput

Dim = int | str  # a named dimension is free; sizes that share a name are equal


@dataclass(frozen=True, slots=True)
class Port:
    """One input or output of a model.

    `dtype` is a numpy name ("float32", "int64", …). `axes` is the order in which the file holds the model's axes
    (file_shape[i] = shape[axes[i]]; a 4-D NCHW tensor kept as NHWC has axes (0, 2, 3, 1)); None: as the model.
    `unused` inputs are read by nothing: a call may leave them out, and a file may have dropped them.
    """

    name: str
    dtype: str
    shape: tuple[Dim, ...]
    axes: tuple[int, ...] | None = None
    unused: bool = False


@dataclass(frozen=True, slots=True)
class LoadableArtifact:
    """The files of one artifact by name ("model.onnx", or "model.xml" and "model.bin"), and its ports in file order."""

    files: Mapping[str, bytes]
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    label: str = field(default="artifact")  # for messages: "lite0 (litert, int8)"

    def content(self, suffix: str) -> bytes:
        """The one file whose name ends so. Raises `BadInput` where there is none, or more than one."""
        found = [name for name in self.files if name.endswith(suffix)]
        if len(found) != 1:
            has = ", ".join(sorted(self.files)) or "no file"
            raise BadInput(
                f"{self.label} cannot be loaded", f"it needs one {suffix} file and has {has}", "build it again"
            )
        return self.files[found[0]]
