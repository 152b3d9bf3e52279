"""The call of ONNX Runtime that folds a graph: here, or as a process of its own that may die without harm.

Run as `python fold_process.py IN OUT LIMIT NAME…`; needs onnxruntime alone.
"""

import sys
from collections.abc import Sequence

import onnxruntime as ort


def fold(source: str, target: str, limit: int, disabled: Sequence[str]) -> None:
    """Write the BASIC form of a model file; constants over `limit` bytes stay computed."""
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    options.add_session_config_entry("optimization.constant_folding_max_output_size_in_bytes", str(limit))
    options.optimized_model_filepath = target
    ort.InferenceSession(source, options, providers=["CPUExecutionProvider"], disabled_optimizers=list(disabled))


if __name__ == "__main__":
    fold(sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4:])
