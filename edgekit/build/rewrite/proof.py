"""Whether two models compute the same: both run on random inputs, without the engine's own optimisation.

Free axes get sizes by name, tried from a short list until the model before runs; integers go up to 255, or to 1 where
the model takes them for places in something shorter. Nothing here changes a model.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
import onnx_ir as ir
import onnxruntime as ort
from numpy.typing import NDArray

from edgekit.quantize.canonical import constant

TOLERANCE: Final = 1e-4
"""Of the largest value of an output: folding reorders float32 sums, an error of form is far larger."""
_SMALLEST: Final = 1e-2  # a sigmoid near 0 is right to some 1e-7, not to a share of itself
_NUDGE: Final = 3e-7  # of each weight and input: what rounding may do
_NUDGED_TIMES: Final = 10  # how far beyond the nudged model's answer the model after may lie
_MOST: Final = 0.25  # what is further off is no rounding, however the nudged model's answer jumps
_MEASURES: Final = frozenset(("Range", "Resize"))  # their floats are sizes: a rounding of 2.0 costs a whole row
_LEADING: Final = (1, 2, 1, 1, 1, 1)
_FREE: Final = (64, 96, 1, 512, 16, 224)
_RUNS: Final = 2
_INTEGERS: Final = (255, 1)

Arrays = dict[str, NDArray[np.generic]]


@dataclass(frozen=True, slots=True)
class Verdict:
    """`runs` is the number of inputs on which both ran; `difference` names the first output that is not the same."""

    runs: int
    difference: str | None = None

    @property
    def holds(self) -> bool:
        """Nothing spoke against it."""
        return self.difference is None


class Prover:
    """Holds the answers of the model before, so that several models after it can be compared with them."""

    def __init__(self, before: ir.Model) -> None:
        self._before = before
        session = _session(before)
        self._outputs = [value.name for value in session.get_outputs()]
        self._samples: list[tuple[Arrays, list[NDArray[np.generic]]]] = []
        for feeds in _random_feeds(session.get_inputs()):
            answers = _run(session, feeds)
            if answers is not None and all(map(_says_something, answers)):
                self._samples.append((feeds, answers))
            if len(self._samples) == _RUNS:
                break

    def verdict(self, after: ir.Model) -> Verdict:
        """Compare a model with the same inputs and outputs."""
        if not self._samples:
            return Verdict(0)
        session = _loaded(after)
        if session is None:
            return Verdict(len(self._samples), "it no longer loads")
        names = {value.name for value in session.get_inputs()}
        for feeds, wanted in self._samples:
            got = _run(session, {name: array for name, array in feeds.items() if name in names})
            if got is None:
                return Verdict(len(self._samples), "it no longer runs")
            gaps = [difference(a, b) for a, b in zip(got, wanted, strict=True)]
            if max(gaps, default=0.0) <= TOLERANCE:
                continue
            for name, gap, limit in zip(self._outputs, gaps, self._limits(feeds, wanted), strict=True):
                if gap > limit:
                    return Verdict(len(self._samples), f"output '{name}' differs by {gap:.2g} of its largest value")
        return Verdict(len(self._samples))

    def _limits(self, feeds: Arrays, wanted: Sequence[NDArray[np.generic]]) -> list[float]:
        """How far each output may be off: some networks blow up what rounding does to their weights and inputs.

        Nothing is excused where the nudged model does not run, or gives another shape: that is no matter of rounding.
        """
        strict = [TOLERANCE] * len(wanted)
        if self._nudged is None:
            return strict
        rng = np.random.default_rng(2)
        moved = {name: _moved(a, rng) if a.dtype.kind == "f" else a for name, a in feeds.items()}
        got = _run(self._nudged, moved)
        if got is None or any(np.shape(a) != np.shape(b) for a, b in zip(got, wanted, strict=True)):
            return strict
        return [_limit(difference(a, b), b) for a, b in zip(got, wanted, strict=True)]

    @cached_property
    def _nudged(self) -> ort.InferenceSession | None:
        """The model before with each weight moved; None where it cannot be loaded so."""
        nudged = ir.from_proto(ir.to_proto(self._before))
        rng = np.random.default_rng(1)
        for value in nudged.graph.initializers.values():
            array = constant(value)
            if array is None or array.dtype != np.float32 or any(use.node.op_type in _MEASURES for use in value.uses()):
                continue
            value.const_value = ir.tensor(_moved(array, rng), name=value.name)
        return _loaded(nudged)


def _says_something(answer: NDArray[np.generic]) -> bool:
    """An empty answer, or one without a number, would prove nothing: a size was too small for the model."""
    if not isinstance(answer, np.ndarray) or answer.dtype.kind != "f":
        return np.size(answer) > 0
    return bool(np.isfinite(answer).any())


def _limit(noise: float, wanted: NDArray[np.generic]) -> float:
    """Of floats, by how much the nudged answer moved; integers that flip when nudged may flip in any number."""
    if not isinstance(wanted, np.ndarray) or wanted.dtype.kind != "f":
        return noise
    return max(TOLERANCE, min(_NUDGED_TIMES * noise, _MOST))


def _moved(array: NDArray[np.generic], rng: np.random.Generator) -> NDArray[np.generic]:
    by = 1 + _NUDGE * rng.standard_normal(array.shape)
    return (array.astype(np.float64) * by).astype(array.dtype)


def difference(got: NDArray[np.generic], wanted: NDArray[np.generic]) -> float:
    """Largest difference as a share of the largest finite value; infinite where shape, dtype or NaNs differ.

    Of integers and texts: 0 where at most one entry in a hundred differs (an argmax may flip on a tie), else infinite.
    """
    if not isinstance(got, np.ndarray) or not isinstance(wanted, np.ndarray):
        return 0.0 if repr(got) == repr(wanted) else float("inf")
    if got.shape != wanted.shape or got.dtype != wanted.dtype:
        return float("inf")
    if not got.size:
        return 0.0
    if wanted.dtype.kind != "f":
        return 0.0 if float(np.mean(got != wanted)) <= 0.01 else float("inf")
    a, b = got.astype(np.float64), wanted.astype(np.float64)
    odd = ~np.isfinite(b)
    if not np.array_equal(a[odd], b[odd], equal_nan=True) or not np.isfinite(a[~odd]).all():
        return float("inf")
    gaps, largest = np.abs(a[~odd] - b[~odd]), np.abs(b[~odd])
    return float(gaps.max(initial=0.0) / max(largest.max(initial=0.0), _SMALLEST))


def _session(model: ir.Model) -> ort.InferenceSession:
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    return ort.InferenceSession(ir.to_proto(model).SerializeToString(), options, providers=["CPUExecutionProvider"])


def _loaded(model: ir.Model) -> ort.InferenceSession | None:
    try:
        return _session(model)
    except Exception:  # noqa: BLE001  as in `_run`; any of them means: no such graph
        return None


def _run(session: ort.InferenceSession, feeds: Mapping[str, NDArray[np.generic]]) -> list[NDArray[np.generic]] | None:
    try:
        return list(session.run(None, dict(feeds)))
    except Exception:  # noqa: BLE001  the engine has a dozen exceptions without a base; any of them means: not these sizes
        return None


def _random_feeds(inputs: Sequence[ort.NodeArg]) -> Iterator[Arrays]:
    rng = np.random.default_rng(0)
    if any(each.type == "tensor(string)" or not each.type.startswith("tensor(") for each in inputs):
        return
    is_free = any(not isinstance(dim, int) for each in inputs for dim in each.shape)
    tops = _INTEGERS if any("int" in each.type for each in inputs) else _INTEGERS[:1]
    places = list(zip(_LEADING, _FREE, strict=True)) if is_free else [(1, 1)] * _RUNS
    for top in tops:
        for only_first in (
            (False, True) if is_free and len(inputs) > 1 else (False,)
        ):  # True: others are states and masks
            for leading, free in places:
                named: dict[object, int] = {}
                feeds: Arrays = {}
                for each in inputs:
                    beyond = leading if only_first and each is not inputs[0] else free
                    feeds[each.name] = _random(rng, each.type, _shape(each, leading, beyond, named), top)
                yield feeds


def _shape(each: ort.NodeArg, leading: int, beyond: int, named: dict[object, int]) -> list[int]:
    """Free axes: `leading` for the first, `beyond` for the others; one size for one name."""
    return [
        dim if isinstance(dim, int) else named.setdefault(dim or (each.name, axis), beyond if axis else leading)
        for axis, dim in enumerate(each.shape)
    ]


def _random(rng: np.random.Generator, kind: str, shape: Sequence[int], top: int) -> NDArray[np.generic]:
    dtype = np.dtype(_DTYPES.get(name := kind.removeprefix("tensor(").removesuffix(")"), name))
    if dtype.kind == "f":
        return rng.standard_normal(shape).astype(dtype)
    return rng.integers(0, 2 if dtype.kind == "b" else min(top, np.iinfo(dtype).max) + 1, shape).astype(dtype)


_DTYPES: Final = {"float": "float32", "double": "float64"}
