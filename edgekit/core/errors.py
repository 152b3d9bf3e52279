"""One error tree: every failure says what, why, and what to do next.

Each subclass has one exit code (see `ExitCode`). Foreign exceptions are mapped to these at the seam that knows the
foreign library; nothing above a seam catches a library's own exceptions.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import ClassVar


class ExitCode(IntEnum):
    """Exit codes of every `edgekit` command."""

    DONE = 0
    FAULT = 1
    USAGE = 2
    PROMISE_NOT_KEPT = 3
    BAD_INPUT = 4
    UNSUPPORTED = 5
    ENVIRONMENT = 6
    INTERRUPTED = 130


class EdgekitError(Exception):
    """A failure that a person can act on: `what` failed, `why`, and the `remedy`."""

    exit_code: ClassVar[ExitCode] = ExitCode.FAULT

    def __init__(self, what: str, why: str, remedy: str) -> None:
        self.what, self.why, self.remedy = what, why, remedy
        super().__init__(f"{what}: {why}. Try: {remedy}")


class UsageError(EdgekitError):
    """The call itself is wrong: unknown option, missing or contradictory arguments."""

    exit_code = ExitCode.USAGE


class PromiseNotKept(EdgekitError):
    """The work is done, but a promise (accuracy budget, gate) was not kept; the best found is on disk."""

    exit_code = ExitCode.PROMISE_NOT_KEPT


class BadInput(EdgekitError):
    """A model, image, label file, calibration sample, bundle or patch is missing, damaged or not what it claims."""

    exit_code = ExitCode.BAD_INPUT


class Unsupported(EdgekitError):
    """An operator, runtime, shape, opset or format version that cannot be taken; always named."""

    exit_code = ExitCode.UNSUPPORTED


class EnvironmentFault(EdgekitError):
    """The machine lacks something: an extra, disk space, rights, a service."""

    exit_code = ExitCode.ENVIRONMENT


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why one runtime cannot take one node of a model. Shown by `edgekit check`, kept in the manifest."""

    runtime: str
    node: str
    op: str
    reason: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.runtime} cannot run '{self.node}' ({self.op}): {self.reason}. Try: {self.remedy}"


class RuntimeRefuses(Unsupported):
    """A runtime refuses the model; carries one `Refusal` per node."""

    def __init__(self, refusals: Sequence[Refusal]) -> None:
        self.refusals = tuple(refusals)
        first = self.refusals[0]
        more = f" (and {len(self.refusals) - 1} more nodes)" if len(self.refusals) > 1 else ""
        super().__init__(f"{first.runtime} cannot run '{first.node}' ({first.op}){more}", first.reason, first.remedy)
