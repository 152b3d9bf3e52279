"""The TFLite writer: a canonical graph to a flatbuffer, without TensorFlow.

In reading order: `table` (all operators; one module per family beside it, rows of `lowering`), `views` (which orders of
axes an operator can work in) and `layout` (one order per node for the whole graph), `plan` (float, 8-bit or rounded,
and which clamp is fused), `site` (what an emitter may do), `forms` (a value as file tensors), `flatfile` (bytes),
`target` (all of it in order). To add an operator: a row and its emitter in a family, and cases in
`tests/compile/tflite/test_operators.py`.
"""
