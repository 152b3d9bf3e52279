"""The float side of a bundle: in the bundle itself, or in the reference folder that the build wrote beside it."""

from pathlib import Path
from typing import Final

from edgekit.core.errors import EnvironmentFault, Unsupported
from edgekit.runtimes.model import Model, load

REFERENCE_BUNDLE: Final = "reference.ekb"


def reference_folder(bundle: Path) -> Path:
    """Where `edgekit build` puts it: m.ekb -> m.reference/."""
    return bundle.with_suffix(".reference")


def load_precision(
    bundle: Path,
    runtime: str | None,
    precision: str | None,
    *,
    threads: int | None = None,
    reference: Path | None = None,
    state: Path | None = None,
) -> Model:
    """As `load`; a precision that the bundle does not hold is looked for in the reference folder.

    Raises `Unsupported` where neither holds it.
    """
    try:
        return load(bundle, runtime, threads, precision=precision, state=state)
    except Unsupported:
        beside = (reference or reference_folder(bundle)) / REFERENCE_BUNDLE
        if precision is None or not beside.is_file():
            raise
        return load(beside, runtime, threads, precision=precision, state=state)


def float_model(
    bundle: Path,
    runtime: str | None,
    *,
    threads: int | None = None,
    reference: Path | None = None,
    state: Path | None = None,
) -> Model | None:
    """The float artifact of that runtime, or None where it is nowhere."""
    try:
        return load_precision(bundle, runtime, "fp32", threads=threads, reference=reference, state=state)
    except (Unsupported, EnvironmentFault):
        return None
