"""Whether two models compute the same: both run on random inputs, without the engine's own optimisation.

Free axes get sizes by name, tried from a short list until the model before runs; integers are 0 or 1, which index
everything. Nothing here changes a model.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import onnx_ir as ir
import onnxruntime as ort
from numpy.typing import NDArray

TOLERANCE: Final = 1e-4
"""Of the largest value of an output: folding reorders float32 sums, an error of form is far larger."""
_LEADING: Final = (1, 2, 1, 1, 1, 1)
_FREE: Final = (64, 96, 1, 512, 16, 224)
_RUNS: Final = 2

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
        session = _session(before)
        self._outputs = [value.name for value in session.get_outputs()]
        self._samples: list[tuple[Arrays, list[NDArray[np.generic]]]] = []
        for number, feeds in enumerate(_random_feeds(session.get_inputs())):
            answers = _run(session, feeds)
            if answers is not None:
                self._samples.append((feeds, answers))
            if len(self._samples) == _RUNS or number == len(_FREE):
                break

    def verdict(self, after: ir.Model) -> Verdict:
        """Compare a model with the same inputs and outputs."""
        if not self._samples:
            return Verdict(0)
        session = _session(after)
        names = {value.name for value in session.get_inputs()}
        for feeds, wanted in self._samples:
            got = _run(session, {name: array for name, array in feeds.items() if name in names})
            if got is None:
                return Verdict(len(self._samples), "it no longer runs")
            for name, a, b in zip(self._outputs, got, wanted, strict=True):
                if (gap := difference(a, b)) > TOLERANCE:
                    return Verdict(len(self._samples), f"output '{name}' differs by {gap:.2g} of its largest value")
        return Verdict(len(self._samples))


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
    return float(gaps.max(initial=0.0) / max(largest.max(initial=0.0), 1e-6))


def _session(model: ir.Model) -> ort.InferenceSession:
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    return ort.InferenceSession(ir.to_proto(model).SerializeToString(), options, providers=["CPUExecutionProvider"])


def _run(session: ort.InferenceSession, feeds: Mapping[str, NDArray[np.generic]]) -> list[NDArray[np.generic]] | None:
    try:
        return list(session.run(None, dict(feeds)))
    except Exception:  # noqa: BLE001  the engine has a dozen exceptions without a base; any of them means: not these sizes
        return None


def _random_feeds(inputs: list[ort.NodeArg]) -> Iterator[Arrays]:
    rng = np.random.default_rng(0)
    if any(each.type == "tensor(string)" or not each.type.startswith("tensor(") for each in inputs):
        return
    is_free = any(not isinstance(dim, int) for each in inputs for dim in each.shape)
    for leading, free in zip(_LEADING, _FREE, strict=True):
        named: dict[object, int] = {}
        feeds: Arrays = {}
        for each in inputs:
            shape = [
                dim if isinstance(dim, int) else named.setdefault(dim or (each.name, axis), free if axis else leading)
                for axis, dim in enumerate(each.shape)
            ]
            feeds[each.name] = _random(rng, each.type, shape)
        yield feeds
        if not is_free and leading == _LEADING[1]:
            return


def _random(rng: np.random.Generator, kind: str, shape: list[int]) -> NDArray[np.generic]:
    name = kind.removeprefix("tensor(").removesuffix(")")
    match name:
        case "float" | "double" | "float16":
            dtype = {"float": np.float32, "double": np.float64, "float16": np.float16}[name]
            return rng.standard_normal(shape).astype(dtype)
        case "bool":
            return rng.integers(0, 2, shape).astype(np.bool_)
        case _:
            return rng.integers(0, 2, shape).astype(np.dtype(name))
