"""Which share of the multiply-accumulates is done in integers, as each runtime itself tells."""

from collections.abc import Iterator

import numpy as np

from benchmarks.bench import Figure, Outcome, Skipped, bench
from benchmarks.classifiers import CLASSIFIERS, Classifier, Variant, variants
from benchmarks.peers.files import NNCF_ONNX
from benchmarks.timing import call, timed
from benchmarks.world import Missing, World
from edgekit.compile.onnxruntime.integer_share import integer_share

LEAST_SHARE = 0.999


@bench()
def share(world: World) -> Iterator[Outcome]:
    """Integer share of each artifact; and why NNCF's ONNX file of EfficientNet-Lite0 is slow in ONNX Runtime."""
    for classifier in CLASSIFIERS:
        for variant in variants(world, classifier):
            value = variant.model(world).entry.integer_share
            name = f"{classifier.name}/{variant.label}"
            if value is None:
                yield Skipped(name, "the build could not count it")
            else:
                yield Figure(name, value, "share", "higher", LEAST_SHARE)
    lite0 = CLASSIFIERS[0]
    ours = next(each for each in variants(world, lite0) if each.runtime == NNCF_ONNX.runtime)
    try:
        yield from _peer(world, lite0, ours)
    except Missing as missing:
        yield Skipped(f"{lite0.name}/{NNCF_ONNX.name}", str(missing))


def _peer(world: World, classifier: Classifier, ours: Variant) -> Iterator[Outcome]:
    model, base = ours.model(world), ours.float_model(world)
    artifact = NNCF_ONNX.artifact(world, classifier, model)
    shape = classifier.preprocess().tensor_shape(480, 640)
    counted = integer_share(artifact, {model.entry.inputs[0].name: np.zeros(shape, np.float32)})
    floats = f"{len(counted.float_nodes)} convolutions and products stay float"
    name = f"{classifier.name}/{NNCF_ONNX.name}"
    yield Figure(f"{name}/share", counted.share, "share", "higher", note=floats)
    sessions = {"fp32": base.session(), "theirs": NNCF_ONNX.session(world, classifier, model)}
    times = timed(world, {n: call(s, classifier.preprocess()) for n, s in sessions.items()})
    found = times.ratio("fp32", "theirs")
    yield Figure(f"{name}/speed-over-fp32", found.speedup, "x", "higher", None, found.low, found.high, times.note)
