import pytest

from edgekit.core.errors import BadInput, Unsupported
from edgekit.core.version import demand, parse_requirement, satisfies


@pytest.mark.parametrize(
    ("version", "requirement", "met"),
    [
        ("1.20", ">=1.20.0", True),
        ("1.20.0.0", "==1.20", True),
        ("1.9", ">=1.10", False),
        ("2.0rc1", ">=2.0", True),
        ("2026.4.0-20519-abc", ">=2025.0, <2027", True),
        ("1.32.0+cpu", "<=1.32", True),
        ("1.32.1", "<=1.32", False),
        ("0.1.0", ">0.1", False),
    ],
)
def test_releases_are_compared_as_numbers(version: str, requirement: str, met: bool) -> None:
    assert satisfies(version, requirement) is met


@pytest.mark.parametrize("requirement", ["", "1.0", ">=", "~=1.0", ">=1.0,", "=>1", ">=1.x", ">=" + "1" * 99])
def test_what_is_no_requirement_is_refused(requirement: str) -> None:
    with pytest.raises(BadInput):
        parse_requirement(requirement)


def test_a_version_without_a_number_is_refused() -> None:
    with pytest.raises(BadInput):
        satisfies("unknown", ">=1")


def test_a_demand_not_met_names_both_versions() -> None:
    with pytest.raises(Unsupported, match=r"needs edgekit >=9, here is 0.1.0"):
        demand("m.ekb", "edgekit", "0.1.0", ">=9")
