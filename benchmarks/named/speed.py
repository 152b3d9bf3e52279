"""INT8 against float, one thread, paired; and the float TFLite file against onnx2tf's."""

from collections.abc import Iterator
from typing import Final

import ai_edge_litert.schema_py_generated as schema

from benchmarks.bench import Figure, Outcome, Skipped, bench
from benchmarks.classifiers import CLASSIFIERS, RUNTIMES, Classifier, Variant, variants
from benchmarks.machine import cpu_class
from benchmarks.peers.files import ONNX2TF_FLOAT
from benchmarks.timing import call, timed
from benchmarks.world import Missing, World

BARS: Final = {  # INT8 over FP32; where nothing stands float may ship, and the manifest says so
    ("VNNI", "efficientnet-lite0"): {"onnxruntime": 1.75, "openvino": 2.1, "litert": 1.4},
    ("VNNI", "squeezenet"): {"onnxruntime": 2.2, "openvino": 2.8, "litert": 2.4},
    ("no VNNI", "efficientnet-lite0"): {"onnxruntime": 1.25, "openvino": 1.5},
    ("no VNNI", "squeezenet"): {"onnxruntime": 1.08, "openvino": 1.45},
}
MOST_OPERATORS: Final = 70
TIME_OVER_ONNX2TF: Final = 0.95


@bench()
def speed(world: World) -> Iterator[Outcome]:
    """INT8 over FP32 per model and runtime with 95 % bounds; operators and time of the float TFLite file."""
    for classifier in CLASSIFIERS:
        hosts = {each.runtime: each for each in reversed(variants(world, classifier))}  # the host's bundle comes first
        bars = BARS.get((cpu_class(world.host), classifier.name), {})
        for runtime in RUNTIMES:
            variant = hosts[runtime]
            sessions = {"fp32": variant.float_model(world).session(), "int8": variant.model(world).session()}
            times = timed(world, {n: call(s, classifier.preprocess()) for n, s in sessions.items()})
            found = times.ratio("fp32", "int8")
            name, bar = f"{classifier.name}/{runtime}/int8-over-fp32", bars.get(runtime)
            note = f"{found.base_ms:.2f} → {found.other_ms:.2f} ms; {times.note}"
            yield Figure(name, found.speedup, "x", "higher", bar, found.low, found.high, note)
    lite0 = CLASSIFIERS[0]
    yield from _float_tflite(world, lite0, next(v for v in variants(world, lite0) if v.runtime == "litert"))


def _float_tflite(world: World, classifier: Classifier, variant: Variant) -> Iterator[Outcome]:
    from edgekit.core.bundle import Bundle
    from edgekit.runtimes.reference import REFERENCE_BUNDLE, reference_folder

    ours = variant.float_model(world)
    with Bundle.open(reference_folder(variant.bundle) / REFERENCE_BUNDLE) as opened:
        (content,) = opened.artifact_files(ours.entry).values()
    name = f"{classifier.name}/litert float file"
    yield Figure(f"{name}/operators", _operators(content), "operators", "lower", MOST_OPERATORS)
    try:
        theirs = ONNX2TF_FLOAT.session(world, classifier, ours)
        note = f"onnx2tf's has {_operators(ONNX2TF_FLOAT.file(world, classifier).read_bytes()):.0f} operators"
    except Missing as missing:
        yield Skipped(f"{name}/time-over-onnx2tf", str(missing))
        return
    times = timed(
        world, {n: call(s, classifier.preprocess()) for n, s in {"ours": ours.session(), "theirs": theirs}.items()}
    )
    found = times.ratio("ours", "theirs")  # ours / theirs in time
    note = f"{note}; {found.base_ms:.2f} against {found.other_ms:.2f} ms; {times.note}"
    yield Figure(
        f"{name}/time-over-onnx2tf", found.speedup, "x", "lower", TIME_OVER_ONNX2TF, found.low, found.high, note
    )


def _operators(content: bytes) -> float:
    """Of all subgraphs of a TFLite file."""
    return float(sum(len(each.operators) for each in schema.ModelT.InitFromPackedBuf(content, 0).subgraphs))
