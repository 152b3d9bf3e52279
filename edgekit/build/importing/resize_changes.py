"""Upsample and Resize through their opsets: one operator in four dialects.

Opsets 9 and 10 name no coordinate rule; ONNX Runtime's, which every exporter was tested against, is `asymmetric`, and
for `nearest` the floor where a size grows and the ceiling where it shrinks. Later forms say the rule as attributes.
"""

import numpy as np
import onnx_ir as ir

from edgekit.build.importing.editing import become, constant_beside, put_before, put_input
from edgekit.core.errors import Unsupported
from edgekit.quantize.canonical import constant, text


def upsample_to_resize(node: ir.Node) -> None:
    """Resize 10 took Upsample's place, with the same inputs and meaning."""
    become(node, "Resize", node.inputs, mode=text(node, "mode", "nearest"))


def resize_of_opset_11(node: ir.Node) -> None:
    """Resize 11: an input `roi` before the scales, and the coordinate rule as attributes."""
    source, scales = node.inputs[0], node.inputs[1]
    mode = text(node, "mode", "nearest")
    if mode != "nearest":
        become(node, "Resize", [source, None, scales], mode=mode, coordinate_transformation_mode="asymmetric")
        return
    array = constant(scales)
    factors = None if array is None else array.astype(np.float32)
    if factors is None or np.all(factors >= 1):
        become(node, "Resize", [source, None, scales], **_nearest("floor"))
        return
    if not np.all(factors <= 1):  # nearest works axis by axis: first the growing ones, then the shrinking ones
        grown = constant_beside(node, "growing", np.maximum(factors, 1).astype(np.float32))
        source = put_before(node, "Resize", [source, None, grown], "grown", **_nearest("floor"))
        scales = constant_beside(node, "shrinking", np.minimum(factors, 1).astype(np.float32))
    become(node, "Resize", [source, None, scales], **_nearest("ceil"))


def resize_of_opset_13(node: ir.Node) -> None:
    """Resize 13: an unused roi or scales is left out, not an empty tensor; one coordinate rule is gone.

    tf_half_pixel_for_nn with floor, floor((x + 0.5) / s), is half_pixel, (x + 0.5) / s - 0.5, rounded half up.
    """
    rule = text(node, "coordinate_transformation_mode", "half_pixel")
    inputs = (*node.inputs, None, None, None)
    if inputs[1] is not None and rule != "tf_crop_and_resize":
        put_input(node, 1, None)
    scales = constant(inputs[2])
    if inputs[3] is not None or (scales is not None and scales.size == 0):
        put_input(node, 2, None)
    if rule == "tf_half_pixel_for_nn":
        rounding = text(node, "nearest_mode", "round_prefer_floor")
        if text(node, "mode", "nearest") != "nearest" or rounding != "floor":
            why = f"coordinate rule {rule} with {rounding} has no equal after opset 12"
            raise Unsupported(f"'{node.name}' (Resize)", why, "export with coordinate rule half_pixel")
        node.attributes["coordinate_transformation_mode"] = ir.AttrString(
            "coordinate_transformation_mode", "half_pixel"
        )
        node.attributes["nearest_mode"] = ir.AttrString("nearest_mode", "round_prefer_ceil")


def _nearest(rounding: str) -> dict[str, str]:
    return {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": rounding}
