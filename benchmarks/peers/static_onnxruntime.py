"""ONNX Runtime's `quantize_static`, 8-bit U8S8 per channel: MODEL SAMPLES.npy OUT.onnx [--reduce-range]."""

import sys

import numpy as np
import onnx
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static


class Reader(CalibrationDataReader):  # type: ignore[misc]  # foreign, untyped
    """One sample at a time."""

    def __init__(self, name: str, samples: "np.ndarray") -> None:
        self._rows = ({name: row[None]} for row in samples)

    def get_next(self) -> object:
        """A feed, or None at the end."""
        return next(self._rows, None)


if __name__ == "__main__":
    model, samples, output = sys.argv[1:4]
    quantize_static(
        model,
        output,
        Reader(onnx.load(model).graph.input[0].name, np.load(samples, mmap_mode="r")),
        quant_format=QuantFormat.QDQ,
        per_channel=True,
        reduce_range="--reduce-range" in sys.argv,
        activation_type=QuantType.QUInt8,
        weight_type=QuantType.QInt8,
    )
