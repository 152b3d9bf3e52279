import contextlib
import io
import json
from pathlib import Path

import numpy as np
import pytest

from edgekit.core.average_precision import FoundBoxes, TrueBoxes, average_precision
from edgekit.core.truth import read_coco

IMAGES, CLASSES = 25, 4


def scene(seed: int) -> tuple[dict[str, list[dict[str, object]]], list[dict[str, object]]]:
    """Objects, some of them crowds, and detections of every kind: near, doubled, equal in score, in empty pictures."""
    rng = np.random.default_rng(seed)
    annotations: list[dict[str, object]] = []
    found: list[dict[str, object]] = []
    for image in range(1, IMAGES + 1):
        for _ in range(int(rng.integers(0, 7))):
            x, y, w, h = (float(v) for v in rng.uniform([0, 0, 5, 5], [300, 300, 120, 120]))
            category = int(rng.integers(1, CLASSES + 1)) * 10
            annotations.append(
                {
                    "id": len(annotations) + 1,
                    "image_id": image,
                    "category_id": category,
                    "bbox": [x, y, w, h],
                    "area": w * h,
                    "iscrowd": int(rng.random() < 0.15),
                }
            )
            for _ in range(int(rng.integers(0, 4))):
                near = [float(v) for v in np.array([x, y, w, h]) + rng.normal(0, 4, 4)]
                near[2:] = [max(1.0, side) for side in near[2:]]
                other = category if rng.random() < 0.9 else 10
                score = round(float(rng.random()), 1)
                found.append({"image_id": image, "category_id": other, "bbox": near, "score": score})
    truth = {
        "images": [{"id": i, "file_name": f"{i}.jpg", "width": 420, "height": 420} for i in range(1, IMAGES + 1)],
        "annotations": annotations,
        "categories": [{"id": 10 * i, "name": f"c{i}"} for i in range(1, CLASSES + 1)],
    }
    return truth, found


def as_found(found: list[dict[str, object]]) -> dict[str, FoundBoxes]:
    by_image: dict[str, list[dict[str, object]]] = {}
    for item in found:
        by_image.setdefault(f"{item['image_id']}.jpg", []).append(item)
    result = {}
    for name, items in by_image.items():
        boxes = np.array([item["bbox"] for item in items], np.float64)
        boxes[:, 2:] += boxes[:, :2]
        classes = np.array([item["category_id"] for item in items]) // 10 - 1
        result[name] = FoundBoxes(boxes, classes, np.array([item["score"] for item in items], np.float64))
    return result


@pytest.mark.parametrize("seed", range(6))
def test_equals_the_reference_implementation_with_crowds_and_ties(tmp_path: Path, seed: int) -> None:
    pytest.importorskip("pycocotools", reason="the reference implementation is not installed")
    from pycocotools.coco import COCO
    from pycocotools.cocoeval import COCOeval

    truth, found = scene(seed)
    path = tmp_path / "truth.json"
    path.write_text(json.dumps(truth))
    with contextlib.redirect_stdout(io.StringIO()):
        coco = COCO(str(path))
        judged = COCOeval(coco, coco.loadRes(found), "bbox")
        judged.evaluate()
        judged.accumulate()
        judged.summarize()
    ours = average_precision(read_coco(path).pictures, as_found(found))
    assert ours.map == pytest.approx(judged.stats[0], abs=1e-9)
    assert ours.map50 == pytest.approx(judged.stats[1], abs=1e-9)


def test_perfect_detections_give_one_and_none_give_zero() -> None:
    boxes = np.array([[0, 0, 10, 10], [20, 20, 40, 50]], np.float64)
    classes = np.array([0, 1])
    truth = {"a": TrueBoxes(boxes, classes, np.zeros(2, np.bool_))}
    assert average_precision(truth, {"a": FoundBoxes(boxes, classes, np.ones(2))}).map == pytest.approx(1.0)
    assert average_precision(truth, {}).map == 0.0


def test_no_objects_at_all_is_zero_not_nan() -> None:
    empty = TrueBoxes(np.empty((0, 4)), np.empty(0, np.intp), np.empty(0, np.bool_))
    assert average_precision({"a": empty}, {}).map == 0.0
