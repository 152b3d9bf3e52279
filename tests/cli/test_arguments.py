"""Flags that several commands share."""

from argparse import ArgumentTypeError

import pytest

from edgekit.cli.arguments import parse_fixed, parse_shapes, positive, share_of_points
from edgekit.core.errors import UsageError


def test_shapes_are_read_by_name_even_where_the_name_holds_a_colon() -> None:
    assert parse_shapes(["x:1,3,640,640", "serving:0:2"]) == {"x": (1, 3, 640, 640), "serving:0": (2,)}


@pytest.mark.parametrize("text", ["x", "x:", ":1,3", "x:1,a", "x:0,3", "x:1,,3", "x:-1,3"])
def test_what_is_no_shape_is_a_usage_error(text: str) -> None:
    with pytest.raises(UsageError, match="NAME:DIM"):
        parse_shapes([text])


def test_the_same_input_with_two_shapes_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="another shape"):
        parse_shapes(["x:1,3", "x:1,4"])


def test_fixed_values_stay_whole_where_they_are() -> None:
    fixed = parse_fixed(["sr=16000", "a=b=0.5"])
    assert fixed == {"sr": 16000, "a=b": 0.5}
    assert isinstance(fixed["sr"], int)


@pytest.mark.parametrize("text", ["sr", "sr=", "=1", "sr=fast"])
def test_what_is_no_fixed_value_is_a_usage_error(text: str) -> None:
    with pytest.raises(UsageError, match="NAME=NUMBER"):
        parse_fixed([text])


@pytest.mark.parametrize("text", ["0", "-1", "1.5", "many"])
def test_counts_are_whole_and_positive(text: str) -> None:
    with pytest.raises(ArgumentTypeError):
        positive(text)


@pytest.mark.parametrize("text", ["-0.1", "101", "nan", "some"])
def test_points_lie_between_0_and_100(text: str) -> None:
    with pytest.raises(ArgumentTypeError):
        share_of_points(text)
