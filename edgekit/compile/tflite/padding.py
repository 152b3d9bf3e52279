"""Explicit pads of windows as TFLite can express them: SAME, VALID, or an operator before the kernel.

TFLite's SAME puts the odd element at the end: total = max(0, (ceil(size / stride) - 1) * stride + extent - size),
`total // 2` of it in front.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import ai_edge_litert.schema_py_generated as schema
import numpy as np
import onnx_ir as ir

from edgekit.compile.tflite.dims import Dim
from edgekit.compile.tflite.flatfile import FREE, Tensor
from edgekit.compile.tflite.forms import signed
from edgekit.compile.tflite.site import Site
from edgekit.quantize.canonical import integer, ints


@dataclass(frozen=True, slots=True)
class Window:
    """A sliding window over the spatial axes, one entry per axis."""

    sizes: tuple[Dim, ...]
    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    begins: tuple[int, ...]
    ends: tuple[int, ...]
    rounds_up: bool = False

    @property
    def extents(self) -> tuple[int, ...]:
        """What the dilated kernel spans."""
        return tuple((k - 1) * d + 1 for k, d in zip(self.kernel, self.dilations, strict=True))

    def outputs(self) -> tuple[int, ...] | None:
        """Number of positions, as ONNX counts them; None where a size is free."""
        counts = []
        for size, extent, stride, begin, end in zip(
            self.sizes, self.extents, self.strides, self.begins, self.ends, strict=True
        ):
            if not isinstance(size, int):
                return None
            room = size + begin + end - extent
            count = (-(-room // stride) if self.rounds_up else room // stride) + 1
            if self.rounds_up and (count - 1) * stride >= size + begin:
                count -= 1  # a window must start inside the input or its front padding
            counts.append(count)
        return tuple(counts)

    def reach(self) -> tuple[int, ...]:
        """End pads up to where the last window really reaches (more than `ends` in ceil mode, negative: a crop)."""
        counts = self.outputs()
        if counts is None:
            return self.ends
        return tuple(
            (n - 1) * stride + extent - int(size) - begin
            for n, stride, extent, size, begin in zip(
                counts, self.strides, self.extents, self.sizes, self.begins, strict=True
            )
        )

    def is_valid(self) -> bool:
        """Whether windows never leave the input and VALID gives the same number of them."""
        return (
            not any(self.begins)
            and all(r <= 0 for r in self.reach())
            and (not self.rounds_up or self.outputs() is not None)
        )

    def is_same(self) -> bool:
        """Whether TFLite's SAME pads exactly so."""
        reach = self.reach()
        for i, (size, extent, stride) in enumerate(zip(self.sizes, self.extents, self.strides, strict=True)):
            if stride == 1:
                total = extent - 1
            elif isinstance(size, int):
                total = max(0, (-(-size // stride) - 1) * stride + extent - size)
                counts = self.outputs()
                if counts is not None and counts[i] != -(-size // stride):
                    return False
            else:
                return False
            if self.begins[i] != total // 2 or max(reach[i], 0) != total - total // 2:
                return False
        return True


def window_of(node: ir.Node, sizes: Sequence[Dim], kernel: Sequence[int]) -> Window:
    """The window of a Conv or pool."""
    n = len(kernel)
    pads = ints(node, "pads", (0,) * 2 * n)
    return Window(
        tuple(sizes),
        tuple(kernel),
        ints(node, "strides", (1,) * n),
        ints(node, "dilations", (1,) * n),
        pads[:n],
        pads[n:],
        bool(integer(node, "ceil_mode", 0)),
    )


def pad(site: Site, x: Tensor, begins: Sequence[int], ends: Sequence[int], fill: float | None = None) -> Tensor:
    """Pads per file axis; None fills with zero, otherwise with that number. Negative ends do nothing here."""
    pairs = np.array([[b, max(e, 0)] for b, e in zip(begins, ends, strict=True)], np.int32)
    if not pairs.any():
        return x
    shape = [FREE if d == FREE else d + int(p.sum()) for d, p in zip(x.shape, pairs, strict=True)]
    made = site.temp(shape, x)
    amounts = site.const(pairs, "pads")
    if fill is None or fill == 0:
        return site.op("PAD", [x, amounts], made, schema.PadOptionsT())
    real = np.array([fill], np.float32)
    number = real if x.q is None else signed(x.q, real)
    return site.op("PADV2", [x, amounts, site.const(number, "fill", x.q)], made, schema.PadV2OptionsT())


def pad_spatial(site: Site, x: Tensor, window: Window, fill: float | None = None) -> Tensor:
    """Pads of a channels-last image up to where the windows reach."""
    return pad(site, x, (0, *window.begins, 0), (0, *window.reach(), 0), fill)
