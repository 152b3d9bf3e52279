"""What a build of EfficientNet-Lite0 for three runtimes costs, and whether it gives the same bytes again."""

import hashlib
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from benchmarks.bench import Figure, Outcome, bench
from benchmarks.classifiers import CLASSIFIERS, calibration_folder, model_file
from benchmarks.processes import Cost, cost
from benchmarks.world import World
from edgekit.build.samples import image_files

MOST_CPU_S: Final = 120.0
MOST_PEAK_MIB: Final = 1.2 * 1024
MOST_GROWTH: Final = 1.05
FROM_CACHE_S: Final = 3.0
TIMES_MORE: Final = 10


@bench()
def build_cost(world: World) -> Iterator[Outcome]:
    """CPU time and peak memory of a build, with ten times the photos, from cache; and its bytes, built twice more."""
    photos = calibration_folder(world)
    with tempfile.TemporaryDirectory(prefix="edgekit-bench-") as scratch:
        folder = Path(scratch)
        first = _build(world, photos, folder / "first/lite0.ekb")
        count = len(image_files(photos))
        yield Figure(f"{count} photos/CPU time", first.cpu_s, "CPU-s", "lower", MOST_CPU_S)
        yield Figure(f"{count} photos/peak memory", first.peak_mib, "MiB", "lower", MOST_PEAK_MIB)
        yield from _same_bytes(world, photos, folder)
        yield from _from_cache(world, photos, folder)
        if not world.is_quick:
            yield from _ten_times(world, photos, folder, first)


def _same_bytes(world: World, photos: Path, folder: Path) -> Iterator[Outcome]:
    """The decided recipe in two more processes and folders; the file's own name is part of the manifest and stays."""
    recipe = str(folder / "first/lite0.report/recipe.json")
    digests = set()
    for name in ("second", "third/deeper"):
        output = folder / name / "lite0.ekb"
        _build(world, photos, output, "--recipe", recipe)
        digests.add(hashlib.sha256(output.read_bytes()).hexdigest())
    yield Figure("same recipe, other folders/identical bytes", float(len(digests) == 1), "yes", "higher", 1.0)
    first = hashlib.sha256((folder / "first/lite0.ekb").read_bytes()).hexdigest()
    yield Figure("and identical to the build that decided", float(digests == {first}), "yes", "higher")


def _from_cache(world: World, photos: Path, folder: Path) -> Iterator[Outcome]:
    state = folder / "state"
    _build(world, photos, folder / "kept/lite0.ekb", state=state)
    costs = [_build(world, photos, folder / f"again{i}/lite0.ekb", state=state) for i in range(3)]
    walls = sorted(each.wall_s for each in costs)
    note = f"least of three; {min(each.cpu_s for each in costs):.2f} CPU-s"
    yield Figure("from cache/wall time", walls[0], "s", "lower", FROM_CACHE_S, walls[0], walls[-1], note)


def _ten_times(world: World, photos: Path, folder: Path, first: Cost) -> Iterator[Outcome]:
    many = folder / "many"
    many.mkdir()
    for photo in image_files(photos):
        for copy in range(TIMES_MORE):
            (many / f"{copy}-{photo.name}").symlink_to(photo)
    found = _build(world, many, folder / "large/lite0.ekb")
    growth = found.peak_mib / first.peak_mib
    note = f"{first.peak_mib:.0f} → {found.peak_mib:.0f} MiB"
    yield Figure("1000 photos/memory over 100 photos", growth, "x", "lower", MOST_GROWTH, note=note)
    yield Figure("1000 photos/CPU time", found.cpu_s, "CPU-s", "lower")


def _build(world: World, photos: Path, output: Path, *more: str, state: Path | None = None) -> Cost:
    """One process; with `state` it keeps and finds builds there, without it does neither."""
    lite0 = CLASSIFIERS[0]
    output.parent.mkdir(parents=True)
    world.say(f"edgekit build … -o {output.parent.name}/{output.name} {' '.join(more[:2])}")
    words = ["build", str(model_file(world, lite0)), "--calibration", str(photos), "--preprocess", lite0.preset]
    words += ["--task", lite0.task, "--prefer", "size", "-o", str(output), *more]
    words += [] if state else ["--no-cache"]
    return cost(world.edgekit(*words), {"XDG_STATE_HOME": str(state or output.parent / "state")})
