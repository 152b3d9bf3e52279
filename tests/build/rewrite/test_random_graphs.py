"""Chains of random nodes keep their answer, and no rewrite has to be left out.

Each node is drawn from a table of the forms that exporters mix: linear nodes with constants behind them, pads, views,
transposes, bounds. A seed that fails is a bug in a rewrite; it belongs into that rewrite's own test as well.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import onnx_ir as ir
import pytest
from numpy.typing import NDArray

SEEDS = range(120)


@dataclass(slots=True)
class Chain:
    """Nodes so far as ONNX text, their constants, and the shape of the last result."""

    rng: np.random.Generator
    shape: list[int]
    body: list[str] = field(default_factory=list)
    constants: dict[str, NDArray[np.generic]] = field(default_factory=dict)
    last: str = "x"

    def constant(self, array: object, dtype: str = "float32") -> str:
        name = f"c{len(self.constants)}"
        self.constants[name] = np.asarray(array, dtype)
        return name

    def normal(self, *shape: int) -> str:
        return self.constant(self.rng.standard_normal(shape) + 0.1)

    def node(self, text: str, shape: list[int] | None = None) -> None:
        """`text` is the node with `@` for the last result."""
        result = f"t{len(self.body)}"
        self.body.append(f"{result} = {text.replace('@', self.last)}")
        self.last, self.shape = result, self.shape if shape is None else shape

    def pick(self, *choices: object) -> object:
        return choices[int(self.rng.integers(len(choices)))]


def _conv(chain: Chain) -> None:
    batch, channels, *spatial = chain.shape
    if len(spatial) == 2 and min(spatial) >= 2:
        out = int(chain.rng.integers(1, 4))
        weight = chain.normal(out, channels, 2, 2)
        auto = chain.pick("VALID", "SAME_UPPER", "SAME_LOWER")
        less = 1 if auto == "VALID" else 0
        chain.node(f'Conv<auto_pad = "{auto}">(@, {weight})', [batch, out, *(size - less for size in spatial)])


def _gemm(chain: Chain) -> None:
    if len(chain.shape) == 2:
        out, trans = int(chain.rng.integers(1, 5)), int(chain.rng.integers(2))
        weight = chain.normal(*((out, chain.shape[1]) if trans else (chain.shape[1], out)))
        bias = chain.normal(*((), (1,), (out,), (1, out))[int(chain.rng.integers(4))])
        chain.node(f"Gemm<transB = {trans}, alpha = 0.5, beta = 2.0>(@, {weight}, {bias})", [chain.shape[0], out])


def _matmul(chain: Chain) -> None:
    out = int(chain.rng.integers(1, 5))
    chain.node(f"MatMul(@, {chain.normal(chain.shape[-1], out)})", [*chain.shape[:-1], out])


def _arithmetic(chain: Chain) -> None:
    rank, channels = len(chain.shape), chain.shape[1]
    shapes = [(), (1,), (channels, *(1,) * (rank - 2)), (1, channels, *(1,) * (rank - 2)), (chain.shape[-1],)]
    constant = chain.normal(*shapes[int(chain.rng.integers(len(shapes)))])
    chain.node(str(chain.pick("Add(@, {})", "Add({}, @)", "Mul(@, {})", "Sub(@, {})", "Sub({}, @)")).format(constant))


def _batch_norm(chain: Chain) -> None:
    s, b, m = (chain.normal(chain.shape[1]) for _ in range(3))
    variance = chain.constant(chain.rng.random(chain.shape[1]) + 0.1)
    chain.node(f"BatchNormalization(@, {s}, {b}, {m}, {variance})")


def _bounds(chain: Chain) -> None:
    low, high = chain.constant(-0.5), chain.constant(1.5)
    chain.node(str(chain.pick("Relu(@)", f"Clip(@, {low}, {high})", f"Max(@, {low})", f"Min({high}, @)", "Sigmoid(@)")))


def _hard_swish(chain: Chain) -> None:
    start = chain.last
    chain.node(f"Add(@, {chain.constant(3)})")
    chain.node(f"Clip(@, {chain.constant(0)}, {chain.constant(6)})")
    chain.node(f"Mul(@, {start})")
    chain.node(f"Div(@, {chain.constant(6)})")


def _pad(chain: Chain) -> None:
    if len(chain.shape) == 4:
        amounts = chain.rng.integers(0, 2, (2, 4))
        amounts[:, :2] = 0
        shape = [size + int(more) for size, more in zip(chain.shape, amounts.sum(axis=0), strict=True)]
        chain.node(f"Pad(@, {chain.constant(amounts.reshape(-1), 'int64')})", shape)


def _transpose(chain: Chain) -> None:
    perm = [int(axis) for axis in chain.rng.permutation(len(chain.shape))]
    chain.node(f"Transpose<perm = {perm}>(@)", [chain.shape[axis] for axis in perm])


def _view(chain: Chain) -> None:
    flat = int(np.prod(chain.shape[1:]))
    target, shape = (
        ([0, -1], [chain.shape[0], flat])
        if chain.rng.random() < 0.5
        else (
            [-1, flat, 1, 1],
            [chain.shape[0], flat, 1, 1],
        )
    )
    chain.node(f"Reshape(@, {chain.constant(target, 'int64')})", shape)


def _pool(chain: Chain) -> None:
    if len(chain.shape) == 4 and min(chain.shape[2:]) >= 2:
        kind = chain.pick("MaxPool", "AveragePool")
        shape = [*chain.shape[:2], *(size - 1 for size in chain.shape[2:])]
        chain.node(f"{kind}<kernel_shape = [2, 2]>(@)", shape)


def _mean(chain: Chain) -> None:
    if len(chain.shape) == 4:
        chain.node(f"ReduceMean(@, {chain.constant([2, 3], 'int64')})", [*chain.shape[:2], 1, 1])


FORMS: tuple[Callable[[Chain], None], ...] = (
    _arithmetic,
    _arithmetic,
    _batch_norm,
    _bounds,
    _conv,
    _conv,
    _gemm,
    _hard_swish,
    _matmul,
    _mean,
    _pad,
    _pool,
    _transpose,
    _transpose,
    _view,
)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_random_chain_keeps_its_answer(canonical: Callable[..., ir.Model], seed: int) -> None:
    rng = np.random.default_rng(seed)
    chain = Chain(rng, [2, 3, 5, 4])
    for _ in range(int(rng.integers(3, 12))):
        FORMS[int(rng.integers(len(FORMS)))](chain)
    if chain.last == "x":
        chain.node("Neg(@)")
    seen = {chain.last, *(f"t{i}" for i in range(len(chain.body)) if rng.random() < 0.1)}  # some are outputs as well
    outputs = ", ".join(f"float {name}" for name in sorted(seen))
    model = canonical(f"(float[2,3,5,4] x) => ({outputs}) {{ {' '.join(chain.body)} }}", **chain.constants)
    assert sorted(str(value.name) for value in model.graph.outputs) == sorted(seen)
    assert not {"BatchNormalization", "Constant"} & {node.op_type for node in model.graph}
