"""Frozen dataclasses to and from plain JSON or TOML values, strictly.

One rule for every record that is written down (manifest, preprocess, profile, pipeline): a field that is missing,
of another type, not finite or unknown is named with its path. A record in a closed set carries its `kind`.
Knows nothing of any particular record.
"""

import json
import math
import sys
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, Field, fields, is_dataclass
from functools import lru_cache
from typing import Final, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from edgekit.core.errors import BadInput

_KIND_NAMES: Final = {dict: "a table", list: "a list", str: "a string", bool: "true or false", int: "a whole number"}

Plain = None | bool | int | float | str | list["Plain"] | dict[str, "Plain"]
Unknown = Literal["refuse", "ignore"]
T = TypeVar("T")

JSON_LIMIT: Final = 64 * 1024 * 1024


class UnknownWord(BadInput):
    """A field, kind or value that this edgekit does not know; a newer one may."""


def to_plain(value: object) -> Plain:
    """The JSON form of a record. Fields that are None are left out. Raises `BadInput` for NaN and infinity."""
    if isinstance(value, float):
        if not math.isfinite(value):
            raise BadInput("a record", f"{value} has no JSON form", "give a finite number")
        return float(value)
    if value is None or isinstance(value, bool | int | str):
        return value
    if is_dataclass(value) and not isinstance(value, type):
        plain: dict[str, Plain] = {"kind": value.kind} if hasattr(value, "kind") else {}
        for field in fields(value):
            content = getattr(value, field.name)
            if content is not None:
                plain[field.name] = to_plain(content)
        return plain
    if isinstance(value, Mapping):
        return {str(key): to_plain(content) for key, content in value.items()}
    if isinstance(value, Sequence):
        return [to_plain(content) for content in value]
    raise TypeError(f"{type(value).__name__} is not part of any record")


def to_json(value: object) -> bytes:
    """Canonical JSON: UTF-8, sorted keys, no blanks, one line end; equal records give equal bytes."""
    text = json.dumps(to_plain(value), sort_keys=True, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.encode() + b"\n"


def parse_json(raw: bytes, *, where: str, limit: int = JSON_LIMIT) -> Plain:
    """Strict JSON: UTF-8, no NaN or Infinity, no key twice, at most `limit` bytes. Raises `BadInput` naming `where`."""
    if len(raw) > limit:
        raise BadInput(where, f"{len(raw)} bytes of JSON, at most {limit} are taken", "give the file it should be")
    try:
        text = raw.decode("utf-8-sig")
        plain = json.loads(text, object_pairs_hook=_unique(where), parse_constant=_refuse_constant, parse_float=_finite)
    except (ValueError, RecursionError) as error:
        raise BadInput(where, f"not valid JSON: {error}", "give the file as it was written") from error
    return cast(Plain, plain)


def from_plain(cls: type[T], plain: object, *, where: str, unknown: Unknown = "refuse") -> T:
    """The record of class `cls` that `plain` describes. Raises `BadInput` with the path of the first wrong field."""
    return cast(T, _record(cls, plain, where, unknown))


def value_from_plain(kind: object, plain: object, *, where: str, unknown: Unknown = "refuse") -> object:
    """As `from_plain`, for any type expression: a union of records with a `kind`, a tuple, a mapping, a scalar."""
    return _value(kind, plain, where, unknown)


def _unique(where: str) -> Callable[[list[tuple[str, Plain]]], dict[str, Plain]]:
    def hook(pairs: list[tuple[str, Plain]]) -> dict[str, Plain]:
        table = dict(pairs)
        if len(table) != len(pairs):
            keys = [key for key, _ in pairs]
            twice = next(key for key in keys if keys.count(key) > 1)
            raise BadInput(where, f"the key '{twice}' stands twice in one object", "keep one of them")
        return table

    return hook


def _refuse_constant(word: str) -> float:
    raise ValueError(f"{word} is not a JSON number")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text} is beyond the range of a number")
    return number


