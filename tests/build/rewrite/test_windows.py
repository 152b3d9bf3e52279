"""Windows are spelt in full, and a Pad before one becomes part of it."""

from collections.abc import Callable

import numpy as np
import onnx_ir as ir
import pytest
from numpy.typing import NDArray

from edgekit.build.rewrite import canonicalize
from edgekit.core.errors import Unsupported
from edgekit.quantize.canonical import integer, ints

Make = Callable[..., ir.Model]
Ops = Callable[[ir.Model], list[str]]
Weights = Callable[..., NDArray[np.float32]]


@pytest.mark.parametrize("auto_pad", ["SAME_UPPER", "SAME_LOWER", "VALID", "NOTSET"])
@pytest.mark.parametrize("size", [7, 8])
@pytest.mark.parametrize(
    "node",
    [
        'Conv<auto_pad = "{}", strides = [2, 2]>(x, w)',
        'Conv<auto_pad = "{}", strides = [2, 3]>(x, w)',
        'ConvTranspose<auto_pad = "{}", strides = [2, 2]>(x, t)',
        'ConvTranspose<auto_pad = "{}", strides = [3, 2], output_padding = [1, 0]>(x, t)',
        'AveragePool<auto_pad = "{}", kernel_shape = [3, 2], strides = [2, 2]>(x)',
        'MaxPool<auto_pad = "{}", kernel_shape = [3, 2], strides = [2, 1]>(x)',
    ],
)
def test_automatic_padding_is_spelt_out(canonical: Make, weights: Weights, node: str, size: int, auto_pad: str) -> None:
    model = canonical(
        f"(float[1,2,{size},{size}] x) => (float y) {{ y = {node.format(auto_pad)} }}",
        w=weights(3, 2, 3, 2),
        t=weights(2, 3, 3, 2),
    )
    (only,) = model.graph
    assert "auto_pad" not in only.attributes
    for name in ("pads", "strides", "kernel_shape"):
        assert ints(only, name), name


def test_dilations_count_in_automatic_padding(graph: Make, weights: Weights) -> None:
    before = graph(
        '(float[1,2,9,9] x) => (float y) { y = Conv<auto_pad = "SAME_UPPER", dilations = [2, 3]>(x, w) }',
        w=weights(3, 2, 3, 2),
    )
    model, notes = canonicalize(before)
    assert notes == (
        "rewrites were not proved: no random inputs suit the model",
    )  # ONNX Runtime refuses the two together
    assert ints(next(iter(model.graph)), "pads") == (2, 1, 2, 2)


def test_padding_with_stride_one_needs_no_size(canonical: Make, weights: Weights) -> None:
    model = canonical(
        '(float[N,2,H,W] x) => (float y) { y = Conv<auto_pad = "SAME_UPPER">(x, w) }', w=weights(3, 2, 3, 3)
    )
    assert ints(next(iter(model.graph)), "pads") == (1, 1, 1, 1)


def test_padding_that_needs_a_free_size_names_node_and_input(graph: Make, weights: Weights) -> None:
    before = graph(
        '(float[N,2,H,W] x) => (float y) { y = Conv<auto_pad = "SAME_UPPER", strides = [2, 2]>(x, w) }',
        w=weights(3, 2, 3, 3),
    )
    with pytest.raises(Unsupported, match=r"'Conv_0' \(Conv\).*--input-shape x:1,2,224,224"):
        canonicalize(before)


def test_an_output_shape_becomes_pads(canonical: Make, weights: Weights) -> None:
    model = canonical(
        "(float[1,2,5,5] x) => (float y) { y = ConvTranspose<output_shape = [10, 9], strides = [2, 2]>(x, w) }",
        w=weights(2, 3, 3, 3),
    )
    assert "output_shape" not in next(iter(model.graph)).attributes


PADS = np.array([0, 0, 1, 0, 0, 0, 2, 1], np.int64)


