"""Honest INT8: which share of an artifact's multiply-accumulates its engine really does in integers.

The counters live with each target and ask the engine what it made of the file (`integer_share.py` there); here is what
they return, and the arithmetic that they share. Only convolutions, matrix products and recurrent layers are counted:
they are where the time goes.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import prod

Shape = Sequence[int]


@dataclass(frozen=True, slots=True)
class Work:
    """Multiply-accumulates of one node, as the engine names it."""

    node: str
    op: str
    macs: int
    is_integer: bool


@dataclass(frozen=True, slots=True)
class IntegerShare:
    """Sums over an artifact; `float_nodes` are (node, op, MACs), largest first."""

    macs_total: int
    macs_integer: int
    float_nodes: tuple[tuple[str, str, int], ...]

    @property
    def share(self) -> float:
        """0…1; 0 where there is nothing to count."""
        return self.macs_integer / self.macs_total if self.macs_total else 0.0

    @classmethod
    def of(cls, works: Iterable[Work]) -> "IntegerShare":
        """The sum of what an engine does in one call."""
        each = list(works)
        floats = sorted((work for work in each if not work.is_integer), key=lambda work: (-work.macs, work.node))
        return cls(
            sum(work.macs for work in each),
            sum(work.macs for work in each if work.is_integer),
            tuple((work.node, work.op, work.macs) for work in floats),
        )


def convolution_macs(output: Shape, weight: Shape) -> int:
    """Every output element sums over one filter: [M, C/group, k…], or [group, M/group, C/group, k…] in OpenVINO."""
    return prod(output) * prod(weight) // output[1] if len(output) > 1 and output[1] else 0


def transposed_macs(source: Shape, weight: Shape) -> int:
    """Every input element meets one filter: [C, M/group, k…], or [group, C/group, M/group, k…] in OpenVINO."""
    return prod(source) * prod(weight) // source[1] if len(source) > 1 and source[1] else 0


def product_macs(a: Shape, b: Shape, output: Shape) -> int:
    """A matrix product, whichever of its sides are transposed: the depth is the size that both sides share."""
    return prod(output) * _depth(a, b, output)


def _depth(a: Shape, b: Shape, output: Shape) -> int:
    if len(a) < 2 or len(b) < 2:
        return a[-1] if len(a) == 1 else b[0] if a else 1
    rows = output[-2] if len(output) > 1 else 1
    inner = {a[-1]: a[-2], a[-2]: a[-1]}  # depth -> the other size of A
    for depth in a[-1], a[-2]:  # untransposed first
        if depth in b[-2:] and inner[depth] == rows:
            return depth
    return a[-1]


def recurrent_macs(steps: int, weights: Iterable[Shape]) -> int:
    """`steps` is sequence length times batch; the weights of the input and of the recurrence are used in each."""
    return steps * sum(prod(weight) for weight in weights)
