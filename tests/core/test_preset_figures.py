"""Each preset gives the published float figure of its model on real pictures: a wrong filter or order costs points."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from edgekit.core.average_precision import FoundBoxes, average_precision
from edgekit.core.images import decode_image
from edgekit.core.metrics import top_k
from edgekit.core.postprocess import Classification, Ctc, Detection, TextRegions, with_classes
from edgekit.core.presets import preset
from edgekit.core.results import Region, Text
from edgekit.core.truth import read_coco, read_labels

pytestmark = pytest.mark.slow

Array = NDArray[np.generic]
Call = Callable[[Array], dict[str, Array]]


def loaded(path: Path) -> Call:
    ort = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    options = ort.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 3
    session = ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    feed = session.get_inputs()[0].name
    return lambda x: dict(zip(names, session.run(None, {feed: x}), strict=True))


@pytest.mark.parametrize(
    ("model", "name", "background", "top1", "top5"),
    [
        ("efficientnet_lite0.onnx", "efficientnet-lite", 0, 0.8671, 0.9771),
        ("squeezenet1_1.onnx", "torchvision", 0, 0.6400, 0.8571),
        ("mobilenet_v1_0.25_128.onnx", "mobilenet-v1-128", 1, 0.4557, 0.7129),
    ],
)
def test_classifiers_reach_their_float_figures(
    shared: Path, model: str, name: str, background: int, top1: float, top5: float
) -> None:
    folder = shared / "data/imagenet/eval"
    labels = read_labels(folder / "labels.csv", folder=folder, classes=1000)
    run, prepare, task = loaded(shared / "data/models" / model), preset(name), Classification(background=background)
    scores = np.stack([task.scores(run(prepare(folder / file))) for file in labels])
    truth = np.array(list(labels.values()))
    assert len(labels) == 700
    assert round(top_k(scores, truth), 4) == top1
    assert round(top_k(scores, truth, 5), 4) == top5


def test_yolox_reaches_its_float_figure(shared: Path) -> None:
    truth = read_coco(shared / "data/coco/annotations.json", folder=shared / "data/coco/images")
    run, prepare = loaded(shared / "data/models/yolox_nano.onnx"), preset("yolox")
    task = Detection(classes=truth.classes, score=0.01, limit=10_000)
    found = {}
    for name in truth.pictures:
        tensor, geometry = prepare.prepare(shared / "data/coco/images" / name)
        boxes = task(run(tensor), geometry).boxes
        corners = np.array([(b.x0, b.y0, b.x1, b.y1) for b in boxes], np.float64).reshape(-1, 4)
        classes, scores = np.array([b.index for b in boxes], np.intp), np.array([b.score for b in boxes], np.float64)
        found[name] = FoundBoxes(corners, classes, scores)
    judged = average_precision(truth.pictures, found)
    # Boxes are clipped to the picture here, which the published figure's are not.
    assert (judged.map, judged.map50) == pytest.approx((0.3456, 0.5029), abs=0.003)


def overlap(region: Region, box: list[int]) -> float:
    """IoU of the region's upright hull with a true box."""
    points = np.array(region.corners)
    low, high = points.min(axis=0), points.max(axis=0)
    shared = np.prod(np.maximum(np.minimum(high, box[2:]) - np.maximum(low, box[:2]), 0))
    return float(shared / (np.prod(high - low) + (box[2] - box[0]) * (box[3] - box[1]) - shared))


def test_ocr_models_reach_their_float_figures(shared: Path, fetched: Path) -> None:
    onnx = pytest.importorskip("onnx", reason="onnx is not installed")
    detect, read, turn = (
        loaded(fetched / f"ch_{name}_infer.onnx") for name in ("PP-OCRv4_det", "PP-OCRv4_rec", "ppocr_mobile_v2.0_cls")
    )
    meta = onnx.load(fetched / "ch_PP-OCRv4_rec_infer.onnx").metadata_props
    listed = next(entry.value for entry in meta if entry.key == "character").split("\n")[:6623]
    reader = with_classes(Ctc(), ("", *listed, " "))
    lines = exact = loose = upright = hits = found = 0
    for page, rows in json.loads((shared / "data/ocr/truth.json").read_text()).items():
        picture = decode_image(shared / "data/ocr" / page)
        tensor, geometry = preset("ppocr-det").prepare(picture)
        regions = TextRegions()(detect(tensor), geometry).regions
        found += len(regions)
        for row in rows:
            x0, y0, x1, y1 = row["box"]
            crop = picture[max(0, y0 - 4) : y1 + 4, max(0, x0 - 4) : x1 + 4]
            result = reader(read(preset("ppocr-rec")(crop)))
            assert isinstance(result, Text)
            text = result.text.strip()
            lines, exact = lines + 1, exact + (text == row["text"])
            loose += text.replace(" ", "") == row["text"].replace(" ", "")
            for picked, want in ((crop, 0), (crop[::-1, ::-1], 1)):
                answer = Classification(activation="none", top=1)(turn(preset("ppocr-cls")(picked)))
                upright += answer.labels[0].index == want
            hits += max((overlap(region, row["box"]) for region in regions), default=0) >= 0.5
    assert lines == 91
    assert (hits / lines, hits / found) == pytest.approx((1.0, 0.9891), abs=1e-3)
    assert (exact / lines, loose / lines) == pytest.approx((0.6703, 1.0), abs=1e-4)
    assert upright / 2 / lines == pytest.approx(0.9945, abs=1e-4)