@pytest.mark.parametrize(
    ("node", "value", "merged"),
    [
        ("Conv(p, w)", 0.0, True),
        ("Conv<pads = [1, 1, 0, 0]>(p, w)", 0.0, True),
        ("Conv(p, w)", 1.0, False),
        ("AveragePool<kernel_shape = [3, 3]>(p)", 0.0, True),
        ("AveragePool<kernel_shape = [3, 3], count_include_pad = 1, pads = [1, 0, 0, 1]>(p)", 0.0, True),
        ("AveragePool<kernel_shape = [3, 3], pads = [1, 0, 0, 1]>(p)", 0.0, False),
        ("AveragePool<kernel_shape = [2, 2]>(p)", 0.0, False),  # a window could lie in the padding alone
        ("MaxPool<kernel_shape = [3, 3]>(p)", float("-inf"), True),
        ("MaxPool<kernel_shape = [3, 3]>(p)", 0.0, False),
    ],
)
def test_a_pad_goes_into_the_window_that_pads_with_the_same(
    canonical: Make, ops: Ops, weights: Weights, node: str, value: float, merged: bool
) -> None:
    model = canonical(
        f"(float[1,2,6,6] x) => (float y) {{ p = Pad(x, pads, value) y = {node} }}",
        w=weights(3, 2, 3, 3),
        pads=PADS,
        value=np.float32(value),
    )
    assert ("Pad" not in ops(model)) == merged


def test_zeros_around_what_is_never_negative_go_into_a_maximum(canonical: Make, ops: Ops) -> None:
    model = canonical(
        "(float[1,2,6,6] x) => (float y) { r = Relu(x) p = Pad(r, pads) y = MaxPool<kernel_shape = [3, 3]>(p) }",
        pads=PADS,
    )
    assert ops(model) == ["Relu", "MaxPool"]


def test_a_pad_with_axes_goes_into_the_convolution(canonical: Make, ops: Ops, weights: Weights) -> None:
    model = canonical(
        "(float[1,2,6,6] x) => (float y) { p = Pad(x, pads, , axes) y = Conv(p, w) }",
        w=weights(3, 2, 3, 3),
        pads=np.array([1, 2, 3, 4], np.int64),
        axes=np.array([-1, 2], np.int64),
    )
    assert ops(model) == ["Conv"]
    assert ints(next(iter(model.graph)), "pads") == (2, 1, 4, 3)


@pytest.mark.parametrize("mode", ["reflect", "edge"])
def test_a_pad_with_other_than_a_constant_stays(canonical: Make, ops: Ops, weights: Weights, mode: str) -> None:
    model = canonical(
        f'(float[1,2,6,6] x) => (float y) {{ p = Pad<mode = "{mode}">(x, pads) y = Conv(p, w) }}',
        w=weights(3, 2, 3, 3),
        pads=PADS,
    )
    assert ops(model) == ["Pad", "Conv"]


@pytest.mark.parametrize("pads", [[0, 1, 0, 0, 0, 0, 0, 0], [0, 0, -1, 0, 0, 0, 0, 0], [1, 0, 0, 0, 0, 0, 0, 0]])
def test_a_pad_of_channels_or_batch_or_one_that_cuts_stays(
    canonical: Make, ops: Ops, weights: Weights, pads: list[int]
) -> None:
    model = canonical(
        "(float[1,2,6,6] x) => (float y) { p = Pad(x, pads) y = Conv(p, w) }",
        w=weights(3, 2 + pads[1], 3, 3),
        pads=np.array(pads, np.int64),
    )
    assert ops(model) == ["Pad", "Conv"]


def test_a_pad_that_others_read_too_stays_for_them(canonical: Make, ops: Ops, weights: Weights) -> None:
    model = canonical(
        "(float[1,2,6,6] x) => (float y, float z) { p = Pad(x, pads) y = Conv(p, w) z = Relu(p) }",
        w=weights(3, 2, 3, 3),
        pads=PADS,
    )
    assert sorted(ops(model)) == ["Conv", "Pad", "Relu"]


def test_groups_are_always_said(canonical: Make, weights: Weights) -> None:
    model = canonical("(float[1,2,4,4] x) => (float y) { y = Conv(x, w) }", w=weights(3, 2, 1, 1))
    assert integer(next(iter(model.graph)), "group", 0) == 1
