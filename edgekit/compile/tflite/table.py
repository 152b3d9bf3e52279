"""The operator table: every row, by ONNX operator."""

from typing import Final

from edgekit.compile.tflite import activation, convolution, elementwise, joining, matmul, pooling, reduce, shape
from edgekit.compile.tflite.lowering import Lower

FAMILIES: Final = (convolution, pooling, matmul, joining, elementwise, activation, reduce, shape)
ROWS: Final[dict[str, tuple[Lower, ...]]] = {}
for _family in FAMILIES:
    for _row in _family.ROWS:
        ROWS[_row.op] = (*ROWS.get(_row.op, ()), _row)
