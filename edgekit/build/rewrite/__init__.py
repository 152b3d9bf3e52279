"""From an imported graph to the canonical one: ONNX Runtime folds, then one pass per file brings what it leaves.

`canonicalize` runs the passes of `PASSES` in rounds until none changes the graph, then proves the result against the
graph before it on random inputs. Where it does not hold, the passes are taken one by one and those at fault left out,
each with a note. The promises are those of `edgekit.quantize.canonical`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import onnx_ir as ir

from edgekit.build.importing.shapes import infer_shapes
from edgekit.build.importing.structure import all_graphs, all_nodes, lift_constants, name_all, separate_outputs
from edgekit.build.rewrite.activations import recognise_activations
from edgekit.build.rewrite.batch_norm import split_batch_norms
from edgekit.build.rewrite.channel_constants import fold_channel_constants
from edgekit.build.rewrite.clips import form_clips
from edgekit.build.rewrite.default_attributes import drop_default_attributes
from edgekit.build.rewrite.engine_fold import engine_fold, has_constant_nodes
from edgekit.build.rewrite.flatten import form_flattens
from edgekit.build.rewrite.gemm_form import form_gemms
from edgekit.build.rewrite.global_pools import form_global_pools
from edgekit.build.rewrite.layer_norm import recognise_layer_norms
from edgekit.build.rewrite.matching import drop_dead
from edgekit.build.rewrite.no_operations import remove_no_operations
from edgekit.build.rewrite.padding import absorb_pads
from edgekit.build.rewrite.proof import Prover
from edgekit.build.rewrite.shape_chains import settle_shape_chains
from edgekit.build.rewrite.transposes import cancel_transposes
from edgekit.build.rewrite.windows import spell_windows
from edgekit.quantize.canonical import CANONICAL_OPSET

_ROUNDS: Final = 20  # each round with a change shortens the graph or settles a node; this stops a pair at odds


@dataclass(frozen=True, slots=True)
class Pass:
    """One rewrite: edits the graph in place and says whether it changed."""

    name: str
    apply: Callable[[ir.Model], bool]


PASSES: Final = (
    Pass("settle shape chains", settle_shape_chains),
    Pass("remove no-operations", remove_no_operations),
    Pass("cancel transposes", cancel_transposes),
    Pass("form clips", form_clips),
    Pass("recognise activations", recognise_activations),  # before constants go into weights and break the pattern
    Pass("recognise layer norms", recognise_layer_norms),
    Pass("spell windows", spell_windows),
    Pass("absorb pads", absorb_pads),
    Pass("split batch norms", split_batch_norms),
    Pass("form gemms", form_gemms),
    Pass("fold channel constants", fold_channel_constants),
    Pass("form global pools", form_global_pools),
    Pass("form flattens", form_flattens),
    Pass("drop default attributes", drop_default_attributes),
)


def canonicalize(model: ir.Model) -> tuple[ir.Model, tuple[str, ...]]:
    """A new canonical model and notes; the one given is not changed.

    Raises `Unsupported` where ONNX Runtime refuses the graph, or where padding depends on a free size.
    """
    prover = Prover(model)
    result = _rewritten(model, PASSES)
    verdict = prover.verdict(result)
    if verdict.holds:
        return result, () if verdict.runs else ("rewrites were not proved: no random inputs suit the model",)
    return _without_faults(model, prover)


def _rewritten(model: ir.Model, passes: Sequence[Pass], *, is_folded: bool = True) -> ir.Model:
    """Folded, then the passes in rounds until none changes anything."""
    result = engine_fold(model) if is_folded else ir.from_proto(ir.to_proto(model))
    _settle(result)
    for _ in range(_ROUNDS):
        changed = [each.apply(result) for each in passes]
        count = len(result.graph)
        is_foldable = is_folded and has_constant_nodes(result)  # a shape that is known now makes more of it constant
        if is_foldable:
            result = engine_fold(result)
        if is_foldable or any(changed):
            _settle(result)
        if not any(changed) and len(result.graph) == count:
            break
    return result


def _settle(model: ir.Model) -> None:
    """What every canonical graph has, whatever was rewritten: names, shapes, no dead nodes, one opset, one order."""
    lift_constants(model)
    separate_outputs(model)
    drop_dead(model)
    model.graph.sort()
    name_all(model)
    for graph in all_graphs(model):
        graph.opset_imports.clear()
        graph.opset_imports[""] = CANONICAL_OPSET
    model.metadata_props.clear()
    for node in all_nodes(model):  # the engine writes them in the order of a hash table
        attributes = sorted(node.attributes.items())
        node.attributes.clear()
        node.attributes.update(attributes)
    infer_shapes(model, are_noted_true=True)


def _without_faults(model: ir.Model, prover: Prover) -> tuple[ir.Model, tuple[str, ...]]:
    """The most of the passes under which the result holds, and a note for each that was left out."""
    result, notes = _rewritten(model, ()), []
    is_folded = prover.verdict(result).holds
    if not is_folded:
        result = _rewritten(model, (), is_folded=False)
        notes.append("folding by ONNX Runtime was left out: it changed the result")
    kept: list[Pass] = []
    for each in PASSES:
        tried = _rewritten(model, (*kept, each), is_folded=is_folded)
        verdict = prover.verdict(tried)
        if verdict.holds:
            kept.append(each)
            result = tried
        else:
            notes.append(f"the rewrite '{each.name}' was left out: {verdict.difference}")
    return result, tuple(notes)
