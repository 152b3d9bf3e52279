import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgekit.core.errors import BadInput
from edgekit.core.record import UnknownWord, from_plain, parse_json, to_json, to_plain
from edgekit.core.toml import dump_toml, parse_toml


@dataclass(frozen=True, slots=True)
class Dot:
    kind: ClassVar[Literal["dot"]] = "dot"
    at: tuple[float, float] = (0.0, 0.0)


@dataclass(frozen=True, slots=True)
class Line:
    kind: ClassVar[Literal["line"]] = "line"
    name: str


@dataclass(frozen=True, slots=True)
class Sheet:
    title: str
    count: int = 0
    share: float | None = None
    is_open: bool = False
    size: Literal["a4", "a5"] = "a4"
    shapes: tuple[Dot | Line, ...] = ()
    words: Mapping[str, int] = field(default_factory=dict)
    dims: tuple[int | str, ...] = ()


WHOLE = Sheet("t", 3, 0.5, True, "a5", (Dot((1.0, 2.0)), Line("x")), {"b": 1, "a": 2}, (1, "N", 3))


def test_a_record_comes_back_equal_from_json_and_toml() -> None:
    assert from_plain(Sheet, parse_json(to_json(WHOLE), where="s"), where="s") == WHOLE
    plain = to_plain(WHOLE)
    assert isinstance(plain, dict)
    assert from_plain(Sheet, parse_toml(dump_toml(plain), where="s"), where="s") == WHOLE


def test_json_is_canonical() -> None:
    assert to_json({"b": 1, "a": [1.0, "é"]}) == '{"a":[1.0,"é"],"b":1}\n'.encode()


@pytest.mark.parametrize(
    ("plain", "words"),
    [
        ({}, "sheet: field 'title' is missing"),
        ([], "sheet: [] is not a table"),
        ({"title": 1}, "sheet.title: 1 is not a string"),
        ({"title": "t", "count": True}, "sheet.count: True is not a whole number"),
        ({"title": "t", "count": 1.0}, "sheet.count: 1.0 is not a whole number"),
        ({"title": "t", "share": "x"}, "sheet.share: 'x' is not a finite number"),
        ({"title": "t", "share": math.nan}, "sheet.share: nan is not a finite number"),
        ({"title": "t", "share": 10**400}, "sheet.share"),
        ({"title": "t", "is_open": 1}, "sheet.is_open: 1 is not true or false"),
        ({"title": "t", "size": "a3"}, "sheet.size: 'a3' is not one of its values"),
        ({"title": "t", "size": []}, "sheet.size: [] is not one of its values"),
        ({"title": "t", "shapes": {}}, "sheet.shapes: {} is not a list"),
        ({"title": "t", "shapes": [{"kind": "dot", "at": [1]}]}, "sheet.shapes[0].at: 1 values"),
        ({"title": "t", "shapes": [{"kind": "star"}]}, "sheet.shapes[0]: kind 'star' is not known"),
        ({"title": "t", "shapes": [{"kind": []}]}, "sheet.shapes[0]: kind [] is not known"),
        ({"title": "t", "shapes": [7]}, "sheet.shapes[0]: 7 is not a table"),
        ({"title": "t", "words": {"a": "b"}}, "sheet.words.a: 'b' is not a whole number"),
        ({"title": "t", "dims": [1.5]}, "sheet.dims[0]: 1.5 is not a string"),
        ({"title": "t", "colour": 1}, "sheet: unknown field 'colour'"),
    ],
)
def test_a_wrong_field_is_named_with_its_path(plain: object, words: str) -> None:
    with pytest.raises(BadInput) as caught:
        from_plain(Sheet, plain, where="sheet")
    assert words in str(caught.value)


def test_unknown_fields_are_ignored_only_where_asked() -> None:
    assert from_plain(Sheet, {"title": "t", "colour": 1}, where="s", unknown="ignore") == Sheet("t")
    with pytest.raises(UnknownWord):
        from_plain(Sheet, {"title": "t", "size": "a3"}, where="s", unknown="ignore")


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"{",
        b"\xff\xfe",
        b'{"a": NaN}',
        b"[-Infinity]",
        b"[1e999]",
        b'{"a": 1, "a": 2}',
        b"[" * 100_000,
        b"1" * 5000,
        b'{"a": 1} x',
    ],
)
def test_json_that_is_no_json_is_refused(raw: bytes) -> None:
    with pytest.raises(BadInput, match="thing"):
        parse_json(raw, where="thing")


def test_json_beyond_its_limit_is_refused_unread() -> None:
    with pytest.raises(BadInput, match="at most 10"):
        parse_json(b"[1,2,3,4,5,6]", where="thing", limit=10)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_no_record_with_nan_is_written(value: float) -> None:
    with pytest.raises(BadInput):
        to_json({"a": value})


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
scalars = st.one_of(
    st.booleans(), st.integers(-(2**60), 2**60), st.floats(allow_nan=False, allow_infinity=False), texts
)
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3), max_leaves=12
)


@given(st.dictionaries(texts, values, max_size=4))
def test_any_table_survives_toml(table: dict[str, object]) -> None:
    plain = to_plain(table)
    assert isinstance(plain, dict)
    assert parse_toml(dump_toml(plain), where="t") == plain


@pytest.mark.parametrize("text", ["a = ", "a = 1\na = 2", "a = " + "9" * 5000, "a = " + "[" * 5000, "[x"])
def test_toml_that_is_no_toml_is_refused(text: str) -> None:
    with pytest.raises(BadInput, match="not valid TOML"):
        parse_toml(text, where="file")
