"""Every decision of a build as JSON: written out, edited by hand, given back.

The recipe holds decisions, not readings: no times, no folders. Integers of the weights are not JSON; they lie beside it
as `integers.npz` (see `edgekit.quantize.integers`) and are taken only while `parameters_digest` still fits.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Final

from edgekit.core.errors import BadInput
from edgekit.quantize.quantized import QParams
from edgekit.quantize.weights import WeightSet

RECIPE_FORMAT: Final = 1
GRANULARITIES: Final = ("channel", "tensor")


@dataclass(frozen=True, slots=True)
class Kept:
    """Which corrections a weight set keeps, and the held-out error with each candidate (smaller is better)."""

    round_by_output: bool
    bias: bool
    errors: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Choice:
    """What ships first for one runtime, and why in one sentence. `weights` is None for float; `measured`: by speed."""

    precision: str
    weights: WeightSet | None
    why: str
    measured: bool = False


@dataclass(frozen=True, slots=True)
class Recipe:
    """See module. Tensor and node names are the canonical graph's, as `edgekit check` prints them.

    `keep_float`: nodes that must not compute in integers (edit this). `activations` and `output_hint`:
    [scale, zero point] in the unsigned domain. `runtimes`: what each runtime ships first.
    """

    observer: str = "minmax"
    granularity: str = "channel"
    keep_float: tuple[str, ...] = ()
    integer_nodes: tuple[str, ...] = ()
    activations: Mapping[str, tuple[float, int]] = field(default_factory=dict)
    output_hint: Mapping[str, tuple[float, int]] = field(default_factory=dict)
    corrections: Mapping[str, Kept] = field(default_factory=dict)
    runtimes: Mapping[str, Choice] = field(default_factory=dict)
    order: tuple[str, ...] = ()
    model_sha256: str = ""
    format: int = RECIPE_FORMAT

    def to_json(self) -> str:
        """Sorted keys, one value a line; the same recipe gives the same text."""
        return json.dumps(asdict(self), indent=1, sort_keys=True, ensure_ascii=False, allow_nan=False) + "\n"

    @classmethod
    def from_json(cls, text: str, source: str = "recipe") -> "Recipe":
        """Raises `BadInput` naming the field that does not fit."""
        try:
            raw = json.loads(text)
        except json.JSONDecodeError as error:
            raise BadInput(source, f"not JSON: {error}", "give a recipe.json that a build wrote") from None
        if not isinstance(raw, dict) or raw.get("format") != RECIPE_FORMAT:
            raise BadInput(source, f"not a recipe of format {RECIPE_FORMAT}", "give a recipe.json that a build wrote")
        known = set(cls.__dataclass_fields__)
        if unknown := sorted(set(raw) - known):
            raise BadInput(source, f"unknown field '{unknown[0]}'", "known fields: " + ", ".join(sorted(known)))
        try:
            if raw.get("granularity", "channel") not in GRANULARITIES:
                raise ValueError(f"granularity is one of {', '.join(GRANULARITIES)}")
            return replace(
                cls(),
                **{
                    **{k: raw[k] for k in ("observer", "granularity", "model_sha256", "format") if k in raw},
                    **{k: _names(k, raw[k]) for k in ("keep_float", "integer_nodes", "order") if k in raw},
                    **{k: _parameters(raw[k]) for k in ("activations", "output_hint") if k in raw},
                    "corrections": {k: Kept(**v) for k, v in raw.get("corrections", {}).items()},
                    "runtimes": {k: Choice(**v) for k, v in raw.get("runtimes", {}).items()},
                },
            )
        except (TypeError, ValueError, AttributeError) as error:
            raise BadInput(
                source, f"a field does not fit: {error}", "compare with a recipe.json that a build wrote"
            ) from None

    def parameters_digest(self) -> str:
        """What the integers of the weights depend on, besides the calibration set."""
        corrections = {k: (each.round_by_output, each.bias) for k, each in self.corrections.items()}
        tensors = (sorted(self.activations.items()), sorted(self.output_hint.items()))
        parts = (self.model_sha256, self.granularity, sorted(self.integer_nodes), *tensors, sorted(corrections.items()))
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def _names(key: str, raw: object) -> tuple[str, ...]:
    if not isinstance(raw, list) or not all(isinstance(name, str) for name in raw):
        raise TypeError(f"{key} is a list of names")
    return tuple(raw)


def _parameters(raw: Mapping[str, tuple[float, int]]) -> dict[str, tuple[float, int]]:
    found = {name: (float(scale), int(zero)) for name, (scale, zero) in raw.items()}
    for name, (scale, zero) in found.items():
        if not (0 < scale < float("inf") and 0 <= zero <= 255):
            raise ValueError(f"'{name}' needs a scale above 0 and a zero point from 0 to 255, not {scale:g}, {zero}")
    return found


def pack(params: Mapping[str, QParams]) -> dict[str, tuple[float, int]]:
    """Parameters as a recipe keeps them."""
    return {name: (p.scale, p.zero_point) for name, p in params.items()}


def unpack(params: Mapping[str, tuple[float, int]]) -> dict[str, QParams]:
    """The inverse of `pack`."""
    return {name: QParams(scale, zero) for name, (scale, zero) in params.items()}
