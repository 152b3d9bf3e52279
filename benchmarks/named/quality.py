"""How near the 8-bit artifacts are to the float model, and to each other, on photos that decided nothing."""

from collections.abc import Iterator
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from benchmarks.bench import Figure, Outcome, bench
from benchmarks.classifiers import CLASSIFIERS, Classifier, Floats, Photos, Variant, answers, photos, variants
from benchmarks.world import World
from edgekit.core.metrics import agreement, mean_kl, top_k

TOP1_POINTS = 1.0


@bench()
def quality(world: World) -> Iterator[Outcome]:
    """KL, agreement and top-1 of each 8-bit artifact against the float one of its runtime, and among artifacts."""
    seen = photos(world)
    for classifier in CLASSIFIERS:
        found = variants(world, classifier)
        sessions = {each.label: each.model(world).session() for each in found}
        floats = {each.runtime: each.float_model(world).session() for each in found}
        rows = answers(world, classifier, {**sessions, **floats}, seen.files)
        for variant in found:
            yield from _against_float(classifier, variant, rows[variant.runtime], rows[variant.label], seen)
        yield from _among(classifier, found, rows)


def _against_float(
    classifier: Classifier, variant: Variant, want: Floats, got: Floats, seen: Photos
) -> Iterator[Outcome]:
    name = f"{classifier.name}/{variant.label}"
    yield Figure(f"{name}/kl", mean_kl(want, got), "nats", "lower", classifier.kl[variant.weights])
    yield Figure(f"{name}/agreement", agreement(want, got), "share", "higher", classifier.agreement)
    first, second = (100 * top_k(rows[:, classifier.background :], seen.labels) for rows in (want, got))
    note = f"top-1 {first:.2f} → {second:.2f}"
    yield Figure(f"{name}/top1-lost", first - second, "points", "lower", TOP1_POINTS, note=note)


def _among(classifier: Classifier, found: list[Variant], rows: dict[str, Floats]) -> Iterator[Outcome]:
    for one, other in combinations(found, 2):
        is_same = one.weights == other.weights
        name = f"{classifier.name}/{one.label}~{other.label}/agreement"
        first, second = rows[one.label], rows[other.label]
        tied = _tied(first) | _tied(second)
        note = f"{agreement(first[~tied], second[~tied]):.4f} where one class is best; {tied.mean():.1%} have two"
        bar = classifier.same if is_same else classifier.across
        yield Figure(name, agreement(first, second), "share", "higher", bar, note=note)


def _tied(rows: Floats) -> NDArray[np.bool_]:
    """Photos whose two best logits are equal: a last layer rounded to 8 bits leaves the answer to chance."""
    best = np.partition(rows, -2, axis=1)[:, -2:]
    tied: NDArray[np.bool_] = best[:, 0] == best[:, 1]
    return tied
