"""Folding by ONNX Runtime: constant subexpressions, common ones, and nodes that do nothing.

Its BASIC level writes standard ONNX. Of its transformers those are off that write names or forms which a canonical
graph does not have (or that quantize by themselves), and those whose work `edgekit.build.rewrite` does for all linear
operators alike. A constant that would be larger than any other by far stays computed.
"""

import tempfile
from math import prod
from pathlib import Path
from typing import Final

import onnx
import onnx_ir as ir
import onnxruntime as ort

from edgekit.build.rewrite.matching import sizes
from edgekit.core.errors import Unsupported

_LEAST_LIMIT: Final = 1 << 20  # bytes
_GROWTH: Final = 2  # a folded constant is at most this many times the largest initializer
_RANDOM: Final = ("Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike")
_OFF: Final = (
    "ConstantSharing",  # names by count
    "ConvAddFusion",
    "ConvBNFusion",
    "ConvMulFusion",
    "DoubleQDQPairsRemover",
    "EnsureUniqueDQForNodeUnit",
    "GatherToSliceFusion",
    "GeluFusionL1",  # names by count; `activations` and `layer_norm` know more forms
    "GemmSumFusion",
    "GemmTransposeFusion",
    "LayerNormFusionL1",
    "MatMulAddFusion",  # a canonical MatMul and its Add stay apart
    "MatmulBNFusion",
    "PadFusion",
    "QDQPropagationTransformer",
    "SliceConcatToSpaceToDepthFusion",
    "TransposeOptimizer",  # pushes transposes by cost in its own kernels
    "WeightBiasQuantization",
)


def engine_fold(model: ir.Model) -> ir.Model:
    """The model as ONNX Runtime folds it. Raises `Unsupported` with the engine's own words where it refuses it."""
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    options.add_session_config_entry("optimization.constant_folding_max_output_size_in_bytes", str(_limit(model)))
    content = ir.to_proto(model).SerializeToString()
    with tempfile.TemporaryDirectory(prefix="edgekit-fold-") as folder:
        path = Path(folder) / "folded.onnx"
        options.optimized_model_filepath = str(path)
        try:
            ort.InferenceSession(content, options, providers=["CPUExecutionProvider"], disabled_optimizers=list(_OFF))
            folded = onnx.load_model_from_string(path.read_bytes())
        except Exception as error:
            why = (str(error).strip().splitlines() or [type(error).__name__])[0]
            raise Unsupported("the model", f"ONNX Runtime refuses it: {why}", "check it with onnx.checker") from error
    result = ir.from_proto(folded)
    return (
        result
        if all(node.domain == "" for node in ir.traversal.RecursiveGraphIterator(result.graph))
        else ir.from_proto(ir.to_proto(model))
    )


def has_constant_nodes(model: ir.Model) -> bool:
    """Whether a node computes from constants alone, and could be folded."""
    limit = _limit(model)
    return any(
        node.inputs
        and all(value is None or value.const_value is not None for value in node.inputs)
        and node.op_type not in _RANDOM
        and all(_bytes(output) <= limit for output in node.outputs if output.name)
        for node in model.graph
    )


def _limit(model: ir.Model) -> int:
    held = (value.const_value.nbytes for value in model.graph.initializers.values() if value.const_value is not None)
    return max(_LEAST_LIMIT, _GROWTH * max(held, default=0))


def _bytes(value: ir.Value) -> float:
    """Size of a result; infinite where it is not known."""
    dims = sizes(value)
    return float("inf") if dims is None else 8 * prod(dims)
