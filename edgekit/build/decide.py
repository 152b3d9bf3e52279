"""What ships, in which order: measured, then written down as choices. No reading of a clock leaves this module
except for the report."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from edgekit.build.candidates import Candidate, Golden
from edgekit.build.options import Precision, Prefer
from edgekit.quantize.recipe import Choice
from edgekit.runtimes.timing import Ratio, interleaved, ratio

QUALITY_LIMIT: Final = 0.5  # relative error of an output on real samples beyond which 8 bits carry no answer


@dataclass(frozen=True, slots=True)
class Pair:
    """The float and the 8-bit artifact of one runtime; the latter only where something is quantized."""

    runtime: str
    fp32: Candidate
    int8: Candidate | None


@dataclass(frozen=True, slots=True)
class Decision:
    """What one runtime ships, best first; `ratio` is None where nothing was timed."""

    runtime: str
    ships: tuple[Candidate, ...]
    choice: Choice
    ratio: Ratio | None = None


def decide(
    pair: Pair,
    golden: Sequence[Golden],
    prefer: Prefer,
    *,
    wanted: Precision | None,
    is_host: bool,
    given: Choice | None,
) -> Decision:
    """INT8 ships alone where it is right and the lower bound of its speed ratio is above 1; else float, saying why.

    Where nothing can be timed (another device, or the engine is not here) both ship and the device decides.
    `wanted`: ships whatever it is worth. `given`: a choice made before; it is repeated.
    """
    fp32, int8 = pair.fp32, pair.int8
    if int8 is None:
        why = "there is nothing to quantize" if wanted != "fp32" else _ASKED
        return Decision(pair.runtime, (fp32,), _choice(fp32, why))
    if wanted is not None:
        broken = _broken(int8, golden)
        why = _ASKED if broken is None else f"{_ASKED}, although {broken}"
        return Decision(pair.runtime, (int8,), _choice(int8, why))
    if given is not None:
        first, second = (int8, fp32) if given.precision == "int8" else (fp32, int8)
        both = given.why.startswith(_UNMEASURED)
        return Decision(pair.runtime, (first, second) if both else (first,), given)
    broken = _broken(int8, golden)
    if broken is not None:
        return Decision(pair.runtime, (fp32,), _choice(fp32, f"8 bits are not right: {broken}"))
    if not is_host or fp32.session is None or int8.session is None:
        return Decision(
            pair.runtime, (int8, fp32), _choice(int8, f"{_UNMEASURED}: the device times both on its first run")
        )
    measured = _time(fp32, int8, golden[0])
    if prefer == "accuracy":
        return Decision(pair.runtime, (fp32,), _measured(fp32, "accuracy was preferred"), measured)
    if measured.low > 1:
        return Decision(pair.runtime, (int8,), _measured(int8, "faster than float, with 95 % confidence"), measured)
    if prefer == "size":
        return Decision(
            pair.runtime, (int8,), _measured(int8, "size was preferred although 8 bits are not faster here"), measured
        )
    return Decision(
        pair.runtime, (fp32,), _measured(fp32, "8 bits are not faster here, with 95 % confidence"), measured
    )


_UNMEASURED: Final = "unmeasured"
_ASKED: Final = "the precision that was asked for"


def order(decisions: Sequence[Decision]) -> tuple[Candidate, ...]:
    """All that ships, fastest runtime first where speeds were read, then in the order of tables."""

    def key(decision: Decision) -> float:
        if decision.ratio is None:
            return float("inf")
        first = decision.ships[0]
        return decision.ratio.other_ms if first.precision == "int8" else decision.ratio.base_ms

    return tuple(c for d in sorted(decisions, key=key) for c in d.ships)


def _measured(candidate: Candidate, why: str) -> Choice:
    return Choice(candidate.precision, candidate.weights, why, measured=True)


def _choice(candidate: Candidate, why: str) -> Choice:
    return Choice(candidate.precision, candidate.weights, why)


def _broken(int8: Candidate, golden: Sequence[Golden]) -> str | None:
    for sample in golden:
        if sample.is_kept and sample.name in int8.errors:
            for name, error in int8.errors[sample.name].items():
                if not error <= QUALITY_LIMIT:
                    return f"the error of '{name}' on '{sample.name}' is {error:.2g} of its size"
    return None


def _time(fp32: Candidate, int8: Candidate, sample: Golden) -> Ratio:
    base, other = fp32.session, int8.session
    assert base is not None
    assert other is not None
    rounds = interleaved([lambda: base(sample.inputs), lambda: other(sample.inputs)])
    return ratio(rounds[:, 0], rounds[:, 1])
