"""The other quantizers on the same photos in the same run: nearer to float than the best of them, and as fast."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from benchmarks.bench import Figure, Outcome, Skipped, bench
from benchmarks.classifiers import CLASSIFIERS, RUNTIMES, Classifier, Variant, answers, photos, variants
from benchmarks.peers.files import PEERS, Peer
from benchmarks.timing import Timed, call, timed
from benchmarks.world import Missing, World
from edgekit.core.metrics import agreement, mean_kl, top_k
from edgekit.runtimes.runtime import Session

KL_OVER_BEST = 0.9
SPEED_OVER_FASTEST = 0.95


@dataclass(frozen=True, slots=True)
class _Entrant:
    """Ours or theirs, loaded; `competes_with` are the weights of the artifacts that it is compared with."""

    name: str
    runtime: str
    competes_with: frozenset[str]
    is_ours: bool
    session: Session

    @property
    def label(self) -> str:
        return f"{self.runtime}/{self.name}"


@bench()
def peers(world: World) -> Iterator[Outcome]:
    """KL, agreement, top-1 and time of edgekit's artifacts and of other quantizers', per model and runtime."""
    seen = photos(world)
    for classifier in CLASSIFIERS:
        found = variants(world, classifier)
        entrants, floats = [_ours(world, each) for each in found], _floats(world, found)
        for peer in PEERS:
            ours = next(each for each in found if each.runtime == peer.runtime)
            try:
                session = peer.session(world, classifier, ours.model(world))
            except Missing as missing:
                yield Skipped(f"{classifier.name}/{peer.runtime}/{peer.name}", str(missing))
                continue
            entrants.append(_Entrant(peer.name, peer.runtime, _classes(world, peer), False, session))
        rows = answers(world, classifier, {**floats, **{e.label: e.session for e in entrants}}, seen.files)
        for runtime in RUNTIMES:
            present = [e for e in entrants if e.runtime == runtime]
            times = timed(world, {e.label: call(e.session, classifier.preprocess()) for e in present})
            kl = {e.label: mean_kl(rows[runtime], rows[e.label]) for e in present}
            for entrant in present:
                name = f"{classifier.name}/{entrant.label}"
                got, scores = rows[entrant.label], rows[entrant.label][:, classifier.background :]
                yield Figure(f"{name}/kl", kl[entrant.label], "nats", "lower")
                yield Figure(f"{name}/agreement", agreement(rows[runtime], got), "share", "higher")
                yield Figure(f"{name}/top1", 100 * top_k(scores, seen.labels), "%", "higher")
                yield Figure(f"{name}/ms", times.ms(entrant.label), "ms", "lower")
            yield from _judged(classifier, runtime, present, kl, times)


def _ours(world: World, variant: Variant) -> _Entrant:
    name = f"edgekit {variant.weights}"
    return _Entrant(name, variant.runtime, frozenset({variant.weights}), True, variant.model(world).session())


def _floats(world: World, found: list[Variant]) -> Mapping[str, Session]:
    return {each.runtime: each.float_model(world).session() for each in found}


def _classes(world: World, peer: Peer) -> frozenset[str]:
    """Peers of both kinds compete with the weights that a saturating CPU runs; elsewhere each with its own kind."""
    assert peer.weights is not None
    return frozenset({peer.weights, world.host.weights_for(peer.runtime)} if world.host.saturates else {peer.weights})


def _judged(
    classifier: Classifier, runtime: str, present: list[_Entrant], kl: Mapping[str, float], times: Timed
) -> Iterator[Outcome]:
    theirs = [e for e in present if not e.is_ours]
    for own in (e for e in present if e.is_ours):
        rivals = [e for e in theirs if own.competes_with & e.competes_with]
        if not rivals:
            continue
        best = min(rivals, key=lambda e: kl[e.label])
        name, note = f"{classifier.name}/{own.label}", f"best of theirs: {best.name} {kl[best.label]:.4f}"
        value = kl[own.label] / kl[best.label]
        yield Figure(f"{name}/kl-over-best-peer", value, "x", "lower", KL_OVER_BEST, note=note)
    if not theirs:
        return
    own = next(e for e in present if e.is_ours)  # the host's bundle comes first
    fastest = min(theirs, key=lambda e: times.ms(e.label))
    found = times.ratio(fastest.label, own.label)
    yield Figure(
        f"{classifier.name}/{own.label}/speed-over-fastest-peer",
        found.speedup,
        "x",
        "higher",
        SPEED_OVER_FASTEST,
        found.low,
        found.high,
        f"fastest of theirs: {fastest.name} {times.ms(fastest.label):.2f} ms; {times.note}",
    )
