"""Several bundles as one: a small graph of steps, a value with a TOML and JSON form. What executes it is elsewhere.

A step reads what earlier steps gave, by their names; the picture itself is `PICTURE`. Order in the list does not
matter: `order` gives one in which every step comes after what it reads.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final, Literal, cast

from edgekit.core.errors import BadInput
from edgekit.core.record import Plain, from_plain, to_plain
from edgekit.core.toml import dump_toml, parse_toml, read_toml

PICTURE: Final = "picture"
STEPS_LIMIT: Final = 64


@dataclass(frozen=True, slots=True)
class RunBundle:
    """Run a bundle on a picture; gives its task's result. `bundle` is a path, relative to the pipeline's file."""

    kind: ClassVar[Literal["bundle"]] = "bundle"
    name: str
    bundle: str
    picture: str = PICTURE


@dataclass(frozen=True, slots=True)
class Crop:
    """Cut the boxes or regions that `regions` found out of `picture`, turned upright; gives a list of pictures.

    `margin` is added on each side, in shares of the box's shorter side. At most `limit` of them, best first.
    """

    kind: ClassVar[Literal["crop"]] = "crop"
    name: str
    regions: str
    picture: str = PICTURE
    margin: float = 0.0
    limit: int = 100


@dataclass(frozen=True, slots=True)
class MapBundle:
    """Run a bundle on each picture of a list; gives a list of results in the same order."""

    kind: ClassVar[Literal["map"]] = "map"
    name: str
    bundle: str
    pictures: str


PipelineStep = RunBundle | Crop | MapBundle

_Gives = Literal["picture", "result", "pictures", "results"]
_GIVES: Final[dict[str, _Gives]] = {"bundle": "result", "crop": "pictures", "map": "results"}


@dataclass(frozen=True, slots=True)
class Pipeline:
    """Steps by name, and the step whose value is the answer. Raises `BadInput` for what cannot be executed."""

    steps: tuple[PipelineStep, ...]
    answer: str

    def __post_init__(self) -> None:
        if not 1 <= len(self.steps) <= STEPS_LIMIT:
            raise BadInput("pipeline", f"{len(self.steps)} steps", f"give 1 to {STEPS_LIMIT}")
        gives: dict[str, _Gives] = {PICTURE: "picture"}
        for step in self.steps:
            if step.name in gives or not step.name:
                raise BadInput("pipeline", f"the name '{step.name}' is taken or empty", "give each step its own name")
            gives[step.name] = _GIVES[step.kind]
        for step in self.steps:
            _check(step, gives)
        if self.answer not in gives or self.answer == PICTURE:
            raise BadInput("pipeline", f"the answer '{self.answer}' is no step", f"one of {', '.join(_names(self))}")
        self.order()

    def order(self) -> tuple[PipelineStep, ...]:
        """The steps so that each comes after what it reads, else in the order given. Raises `BadInput` for a circle."""
        done, waiting, ordered = {PICTURE}, list(self.steps), []
        while waiting:
            ready = next((step for step in waiting if done.issuperset(reads(step))), None)
            if ready is None:
                circle = ", ".join(f"'{step.name}'" for step in waiting)
                raise BadInput("pipeline", f"the steps {circle} wait for each other", "break the circle")
            waiting.remove(ready)
            done.add(ready.name)
            ordered.append(ready)
        return tuple(ordered)

    def bundles(self) -> tuple[str, ...]:
        """The bundles it runs, each once."""
        return tuple(dict.fromkeys(step.bundle for step in self.steps if not isinstance(step, Crop)))

    def to_toml(self) -> str:
        """TOML text that `from_toml` reads back to an equal value."""
        return dump_toml(cast(dict[str, Plain], to_plain(self)))

    @classmethod
    def from_plain(cls, plain: object, *, where: str = "pipeline") -> "Pipeline":
        """From its JSON or TOML form. Raises `BadInput` with the field's path."""
        return from_plain(cls, plain, where=where)

    @classmethod
    def from_toml(cls, text: str, *, where: str = "pipeline") -> "Pipeline":
        """From TOML text. Raises `BadInput`."""
        return cls.from_plain(parse_toml(text, where=where), where=where)

    @classmethod
    def read(cls, path: Path) -> "Pipeline":
        """From a TOML file. Raises `BadInput`."""
        return cls.from_plain(read_toml(path), where=str(path))


def reads(step: PipelineStep) -> tuple[str, ...]:
    """The names whose values a step reads."""
    return tuple(name for name, _ in _wants(step))


def _wants(step: PipelineStep) -> tuple[tuple[str, _Gives], ...]:
    """What a step reads, and of which kind each must be."""
    match step:
        case RunBundle():
            return ((step.picture, "picture"),)
        case Crop():
            return ((step.regions, "result"), (step.picture, "picture"))
        case MapBundle():
            return ((step.pictures, "pictures"),)


def _check(step: PipelineStep, gives: Mapping[str, _Gives]) -> None:
    where = f"pipeline step '{step.name}'"
    for name, kind in _wants(step):
        if name not in gives:
            raise BadInput(where, f"reads '{name}', which no step gives", f"one of {', '.join(gives)}")
        if gives[name] != kind:
            raise BadInput(where, f"reads '{name}', which gives {gives[name]}, as {kind}", "name another step")
    if isinstance(step, Crop) and not (0 <= step.margin <= 10 and 1 <= step.limit <= 10_000):
        raise BadInput(where, f"margin {step.margin}, limit {step.limit}", "give a margin 0..10 and a limit 1..10000")


def _names(pipeline: Pipeline) -> list[str]:
    return [step.name for step in pipeline.steps]
