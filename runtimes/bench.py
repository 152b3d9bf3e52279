"""Speed of a bundle here: 8 bits against float, per runtime, paired in one run."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from edgekit.core.bundle import Bundle
from edgekit.core.errors import EdgekitError, Unsupported
from edgekit.core.profile import detect_host
from edgekit.runtimes.model import Model
from edgekit.runtimes.reference import float_model, load_precision
from edgekit.runtimes.registry import installed
from edgekit.runtimes.timing import Ratio, interleaved, ratio

PAIRS: Final = 60
BUDGET_S: Final = 12.0


@dataclass(frozen=True, slots=True)
class Bench:
    """Per runtime the paired ratio; None in a ratio's place with a sentence in `missing` where one side is missing."""

    runtimes: dict[str, Ratio]
    single: dict[str, tuple[str, float]]  # runtime -> (precision, median ms) where there is only one side
    missing: dict[str, str]
    threads: int
    cpu: str
    vnni: bool


def bench(
    bundle: Path,
    *,
    threads: int,
    reference: Path | None = None,
    progress: Callable[[str], None] = lambda runtime: None,
) -> Bench:
    """Time every runtime of the bundle that is installed here. Raises `Unsupported` where none is."""
    with Bundle.open(bundle) as opened:
        names = list(dict.fromkeys(e.runtime for e in opened.manifest.artifacts))
    here = {each.name for each in installed()}
    host = detect_host()
    result = Bench({}, {}, {}, threads, cpu_name(), host.has_vnni)
    for name in names:
        if name not in here:
            result.missing[name] = "its engine is not installed here"
            continue
        progress(name)
        sides = {"fp32": float_model(bundle, name, threads=threads, reference=reference)}
        try:
            sides["int8"] = load_precision(bundle, name, "int8", threads=threads, reference=reference)
        except EdgekitError as error:
            sides["int8"] = None
            result.missing[name] = f"no INT8 side: {error.why}"
        if sides["fp32"] is None:
            result.missing[name] = "no float side: OUT.reference/ is not beside the bundle"
        present = {p: m for p, m in sides.items() if m is not None}
        calls = [_call(m) for m in present.values()]
        if not calls:
            continue
        rounds = interleaved(calls, pairs=PAIRS, budget_s=BUDGET_S)
        if len(calls) == 2:
            result.runtimes[name] = ratio(rounds[:, 0], rounds[:, 1])
        else:
            result.single[name] = (next(iter(present)), float(np.median(rounds) * 1e3))
    if not result.runtimes and not result.single:
        raise Unsupported(
            f"bundle {bundle}",
            "nothing in it can be timed here: " + "; ".join(f"{k}: {v}" for k, v in result.missing.items()),
            "install one of its runtimes",
        )
    return result


def _call(model: Model) -> Callable[[], object]:
    """One call on a fixed input: noise in the input's shape, free axes at 1 or as the preprocessing gives."""
    rng = np.random.default_rng(0)
    image = model.manifest.image_input()
    inputs = {}
    for port in model.session().inputs:
        shape = tuple(d if isinstance(d, int) else 1 for d in port.shape)
        if image is not None and image[0] == port.name:
            shape = image[1].tensor_shape(480, 640)
        kind = np.dtype(port.dtype).kind
        inputs[port.name] = (rng.random(shape) if kind == "f" else rng.integers(0, 2, shape)).astype(port.dtype)
    session = model.session()
    return lambda: session(inputs)


def cpu_name() -> str:
    """The processor's name as the kernel has it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return "unknown"
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown")
