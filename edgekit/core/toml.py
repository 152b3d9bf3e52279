"""TOML text for plain values: the standard library reads TOML and cannot write it.

Only what our records need: strings, numbers, truth values, lists, tables, lists of tables. Comments are not kept.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final, cast

from edgekit.core.errors import BadInput
from edgekit.core.files import read_input
from edgekit.core.record import Plain

_BARE: Final = re.compile(r"[A-Za-z0-9_-]+\Z")
_ESCAPES: Final = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}
TOML_LIMIT: Final = 4 * 1024 * 1024


def dump_toml(table: Mapping[str, Plain]) -> str:
    """The table as TOML text that `tomllib` reads back to an equal table. None values are left out.

    >>> print(dump_toml({"side": 224, "mean": [0.5, 1.0], "step": [{"kind": "crop"}]}))
    side = 224
    mean = [0.5, 1.0]
    <BLANKLINE>
    [[step]]
    kind = "crop"
    <BLANKLINE>
    """
    return "".join(_lines(table, ())).lstrip("\n")


def parse_toml(text: str, *, where: str) -> dict[str, Plain]:
    """The table in the text. Raises `BadInput` naming `where` and the line."""
    import tomllib  # a device that reads bundles only has no use for it

    try:
        return cast(dict[str, Plain], tomllib.loads(text))
    except (ValueError, RecursionError) as error:
        raise BadInput(where, f"not valid TOML: {error}", "correct the line named") from error


def read_toml(path: Path) -> dict[str, Plain]:
    """The table in the file. Raises `BadInput` where it is missing, not UTF-8 or not TOML."""
    raw = read_input(path, limit=TOML_LIMIT)
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise BadInput(str(path), f"not UTF-8 text: {error.reason}", "save it as UTF-8") from error
    return parse_toml(text, where=str(path))


def _lines(table: Mapping[str, Plain], path: tuple[str, ...]) -> list[str]:
    lines, below = [], []
    for key, value in table.items():
        name = ".".join(map(_key, (*path, key)))
        if value is None:
            continue
        if isinstance(value, dict):
            below += [f"\n[{name}]\n", *_lines(value, (*path, key))]
        elif isinstance(value, list) and value and all(isinstance(item, dict) for item in value):
            for item in cast(list[dict[str, Plain]], value):
                below += [f"\n[[{name}]]\n", *_lines(item, (*path, key))]
        else:
            lines.append(f"{_key(key)} = {_inline(value)}\n")
    return lines + below


def _key(key: str) -> str:
    return key if _BARE.match(key) else _quoted(key)


def _quoted(text: str) -> str:
    shown = "".join(_ESCAPES.get(c) or (c if c.isprintable() else f"\\U{ord(c):08x}") for c in text)
    return f'"{shown}"'


def _inline(value: Plain) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, int):
        return str(value)
    if isinstance(value, list):
        return "[" + ", ".join(_inline(item) for item in value) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_key(key)} = {_inline(item)}" for key, item in value.items()) + "}"
    raise TypeError("TOML has no null")
