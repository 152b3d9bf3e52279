"""What is known about evaluation pictures: a CSV of labels, or COCO's JSON of boxes."""

import csv
import io
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from edgekit.core.average_precision import TrueBoxes
from edgekit.core.errors import BadInput
from edgekit.core.files import read_input
from edgekit.core.record import from_plain, parse_json

_LABELS_LIMIT: Final = 256 * 1024 * 1024
_COLUMNS: Final = ("file", "label")


def read_labels(path: Path, *, folder: Path | None = None, classes: int | None = None) -> dict[str, int]:
    """Class indices by file name, in the order of the CSV (columns `file` and `label`, others ignored).

    `folder`: each file must be there. `classes`: each label must be below it. Raises `BadInput` with the line.
    """
    try:
        text = read_input(path, limit=_LABELS_LIMIT).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise BadInput(str(path), f"not UTF-8 text: {error.reason}", "save it as CSV in UTF-8") from error
    labels: dict[str, int] = {}
    try:
        rows = csv.DictReader(io.StringIO(text, newline=""), strict=True)
        missing = [column for column in _COLUMNS if column not in (rows.fieldnames or ())]
        if missing:
            has = ", ".join(rows.fieldnames or ()) or "nothing"
            raise BadInput(str(path), f"no column '{missing[0]}'; its first line holds {has[:100]}", "name it there")
        for row in rows:
            name, label = row["file"], row["label"]
            where = f"{path}, line {rows.line_num}"
            if not name or name in labels:
                raise BadInput(where, f"file '{name}' stands twice" if name else "no file name", "correct the line")
            labels[name] = _index(label, classes, where)
            if folder is not None and not (folder / name).is_file():
                raise BadInput(where, f"'{name}' is not in {folder}", "correct the name or add the picture")
    except csv.Error as error:
        raise BadInput(str(path), f"not a readable CSV: {error}", "save it as CSV in UTF-8") from error
    if not labels:
        raise BadInput(str(path), "no labels in it", "add one line per picture: file,label")
    return labels


def _index(text: str | None, classes: int | None, where: str) -> int:
    stripped = (text or "").strip()
    if not (stripped.isascii() and stripped.isdigit()) or len(stripped) > 9:
        raise BadInput(where, f"label '{stripped}' is not a class index", "give a whole number from 0")
    label = int(stripped)
    if classes is not None and label >= classes:
        raise BadInput(where, f"label {label}, but the model has {classes} classes", "give an index below that")
    return label


@dataclass(frozen=True, slots=True)
class _Picture:
    id: int
    file_name: str


@dataclass(frozen=True, slots=True)
class _Category:
    id: int
    name: str


@dataclass(frozen=True, slots=True)
class _Object:
    image_id: int
    category_id: int
    bbox: tuple[float, float, float, float]
    iscrowd: int = 0


@dataclass(frozen=True, slots=True)
class _Coco:
    images: tuple[_Picture, ...]
    annotations: tuple[_Object, ...]
    categories: tuple[_Category, ...]


@dataclass(frozen=True, slots=True)
class BoxTruth:
    """The objects of each picture by file name; class i is the i-th category in the order of COCO's ids."""

    pictures: Mapping[str, TrueBoxes]
    classes: tuple[str, ...]


def read_coco(path: Path, *, folder: Path | None = None) -> BoxTruth:
    """The boxes in a COCO JSON file (instances). `folder`: each picture must be there. Raises `BadInput`."""
    raw = read_input(path, limit=_LABELS_LIMIT)
    plain = parse_json(raw, where=str(path), limit=_LABELS_LIMIT)
    coco = from_plain(_Coco, plain, where=str(path), unknown="ignore")
    categories = sorted(coco.categories, key=lambda category: category.id)
    class_of = {category.id: index for index, category in enumerate(categories)}
    objects: dict[int, list[_Object]] = {picture.id: [] for picture in coco.images}
    for number, item in enumerate(coco.annotations):
        if item.image_id not in objects or item.category_id not in class_of:
            what = f"image {item.image_id}" if item.image_id not in objects else f"category {item.category_id}"
            raise BadInput(
                f"{path}, annotation {number}", f"{what} is not in the file", "add it, or drop the annotation"
            )
        objects[item.image_id].append(item)
    pictures: dict[str, TrueBoxes] = {}
    for picture in coco.images:
        if picture.file_name in pictures:
            raise BadInput(str(path), f"the picture '{picture.file_name}' stands twice in it", "keep one of them")
        if folder is not None and not (folder / picture.file_name).is_file():
            raise BadInput(
                str(path), f"'{picture.file_name}' is not in {folder}", "correct the name or add the picture"
            )
        pictures[picture.file_name] = _true_boxes(objects[picture.id], class_of)
    if not pictures:
        raise BadInput(str(path), "no pictures in it", "give a COCO file with images and annotations")
    return BoxTruth(pictures, tuple(category.name for category in categories))


def _true_boxes(items: list[_Object], class_of: Mapping[int, int]) -> TrueBoxes:
    boxes = np.array([item.bbox for item in items], np.float64).reshape(-1, 4)
    boxes[:, 2:] += boxes[:, :2]
    return TrueBoxes(
        boxes,
        np.array([class_of[item.category_id] for item in items], np.intp),
        np.array([item.iscrowd != 0 for item in items], np.bool_),
    )