@lru_cache(maxsize=256)
def _hints(cls: type) -> dict[str, object]:
    return get_type_hints(cls)


def _record(cls: type, plain: object, where: str, unknown: Unknown) -> object:
    table = _table(plain, where)
    known: dict[str, Field[object]] = {field.name: field for field in fields(cls)}
    extra = sorted(set(table) - set(known) - ({"kind"} if hasattr(cls, "kind") else set()))
    if extra and unknown == "refuse":
        raise UnknownWord(where, f"unknown field '{extra[0]}'", f"known are {', '.join(known)}")
    values = {}
    for name, field in known.items():
        if name in table:
            values[name] = _value(_hints(cls)[name], table[name], f"{where}.{name}", unknown)
        elif field.default is MISSING and field.default_factory is MISSING:
            raise BadInput(where, f"field '{name}' is missing", "add it")
    return cls(**values)


def _value(kind: object, plain: object, where: str, unknown: Unknown) -> object:
    origin, parts = get_origin(kind), get_args(kind)
    if origin is Literal:
        if not isinstance(plain, str | int) or plain not in parts or isinstance(plain, bool):
            raise UnknownWord(
                where, f"{_shown(plain)} is not one of its values", f"one of {', '.join(map(str, parts))}"
            )
        return plain
    if origin in (Union, types.UnionType):
        return _union(parts, plain, where, unknown)
    if origin is tuple:
        return _tuple(parts, plain, where, unknown)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        table = _table(plain, where)
        return {key: _value(parts[1], content, f"{where}.{key}", unknown) for key, content in table.items()}
    if isinstance(kind, type) and is_dataclass(kind):
        return _record(kind, plain, where, unknown)
    return _scalar(cast(type, kind), plain, where)


def _union(parts: tuple[object, ...], plain: object, where: str, unknown: Unknown) -> object:
    if plain is None and type(None) in parts:
        return None
    choices = [part for part in parts if part is not type(None)]
    tagged = {part.kind: part for part in choices if isinstance(part, type) and hasattr(part, "kind")}
    if tagged:
        tag = _table(plain, where).get("kind")
        if not isinstance(tag, str) or tag not in tagged:
            raise UnknownWord(where, f"kind {_shown(tag)} is not known", f"one of {', '.join(tagged)}")
        return _record(tagged[tag], plain, where, unknown)
    for choice in choices[:-1]:  # plain scalars: int | str
        if isinstance(choice, type) and type(plain) is choice:
            return plain
    return _value(choices[-1], plain, where, unknown)


def _tuple(parts: tuple[object, ...], plain: object, where: str, unknown: Unknown) -> object:
    if not isinstance(plain, list):
        raise BadInput(where, f"{_shown(plain)} is not a list", "give a list")
    if len(parts) == 2 and parts[1] is Ellipsis:
        return tuple(_value(parts[0], item, f"{where}[{index}]", unknown) for index, item in enumerate(plain))
    if len(plain) != len(parts):
        raise BadInput(where, f"{len(plain)} values", f"give {len(parts)}")
    return tuple(
        _value(part, item, f"{where}[{index}]", unknown)
        for index, (part, item) in enumerate(zip(parts, plain, strict=True))
    )


def _scalar(kind: type, plain: object, where: str) -> object:
    if kind is float and type(plain) in (int, float) and abs(cast(float, plain)) <= sys.float_info.max:
        return float(cast(float, plain))
    if type(plain) is kind and kind is not float:
        return plain
    wanted = _KIND_NAMES.get(kind, "a finite number")
    raise BadInput(where, f"{_shown(plain)} is not {wanted}", f"give {wanted}")


def _table(plain: object, where: str) -> dict[str, object]:
    if not isinstance(plain, dict):
        raise BadInput(where, f"{_shown(plain)} is not a table of fields", "give a table")
    return plain


def _shown(plain: object) -> str:
    text = repr(plain)
    return text if len(text) <= 60 else text[:57] + "..."
