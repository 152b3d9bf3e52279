import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgekit.core.errors import BadInput
from edgekit.core.truth import read_coco, read_labels


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    folder = tmp_path / "pictures"
    folder.mkdir()
    for name in ("a.jpg", "b.jpg"):
        (folder / name).write_bytes(b"x")
    return folder


def test_labels_are_read_in_order_whatever_else_the_file_holds(tmp_path: Path, pictures: Path) -> None:
    path = tmp_path / "labels.csv"
    path.write_bytes('\ufeffname,label,file\r\nlion, 291,b.jpg\r\n"cat, small",0,a.jpg\r\n'.encode())
    labels = read_labels(path, folder=pictures, classes=292)
    assert list(labels.items()) == [("b.jpg", 291), ("a.jpg", 0)]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "no column 'file'; its first line holds nothing"),
        ("file,label\n", "no labels in it"),
        ("a.jpg,3\n", "no column 'file'; its first line holds a.jpg, 3"),
        ("file,class\na.jpg,3\n", "no column 'label'"),
        ("file,label\na.jpg,tench\n", "line 2: label 'tench' is not a class index"),
        ("file,label\na.jpg,1.0\n", "line 2: label '1.0'"),
        ("file,label\na.jpg,-1\n", "line 2: label '-1'"),
        ("file,label\na.jpg,²\n", "line 2: label '²'"),
        ("file,label\na.jpg\n", "line 2: label ''"),
        ("file,label\na.jpg,10\n", "label 10, but the model has 10 classes"),
        ("file,label\na.jpg,1\nc.jpg,2\n", "line 3: 'c.jpg' is not in"),
        ("file,label\na.jpg,1\na.jpg,2\n", "line 3: file 'a.jpg' stands twice"),
        ("file,label\n,2\n", "line 2: no file name"),
        ('file,label\n"a.jpg,1\n', "not a readable CSV"),
    ],
)
def test_a_wrong_label_file_is_refused_with_its_line(tmp_path: Path, pictures: Path, content: str, words: str) -> None:
    path = tmp_path / "labels.csv"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(BadInput) as caught:
        read_labels(path, folder=pictures, classes=10)
    assert words in str(caught.value)


def test_a_picture_or_a_folder_is_no_label_file(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_bytes(b"\x89PNG\r\n\x1a\n\xff\xfe")
    for path in (tmp_path / "x.csv", tmp_path, tmp_path / "missing.csv"):
        with pytest.raises(BadInput):
            read_labels(path)


def coco() -> dict[str, Any]:
    return {
        "images": [{"id": 5, "file_name": "a.jpg", "width": 9}, {"id": 7, "file_name": "b.jpg"}],
        "annotations": [{"image_id": 5, "category_id": 90, "bbox": [1, 2, 3, 4], "iscrowd": 1, "segmentation": []}],
        "categories": [{"id": 90, "name": "dog"}, {"id": 3, "name": "cat"}],
    }


def test_boxes_are_corners_and_classes_follow_the_ids(tmp_path: Path, pictures: Path) -> None:
    path = tmp_path / "coco.json"
    path.write_text(json.dumps(coco()))
    truth = read_coco(path, folder=pictures)
    assert truth.classes == ("cat", "dog")
    np.testing.assert_array_equal(truth.pictures["a.jpg"].boxes, [[1, 2, 4, 6]])
    assert truth.pictures["a.jpg"].classes.tolist() == [1]
    assert truth.pictures["a.jpg"].crowd.tolist() == [True]
    assert truth.pictures["b.jpg"].boxes.shape == (0, 4)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda c: c.pop("categories"), "field 'categories' is missing"),
        (lambda c: c.update(images=[]), "image 5 is not in the file"),
        (lambda c: c.update(images=[], annotations=[]), "no pictures"),
        (lambda c: c["annotations"][0].update(image_id=1), "image 1 is not in the file"),
        (lambda c: c["annotations"][0].update(category_id=1), "category 1 is not in the file"),
        (lambda c: c["annotations"][0].update(bbox=[1, 2, 3]), "annotations[0].bbox: 3 values"),
        (lambda c: c["images"][1].update(file_name="a.jpg"), "stands twice"),
        (lambda c: c["images"][1].update(file_name="c.jpg"), "'c.jpg' is not in"),
    ],
)
def test_a_wrong_coco_file_is_refused_by_name(tmp_path: Path, pictures: Path, change: Any, words: str) -> None:  # noqa: ANN401
    plain = coco()
    change(plain)
    (tmp_path / "coco.json").write_text(json.dumps(plain))
    with pytest.raises(BadInput) as caught:
        read_coco(tmp_path / "coco.json", folder=pictures)
    assert words in str(caught.value)


def test_a_label_csv_given_as_coco_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text("file,label\na,1\n")
    with pytest.raises(BadInput, match="not valid JSON"):
        read_coco(tmp_path / "x.json")
