"""Folding by ONNX Runtime: constant subexpressions, common ones, and nodes that do nothing.

Its BASIC level writes standard ONNX. Of its transformers those are off that write names or forms which a canonical
graph does not have (or that quantize by themselves), and those whose work `edgekit.build.rewrite` does for all linear
operators alike. A constant that would be larger than any other by far stays computed.
"""

import subprocess
import sys
import tempfile
from math import prod
from pathlib import Path
from typing import Final

import onnx
import onnx_ir as ir

from edgekit.build.rewrite import fold_process
from edgekit.build.rewrite.fold_process import fold
from edgekit.build.rewrite.matching import sizes
from edgekit.core.errors import Unsupported

_LEAST_LIMIT: Final = 1 << 20  # bytes
_GROWTH: Final = 2  # a folded constant is at most this many times the largest initializer
_RANDOM: Final = ("Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike")
_CONSTANTS: Final = "ConstantFolding"
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
    with tempfile.TemporaryDirectory(prefix="edgekit-fold-") as folder:
        source, target = Path(folder) / "model.onnx", Path(folder) / "folded.onnx"
        source.write_bytes(ir.to_proto(model).SerializeToString())
        try:
            if not _has_branches(model):
                fold(str(source), str(target), _limit(model), _OFF)
            elif not _folded_apart(source, target, _limit(model)):
                fold(str(source), str(target), _limit(model), (*_OFF, _CONSTANTS))
        except Exception as error:
            why = (str(error).strip().splitlines() or [type(error).__name__])[0]
            raise Unsupported("the model", f"ONNX Runtime refuses it: {why}", "check it with onnx.checker") from error
        folded = onnx.load_model_from_string(target.read_bytes())
    result = ir.from_proto(folded)
    is_standard = all(node.domain == "" for node in ir.traversal.RecursiveGraphIterator(result.graph))
    if not is_standard:
        return ir.from_proto(ir.to_proto(model))
    _name_as_before(result, model)
    return result


def _name_as_before(folded: ir.Model, model: ir.Model) -> None:
    """An operator without a kernel (HardSwish, Mish) is expanded, its parts named by count: the last has its name."""
    own = {node.name for node in ir.traversal.RecursiveGraphIterator(model.graph)}
    names = {output.name: node.name for node in model.graph for output in node.outputs}
    taken = {node.name for node in ir.traversal.RecursiveGraphIterator(folded.graph)}
    for node in folded.graph:
        name = names.get(node.outputs[0].name)
        if name is not None and node.name not in own and name not in taken:
            node.name = name
            taken.add(name)


def _has_branches(model: ir.Model) -> bool:
    return any(node.op_type == "If" for node in ir.traversal.RecursiveGraphIterator(model.graph))


def _folded_apart(source: Path, target: Path, limit: int) -> bool:
    """Fold in a process of its own: what the engine makes of an If inside an If may be a crash (seen in 1.32)."""
    command = [sys.executable, fold_process.__file__, str(source), str(target), str(limit), *_OFF]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


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
