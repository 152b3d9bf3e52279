import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest

from edgekit.core.artifact import Port
from edgekit.core.errors import BadInput, Unsupported
from edgekit.core.manifest import ArtifactEntry, FileRef, GoldenError, Histogram, Manifest


@dataclass(frozen=True)
class Made:
    manifest: Manifest
    blobs: dict[str, bytes]


def edited(made: Made, change: Callable[[dict[str, Any]], object]) -> bytes:
    plain = json.loads(made.manifest.to_json())
    change(plain)
    return json.dumps(plain).encode()


def test_it_comes_back_equal_and_byte_identical(made: Made) -> None:
    raw = made.manifest.to_json()
    again = Manifest.from_json(raw)
    assert again == made.manifest
    assert again.to_json() == raw


def test_an_older_edgekit_refuses_a_newer_bundle_by_name(made: Made) -> None:
    raw = edited(made, lambda plain: plain["requires"].update(edgekit=">=2.5"))
    with pytest.raises(Unsupported, match=r"needs edgekit >=2.5, here is 0.1") as caught:
        Manifest.from_json(raw, edgekit="0.1.0")
    assert caught.value.exit_code == 5
    assert Manifest.from_json(raw, edgekit="3.0").requires == {"edgekit": ">=2.5"}


def test_requirements_are_read_before_anything_else(made: Made) -> None:
    """A newer manifest may have another shape altogether."""
    raw = json.dumps({"format": 1, "requires": {"edgekit": ">=99"}, "artifacts": "another shape"}).encode()
    with pytest.raises(Unsupported, match="99"):
        Manifest.from_json(raw)
    with pytest.raises(Unsupported, match="format 2"):
        Manifest.from_json(json.dumps({"format": 2}).encode())
    with pytest.raises(Unsupported, match="requires 'accelerator'"):
        Manifest.from_json(edited(made, lambda plain: plain["requires"].update(accelerator=">=1")))


def test_unknown_fields_are_ignored_where_they_only_inform(made: Made) -> None:
    def add(plain: dict[str, Any]) -> None:
        plain["colour"] = "blue"
        plain["artifacts"][0]["score"] = 3
        plain["golden"][0]["hint"] = []

    assert Manifest.from_json(edited(made, add)) == made.manifest


@pytest.mark.parametrize(
    "change",
    [
        lambda plain: plain["preprocess"]["image"].update(gamma=2.2),
        lambda plain: plain["preprocess"]["image"]["steps"][0].update(kind="warp"),
        lambda plain: plain["preprocess"]["image"]["steps"][0].update(filter="magic"),
        lambda plain: plain["postprocess"].update(kind="poses"),
        lambda plain: plain["postprocess"].update(calibrated=True),
        lambda plain: plain["artifacts"][0].update(precision="int4"),
    ],
)
def test_unknown_words_that_decide_are_refused_as_newer(made: Made, change: Callable[[dict[str, Any]], object]) -> None:
    with pytest.raises(Unsupported, match="newer edgekit"):
        Manifest.from_json(edited(made, change))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda plain: plain.pop("model"), "field 'model' is missing"),
        (lambda plain: plain.pop("format"), "format None"),
        (lambda plain: plain.update(format=True), "format True"),
        (lambda plain: plain.update(format=0), "format 0"),
        (lambda plain: plain.pop("requires"), "'requires' is not a table"),
        (lambda plain: plain["requires"].update(edgekit="new"), "no clause"),
        (lambda plain: plain["artifacts"][0].update(files=[]), "needs files"),
        (lambda plain: plain["artifacts"][0]["files"][0].update(sha256="00"), "no SHA-256"),
        (lambda plain: plain["artifacts"][0]["files"][0].update(name="../x"), "not a plain file name"),
        (lambda plain: plain["artifacts"][0]["files"][0].update(name="a/b"), "not a plain file name"),
        (lambda plain: plain["artifacts"][0]["files"][0].update(name=".."), "not a plain file name"),
        (lambda plain: plain["artifacts"][0]["files"][0].update(size=-1), "size -1"),
        (lambda plain: plain["artifacts"][0].update(integer_share=1.5), "integer share"),
        (lambda plain: plain["artifacts"][0].update(requires={"openvino": "x"}), "no clause"),
        (lambda plain: plain["artifacts"][0]["golden"][0].update(sample="ones"), "no golden sample 'ones'"),
        (lambda plain: plain["histograms"][0].update(counts=[0] * 257), "257 bins"),
        (lambda plain: plain["histograms"][0].update(low=2.0), "low < high"),
        (lambda plain: plain["inputs"].append(plain["inputs"][0]), "two inputs are named"),
        (lambda plain: plain["preprocess"].update(other=plain["preprocess"]["image"]), "no input"),
        (lambda plain: plain["preprocess"]["image"].update(divisor=0), "divisor"),
    ],
)
def test_damage_is_named(made: Made, change: Callable[[dict[str, Any]], object], words: str) -> None:
    with pytest.raises(BadInput) as caught:
        Manifest.from_json(edited(made, change))
    assert words in str(caught.value)


@pytest.mark.parametrize("raw", [b"", b"hello", b"[]", b"null", b'"x"', b"\x00\x01"])
def test_what_is_no_manifest_is_refused(raw: bytes) -> None:
    with pytest.raises(BadInput):
        Manifest.from_json(raw)


def test_no_nan_is_ever_written(made: Made) -> None:
    entry = replace(made.manifest.artifacts[0], golden=(GoldenError("zeros", {"scores": float("nan")}, {}),))
    with pytest.raises(BadInput):
        replace(made.manifest, artifacts=(entry,)).to_json()


def test_an_artifact_says_why_it_cannot_be_loaded(made: Made) -> None:
    entry = made.manifest.artifacts[0]
    assert made.manifest.loadable_here(entry, {"openvino": "2026.4.1"}) is None
    assert made.manifest.loadable_here(entry, {"litert": "2.3"}) == "openvino is not installed"
    assert made.manifest.loadable_here(entry, {"openvino": "2024.6"}) == "needs openvino >=2025.0, here is 2024.6"


def test_labels_name_what_differs(made: Made) -> None:
    assert [entry.label for entry in made.manifest.artifacts] == ["openvino int8 (vnni)", "litert fp32"]
    assert made.manifest.artifacts[0].size == 1524


def test_the_picture_input_is_the_only_one_that_takes_pictures(made: Made) -> None:
    found = made.manifest.image_input()
    assert found is not None
    assert found[0] == "image"
    assert replace(made.manifest, preprocess={}).image_input() is None


def test_files_of_one_artifact_have_distinct_names() -> None:
    ref = FileRef("a", "0" * 64, 1)
    port = Port("x", "float32", (1,))
    with pytest.raises(BadInput, match="distinct"):
        ArtifactEntry("litert", "fp32", (ref, ref), (port,), (port,))
    with pytest.raises(BadInput):
        Histogram("x", 0.0, 1.0, ())
