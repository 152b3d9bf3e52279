"""Convolutions and pools say their window in full: kernel, strides, dilations, groups and explicit pads.

`auto_pad` is resolved by the rules of the ONNX operators (https://onnx.ai/onnx/operators/onnx__Conv.html,
onnx__ConvTranspose.html): SAME pads so that the result has ceil(size / stride) places, VALID pads nothing.
"""

from typing import Final

import onnx_ir as ir

from edgekit.build.rewrite.matching import nodes
from edgekit.core.errors import Unsupported
from edgekit.quantize.canonical import integer, ints, text

_CONVOLUTIONS: Final = ("Conv", "ConvTranspose")
_POOLS: Final = ("AveragePool", "LpPool", "MaxPool")


def spell_windows(model: ir.Model) -> bool:
    """Raises `Unsupported` naming the node and the input to bind where SAME needs a size that is free."""
    changed = False
    for node in nodes(model, *_CONVOLUTIONS, *_POOLS):
        before = {name: attribute.value for name, attribute in node.attributes.items()}
        _spell(node, model)
        changed |= before != {name: attribute.value for name, attribute in node.attributes.items()}
    return changed


def _spell(node: ir.Node, model: ir.Model) -> None:
    kernel = ints(node, "kernel_shape") or _kernel_of_weight(node)
    if not kernel:
        return
    count = len(kernel)
    strides = ints(node, "strides") or (1,) * count
    dilations = ints(node, "dilations") or (1,) * count
    spelt = {"kernel_shape": kernel, "strides": strides, "dilations": dilations}
    extents = tuple((k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True))
    if node.op_type == "ConvTranspose":
        spelt["output_padding"] = ints(node, "output_padding") or (0,) * count
        spelt["pads"] = _transposed_pads(node, model, extents, strides, spelt["output_padding"])
        node.attributes.pop("output_shape", None)
    else:
        spelt["pads"] = _pads(node, model, extents, strides)
    for name, values in spelt.items():
        node.attributes[name] = ir.AttrInt64s(name, values)
    if node.op_type in _CONVOLUTIONS:
        node.attributes["group"] = ir.AttrInt64("group", integer(node, "group", 1))
    node.attributes.pop("auto_pad", None)


def _kernel_of_weight(node: ir.Node) -> tuple[int, ...]:
    weight = node.inputs[1] if node.op_type in _CONVOLUTIONS else None
    if weight is None or weight.shape is None or not all(isinstance(dim, int) for dim in weight.shape):
        return ()
    return tuple(int(dim) for dim in weight.shape[2:])  # type: ignore[arg-type]


def _pads(node: ir.Node, model: ir.Model, extents: tuple[int, ...], strides: tuple[int, ...]) -> tuple[int, ...]:
    mode = text(node, "auto_pad", "NOTSET")
    if mode == "NOTSET":
        return ints(node, "pads") or (0,) * 2 * len(extents)
    if mode == "VALID":
        return (0,) * 2 * len(extents)
    totals = []
    for axis, (extent, stride) in enumerate(zip(extents, strides, strict=True)):
        if stride == 1:
            totals.append(extent - 1)
            continue
        size = _size(node, model, axis)
        totals.append(max(0, (-(-size // stride) - 1) * stride + extent - size))
    return _split(totals, is_more_at_end=mode == "SAME_UPPER")


def _transposed_pads(
    node: ir.Node,
    model: ir.Model,
    extents: tuple[int, ...],
    strides: tuple[int, ...],
    extra: tuple[int, ...],
) -> tuple[int, ...]:
    mode, wanted = text(node, "auto_pad", "NOTSET"), ints(node, "output_shape")
    if wanted:
        totals = [
            stride * (_size(node, model, axis) - 1) + more + extent - size
            for axis, (extent, stride, more, size) in enumerate(
                zip(extents, strides, extra, wanted[-len(extents) :], strict=True)
            )
        ]
        if min(totals) < 0:
            why = f"its output_shape {list(wanted)} is larger than its window can reach"
            raise Unsupported(f"'{node.name}' ({node.op_type})", why, "export it with output_padding")
        return _split(totals, is_more_at_end=mode == "SAME_UPPER")
    if mode == "NOTSET":
        return ints(node, "pads") or (0,) * 2 * len(extents)
    if mode == "VALID":
        return (0,) * 2 * len(extents)
    totals = [max(0, extent + more - stride) for extent, stride, more in zip(extents, strides, extra, strict=True)]
    return _split(totals, is_more_at_end=mode == "SAME_UPPER")


def _split(totals: list[int], *, is_more_at_end: bool) -> tuple[int, ...]:
    halves = [total // 2 for total in totals]
    rest = [total - half for total, half in zip(totals, halves, strict=True)]
    return (*halves, *rest) if is_more_at_end else (*rest, *halves)


def _size(node: ir.Node, model: ir.Model, axis: int) -> int:
    """A spatial size of the node's input."""
    source = node.inputs[0]
    dim = None if source is None or source.shape is None else source.shape[axis + 2]
    if isinstance(dim, int):
        return dim
    free = [v for v in model.graph.inputs if v.shape is None or any(not isinstance(d, int) for d in v.shape)]
    name = str(free[0].name) if free else "NAME"
    why = "its padding (auto_pad) depends on a size that is free"
    raise Unsupported(f"'{node.name}' ({node.op_type})", why, f"bind it: --input-shape {name}:{_example(free)}")


def _example(free: list[ir.Value]) -> str:
    shape = free[0].shape if free else None
    if shape is None:
        return "1,3,224,224"
    filled = [dim if isinstance(dim, int) else (224 if axis > 1 else 1) for axis, dim in enumerate(shape)]
    return ",".join(map(str, filled))
