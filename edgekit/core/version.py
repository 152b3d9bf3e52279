"""Version requirements: what a bundle asks of edgekit and of the runtimes, checked without a packaging library."""

import operator
import re
from collections.abc import Callable
from typing import Final

from edgekit.core.errors import BadInput, Unsupported

_CLAUSE: Final = re.compile(r"\s*(>=|<=|==|>|<)\s*(\d{1,9}(?:\.\d{1,9}){0,7})\s*\Z")
_RELEASE: Final = re.compile(r"\d{1,9}(?:\.\d{1,9})*")
_COMPARE: Final[dict[str, Callable[[tuple[int, ...], tuple[int, ...]], bool]]] = {
    ">=": operator.ge,
    "<=": operator.le,
    "==": operator.eq,
    ">": operator.gt,
    "<": operator.lt,
}


def satisfies(version: str, requirement: str) -> bool:
    """Whether a version meets every clause of a requirement. Only the numeric release counts ("2.4.0rc1" is 2.4).

    >>> satisfies("1.32.0", ">=1.20"), satisfies("0.1", ">=0.1.0,<0.1.5"), satisfies("2026.4.0-1a2b", "<2026")
    (True, True, False)
    """
    have = _release(version)
    return all(_COMPARE[sign](have, want) for sign, want in parse_requirement(requirement))


def parse_requirement(requirement: str) -> tuple[tuple[str, tuple[int, ...]], ...]:
    """The clauses of ">=1.20,<2". Raises `BadInput`."""
    clauses = []
    for part in requirement.split(","):
        found = _CLAUSE.match(part)
        if not found:
            raise BadInput(f"requirement '{requirement}'", f"'{part}' is no clause", "write it as '>=1.20,<2'")
        clauses.append((found[1], _release(found[2])))
    return tuple(clauses)


def demand(what: str, subject: str, version: str, requirement: str) -> None:
    """Refuse by name what needs another version. Raises `Unsupported`."""
    if not satisfies(version, requirement):
        raise Unsupported(what, f"needs {subject} {requirement}, here is {version}", f"install {subject} {requirement}")


def _release(version: str) -> tuple[int, ...]:
    found = _RELEASE.match(version)
    if not found:
        raise BadInput(f"version '{version}'", "does not begin with a number", "give a version such as 1.20.3")
    parts = [int(part) for part in found[0].split(".")]
    while parts and parts[-1] == 0:  # 1.20 and 1.20.0 are one version
        parts.pop()
    return tuple(parts)
