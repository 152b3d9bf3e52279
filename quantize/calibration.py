"""Run the float graph over the calibration samples and keep what quantization needs of it, in bounded memory."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from edgekit.core.errors import BadInput
from edgekit.quantize.interpreter import Array, float_step, walk
from edgekit.quantize.observers import Histogram, Interval, Observer, observer
from edgekit.quantize.roles import is_linear


@dataclass(frozen=True, slots=True)
class Sample:
    """One calibration sample: a name for messages, and one array per model input."""

    name: str
    arrays: Mapping[str, Array]


class Samples(Protocol):
    """Calibration samples, read when asked for; the same index gives the same sample."""

    def __len__(self) -> int: ...
    def __getitem__(self, index: int, /) -> Sample: ...


@dataclass(slots=True)
class Calibration:
    """What was seen. Sizes depend on the model and on `chosen`, never on the number of samples.

    `channel_means[node][k]` is the mean of a linear node's float result per output channel over sample `chosen[k]`;
    `outputs[k]` are the graph's outputs for it. `channel_extents[node]` [2, C]: smallest and largest float result per
    output channel over all samples.
    """

    samples: int
    chosen: tuple[int, ...]
    intervals: dict[str, Interval] = field(default_factory=dict)
    channel_means: dict[str, list[NDArray[np.float32]]] = field(default_factory=dict)
    channel_extents: dict[str, NDArray[np.float32]] = field(default_factory=dict)
    outputs: list[dict[str, Array]] = field(default_factory=list)
    histograms: dict[str, Histogram] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)


def _other_axes(node: ir.Node, result: Array) -> tuple[int, ...]:
    """All but the output-channel axis: 1 of a convolution [N, C, …], the last of a product."""
    axis = 1 if node.op_type in ("Conv", "ConvTranspose") else result.ndim - 1
    return tuple(i for i in range(result.ndim) if i != axis)


def channel_mean(node: ir.Node, result: Array) -> NDArray[np.float32]:
    """Mean per output channel of a linear node's result; 0 for a result without values."""
    total = result.sum(axis=_other_axes(node, result), dtype=np.float64)
    return np.asarray(total / max(result.size // max(total.size, 1), 1), np.float32)


def _channel_extent(node: ir.Node, result: Array, before: NDArray[np.float32] | None) -> NDArray[np.float32]:
    axes = _other_axes(node, result)
    extent = np.stack([result.min(axis=axes), result.max(axis=axes)]).astype(np.float32)
    if before is None:
        return extent
    return np.stack([np.minimum(before[0], extent[0]), np.maximum(before[1], extent[1])])


def spread(count: int, total: int) -> tuple[int, ...]:
    """At most `count` of `total` indexes, evenly spread, the same every time."""
    return tuple(range(total)) if total <= count else tuple(int(i * total / count) for i in range(count))


def calibrate(
    model: ir.Model, samples: Samples, *, observer_name: str, chosen: Collection[int], threads: int
) -> Calibration:
    """One pass. Raises `BadInput` that names every sample with NaN or Inf, or the tensor that overflowed and where."""
    if not len(samples):
        raise BadInput("calibration", "there is no sample", "give a folder of images, .npy or .npz files")
    inputs = {str(v.name) for v in model.graph.inputs}
    outputs = {str(v.name) for v in model.graph.outputs}
    linear = {n.name for n in model.graph if is_linear(n)}
    step = float_step(threads)
    seen: dict[str, Observer] = {}
    result = Calibration(len(samples), tuple(sorted(chosen)))
    broken: list[str] = []
    blank: dict[str, list[str]] = {}

    for index in range(len(samples)):
        sample = samples[index]
        if not_finite := [k for k, a in sample.arrays.items() if a.dtype.kind == "f" and not np.isfinite(a).all()]:
            broken.append(f"{sample.name} ({', '.join(not_finite)})")
        if broken:
            continue
        kept: dict[str, Array] = {}
        for node, tensors in walk(model, [sample.arrays], step):
            for name, (array,) in tensors.items():
                if name in outputs:
                    kept[name] = array
                if array.dtype != np.float32:
                    continue
                if node is not None and not np.isfinite(array).all():
                    raise BadInput(
                        f"calibration sample {sample.name}",
                        f"tensor '{name}' ({node.op_type} '{node.name}') is not finite in float already",
                        "remove the sample, or check its preprocessing",
                    )
                seen.setdefault(name, observer(observer_name)).see(array)
                if name in inputs or name in outputs:
                    result.histograms.setdefault(name, Histogram()).see(array)
                if node is not None and node.name in linear and array.size:
                    key = str(node.name)
                    result.channel_extents[key] = _channel_extent(node, array, result.channel_extents.get(key))
                if node is not None and node.name in linear and index in result.chosen:
                    result.channel_means.setdefault(str(node.name), []).append(channel_mean(node, array))
        if index in result.chosen:
            result.outputs.append(kept)
        for key, array in sample.arrays.items():
            if array.dtype.kind == "f" and array.size > 1 and array.min() == array.max():
                blank.setdefault(key, []).append(sample.name)
    if broken:
        raise BadInput(
            "calibration",
            f"{len(broken)} of {len(samples)} samples hold NaN or Inf, not finite numbers: {', '.join(broken[:8])}",
            "remove or repair these samples",
        )
    result.remarks += [
        f"'{key}' holds one value everywhere in {len(names)} of {len(samples)} samples ({', '.join(names[:3])})"
        for key, names in blank.items()
    ]
    result.intervals = {name: o.bounds() for name, o in seen.items()}
    result.remarks += [
        f"tensor '{name}' is zero in every sample" for name, i in result.intervals.items() if i.lo == i.hi == 0.0
    ]
    return result
