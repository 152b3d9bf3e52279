import json
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from edgekit.core.errors import BadInput, UsageError
from edgekit.core.geometry import Geometry, Letterbox, geometry_of
from edgekit.core.postprocess import (
    TASKS,
    Classification,
    Ctc,
    Detection,
    Postprocess,
    Raw,
    TextRegions,
    looks_like_probabilities,
    postprocess_from_plain,
    postprocess_from_toml,
    postprocess_to_toml,
    read_classes,
    read_postprocess,
    task,
    with_classes,
)
from edgekit.core.record import to_json
from edgekit.core.results import Result

Outputs = dict[str, NDArray[np.generic]]
SQUARE = Geometry((64, 64), (64, 64))


def detector_row(stride: int, column: int, row: int, size: float, classes: dict[int, float]) -> tuple[int, list[float]]:
    """The place and the numbers of one YOLOX row for a box of `size` centred in its cell, in a frame of 64 x 64."""
    start = {8: 0, 16: 64, 32: 80}[stride]
    scores = [classes.get(index, 0.0) for index in range(3)]
    return start + row * (64 // stride) + column, [0.5, 0.5, np.log(size / stride), np.log(size / stride), 1.0, *scores]


def detector(*rows: tuple[int, list[float]]) -> Outputs:
    output = np.zeros((1, 84, 8), np.float32)
    for place, numbers in rows:
        output[0, place] = numbers
    return {"output": output}


def test_the_best_classes_come_first_with_their_names() -> None:
    scores = np.array([[0.0, 3.0, 1.0, 2.0]], np.float32)
    found = Classification(classes=("a", "b", "c", "d"), top=2)({"y": scores})
    assert [(label.index, label.name) for label in found.labels] == [(1, "b"), (3, "d")]
    assert found.labels[0].score == pytest.approx(np.exp(3) / np.exp([0, 3, 1, 2]).sum())


def test_background_is_left_out_and_ties_go_to_the_lower_index() -> None:
    scores = np.array([[9.0, 1.0, 1.0]], np.float32)
    found = Classification(classes=("cat", "dog"), background=1, activation="none")({"y": scores})
    assert [(label.index, label.name, label.score) for label in found.labels] == [(0, "cat", 1.0), (1, "dog", 1.0)]


def test_missing_class_names_are_empty_and_rows_of_a_batch_are_chosen() -> None:
    scores = np.array([[1.0, 0.0], [0.0, 1.0]], np.float32)
    found = Classification(top=1)({"y": scores}, row=1)
    assert (found.labels[0].index, found.labels[0].name) == (1, "")
    mean = Classification(top=1)({"y": scores.reshape(2, 2, 1, 1)}, row=0)
    assert mean.labels[0].index == 0


def test_huge_scores_do_not_overflow() -> None:
    scores = np.array([[1e30, -1e30, 0.0]], np.float32)
    assert Classification(top=1)({"y": scores}).labels[0].score == 1.0
    sigmoid = Classification(top=3, activation="sigmoid")({"y": scores})
    assert [label.score for label in sigmoid.labels] == [1.0, 0.5, 0.0]


def test_yolox_rows_become_boxes_of_the_picture() -> None:
    geometry = geometry_of((Letterbox(64, 64),), 128, 96)  # scaled by one half
    outputs = detector(detector_row(8, 3, 2, 16, {1: 0.9}), detector_row(32, 0, 1, 20, {2: 0.5}))
    found = Detection(classes=("a", "b", "c"))(outputs, geometry).boxes
    assert [(box.name, round(box.score, 3)) for box in found] == [("b", 0.9), ("c", 0.5)]
    assert (found[0].x0, found[0].y0, found[0].x1, found[0].y1) == pytest.approx((40, 24, 72, 56), abs=1e-3)
    assert found[1].x0 == pytest.approx(12, abs=1e-3)


def test_suppression_stays_within_a_class() -> None:
    same = detector(detector_row(8, 3, 3, 16, {1: 0.9}), detector_row(8, 3, 4, 30, {1: 0.8, 2: 0.7}))
    place = detector_row(8, 3, 3, 16, {})[0]
    same["output"][0, place + 1] = same["output"][0, place]
    same["output"][0, place + 1, 0] = -0.4
    found = Detection(overlap=0.5)(same, SQUARE).boxes
    assert [(box.index, round(box.score, 1)) for box in found] == [(1, 0.9), (1, 0.8), (2, 0.7)]


def test_a_detector_that_finds_nothing_gives_no_boxes() -> None:
    assert Detection()(detector(), SQUARE).boxes == ()


def test_detection_refuses_other_shapes_and_a_missing_geometry() -> None:
    with pytest.raises(BadInput, match="84 rows, but strides"):
        Detection()(detector(), Geometry((32, 32), (32, 32)))
    with pytest.raises(BadInput, match="geometry"):
        Detection()(detector())
    with pytest.raises(BadInput, match="boxes, 5"):
        Detection()({"y": np.zeros((1, 10), np.float32)}, SQUARE)


def text_map(*rectangles: tuple[int, int, int, int], value: float = 0.9) -> Outputs:
    chart = np.zeros((1, 1, 64, 64), np.float32)
    for y0, y1, x0, x1 in rectangles:
        chart[0, 0, y0:y1, x0:x1] = value
    return {"map": chart}


def test_lines_of_text_are_enlarged_and_ordered_from_the_top() -> None:
    found = TextRegions()(text_map((40, 46, 5, 45), (10, 16, 20, 60)), SQUARE).regions
    wider = 40 * 6 * 1.6 / (40 + 6) / 2
    assert found[0].corners[0] == pytest.approx((20 - wider, 10 - wider), abs=0.01)
    assert found[1].corners[0] == pytest.approx((5 - wider, 40 - wider), abs=0.01)
    assert found[0].corners[2] == pytest.approx((64, 16 + wider), abs=0.01)  # clipped
    assert found[0].score == pytest.approx(0.9)


def test_weak_small_and_absent_lines_are_no_regions() -> None:
    assert TextRegions()(text_map((10, 20, 5, 45), value=0.4), SQUARE).regions == ()
    assert TextRegions()(text_map((10, 12, 5, 45)), SQUARE).regions == ()
    assert TextRegions()(text_map(), SQUARE).regions == ()
    with pytest.raises(BadInput, match="geometry"):
        TextRegions()(text_map())


def test_ctc_joins_repeats_and_leaves_blanks_out() -> None:
    path = [0, 1, 1, 0, 1, 2, 2, 0, 3]
    steps = np.full((1, len(path), 4), 0.1, np.float32)
    steps[0, np.arange(len(path)), path] = 0.7
    found = Ctc(classes=("", "a", "b", " "))({"y": steps})
    assert found.text == "aab "
    assert found.score == pytest.approx(0.7)
    empty = np.zeros((1, 3, 4), np.float32)
    empty[..., 0] = 1
    assert Ctc(classes=("", "a", "b", " "))({"y": empty}) == type(found)("", 0.0)
    with pytest.raises(BadInput, match=r"\[N, T, 2\]"):
        Ctc(classes=("", "a"))({"y": steps})


def test_raw_outputs_are_summarised_without_nan() -> None:
    outputs: Outputs = {
        "x": np.array([[1.0, np.nan, np.inf, 3.0]], np.float32),
        "none": np.array([np.nan]),
        "empty": np.zeros((0, 3)),
        "flags": np.array([True, False]),
        "scalar": np.array(7, np.int64),
    }
    found = Raw()(outputs)
    assert (found.tensors[0].low, found.tensors[0].high, found.tensors[0].nonfinite) == (1.0, 3.0, 2)
    assert found.tensors[1].mean is None
    assert json.loads(to_json(found))["tensors"][3]["mean"] == 0.5


@pytest.mark.parametrize("post", [Classification(), Detection(), TextRegions(), Ctc()])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_outputs_that_are_not_finite_are_refused_by_name(post: Postprocess, value: float) -> None:
    with pytest.raises(BadInput, match="'scores': holds NaN"):
        post({"scores": np.full((1, 3, 8), value, np.float32)}, SQUARE)


@pytest.mark.parametrize("post", [Classification("no"), Detection("no"), TextRegions("no"), Ctc("no")])
def test_an_output_that_is_not_there_is_named(post: Postprocess) -> None:
    with pytest.raises(BadInput, match=r"output 'no': the model has no such output. Try: one of scores"):
        post({"scores": np.zeros((1, 3, 8), np.float32)}, SQUARE)


RESULTS: list[Result] = [
    Classification()({"y": np.ones((1, 3), np.float32)}),
    Detection()(detector(detector_row(8, 3, 2, 16, {1: 0.9})), SQUARE),
    TextRegions()(text_map((10, 20, 5, 45)), SQUARE),
    Ctc(classes=("", "a"))({"y": np.ones((1, 1, 2), np.float32)}),
    Raw()({"y": np.ones(2)}),
]


@pytest.mark.parametrize("result", RESULTS)
def test_every_result_has_a_json_form_that_says_its_kind(result: Result) -> None:
    assert json.loads(to_json(result))["kind"] == result.kind


@pytest.mark.parametrize("name", TASKS)
def test_every_task_survives_toml_and_a_file(name: str, tmp_path: Path) -> None:
    post = task(name)
    assert postprocess_from_toml(postprocess_to_toml(post)) == post
    (tmp_path / "task.toml").write_text(postprocess_to_toml(post))
    assert read_postprocess(tmp_path / "task.toml") == post


@pytest.mark.parametrize(
    ("plain", "words"),
    [
        ({}, "kind None is not known"),
        ({"kind": "poses"}, "kind 'poses' is not known"),
        ({"kind": "detection", "score": "high"}, "task.score"),
        ({"kind": "classification", "colour": 1}, "unknown field 'colour'"),
    ],
)
def test_a_wrong_task_is_refused_with_its_field(plain: object, words: str) -> None:
    with pytest.raises(BadInput) as caught:
        postprocess_from_plain(plain)
    assert words in str(caught.value)


def test_unknown_task_names_list_the_others() -> None:
    with pytest.raises(UsageError, match="one of classification, classification-background, yolox"):
        task("imagenet")


def test_class_names_come_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "classes.txt"
    path.write_bytes("tench\r\ngoldfish, Carassius\r\nçat\r\n".encode())
    assert read_classes(path) == ("tench", "goldfish, Carassius", "çat")
    named = with_classes(Classification(), read_classes(path))
    assert isinstance(named, Classification)
    assert named.classes[1] == "goldfish, Carassius"
    with pytest.raises(UsageError):
        with_classes(Raw(), ("a",))
    for content, words in ((b"", "no class names"), (b"\xff\xfea", "not UTF-8"), (b"a\0b", "no class names")):
        path.write_bytes(content)
        with pytest.raises(BadInput, match=words):
            read_classes(path)


def test_distributions_are_told_from_scores() -> None:
    assert looks_like_probabilities(np.array([[0.2, 0.8]]))
    assert not looks_like_probabilities(np.array([[0.2, 3.0]]))
    assert not looks_like_probabilities(np.array([[-0.2, 1.2]]))
    assert not looks_like_probabilities(np.array([[np.nan, 1.0]]))
