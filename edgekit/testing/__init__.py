"""Contract suites for those who add an engine: subclass one in a test file and give its fixtures. Needs pytest."""

from edgekit.testing.runtime_contract import RuntimeContract

__all__ = ["RuntimeContract"]
