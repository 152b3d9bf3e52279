"""How good answers are, and how near to the float model's. Numbers in, numbers out; files are read in `truth.py`.

Rates on a few hundred pictures jitter by a point from the smallest change; agreement and KL with the float model do
not, so these decide.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating]


def nrmse(got: NDArray[np.generic], want: NDArray[np.generic], *, least: float = 0.0) -> float:
    """|got - want| / |want| over all elements (Euclidean). Infinite for another shape or values that are not finite.

    `least`: root mean square that stands in for a smaller one of `want`. Where both are zero, the error itself.

    >>> nrmse(np.array([3.0, 4.5]), np.array([3.0, 4.0]))
    0.1
    """
    if got.shape != want.shape:
        return math.inf
    is_real = not (np.iscomplexobj(got) or np.iscomplexobj(want))
    got, want = (x.astype(np.float64 if is_real else np.complex128) for x in (got, want))
    if not (np.isfinite(got).all() and np.isfinite(want).all()):
        return math.inf
    size = max(float(np.linalg.norm(want)), least * math.sqrt(want.size))
    return float(np.linalg.norm(got - want)) / (size or 1.0)


def top_k(scores: Floats, labels: NDArray[np.integer], k: int = 1) -> float:
    """Share of rows of scores [N, C] whose label is among the k best; ties count for the lower index."""
    best = np.argsort(-scores, axis=1, kind="stable")[:, :k]
    return float((best == labels[:, None]).any(axis=1).mean())


def agreement(reference: Floats, got: Floats) -> float:
    """Share of rows [N, C] with the same best class."""
    return float((reference.argmax(axis=1) == got.argmax(axis=1)).mean())


def mean_kl(reference: Floats, got: Floats, *, probabilities: bool = False) -> float:
    """Mean over rows [N, C] of KL(reference || got) in nats, of the softmax of scores or of `probabilities`."""
    p, q = (_log_distribution(x.astype(np.float64), probabilities) for x in (reference, got))
    return float((np.exp(p) * (p - q)).sum(axis=1).mean())


def _log_distribution(x: NDArray[np.float64], probabilities: bool) -> NDArray[np.float64]:
    if probabilities:
        x = np.log(np.maximum(x, 1e-12))
    x = x - x.max(axis=1, keepdims=True)
    shifted: NDArray[np.float64] = x - np.log(np.exp(x).sum(axis=1, keepdims=True))
    return shifted


@dataclass(frozen=True, slots=True)
class McNemar:
    """Two classifiers on the same pictures: how many only one of them has right, and how likely chance alone is."""

    only_first: int
    only_second: int
    p_value: float


def mcnemar(first_right: NDArray[np.bool_], second_right: NDArray[np.bool_]) -> McNemar:
    """McNemar's exact two-sided test (binomial) on paired right and wrong answers [N].

    >>> mcnemar(np.array([1, 1, 1, 1, 1, 1, 0]) > 0, np.array([0, 0, 0, 0, 0, 0, 0]) > 0)
    McNemar(only_first=6, only_second=0, p_value=0.03125)
    """
    b, c = int((first_right & ~second_right).sum()), int((second_right & ~first_right).sum())
    tail = sum(math.comb(b + c, i) for i in range(min(b, c) + 1))
    return McNemar(b, c, min(1.0, 2 * tail / 2 ** (b + c)))
