from pathlib import Path

import pytest

from edgekit.core.errors import BadInput
from edgekit.core.pipeline import Crop, MapBundle, Pipeline, RunBundle, reads

OCR = Pipeline(
    (
        MapBundle("read", "rec.ekb", "lines"),
        RunBundle("find", "det.ekb"),
        Crop("lines", "find", margin=0.1),
    ),
    "read",
)


def test_steps_are_ordered_by_what_they_read() -> None:
    assert [step.name for step in OCR.order()] == ["find", "lines", "read"]
    assert OCR.bundles() == ("rec.ekb", "det.ekb")
    assert reads(OCR.steps[2]) == ("find", "picture")


def test_it_survives_toml_and_a_file(tmp_path: Path) -> None:
    assert Pipeline.from_toml(OCR.to_toml()) == OCR
    (tmp_path / "ocr.toml").write_text(OCR.to_toml())
    assert Pipeline.read(tmp_path / "ocr.toml") == OCR


@pytest.mark.parametrize(
    ("steps", "answer", "words"),
    [
        ((), "x", "0 steps"),
        ((RunBundle("a", "a.ekb"),), "b", "the answer 'b' is no step"),
        ((RunBundle("a", "a.ekb"),), "picture", "the answer 'picture' is no step"),
        ((RunBundle("a", "a.ekb"), RunBundle("a", "b.ekb")), "a", "'a' is taken"),
        ((RunBundle("picture", "a.ekb"),), "picture", "'picture' is taken"),
        ((RunBundle("", "a.ekb"),), "", "is taken or empty"),
        ((RunBundle("a", "a.ekb", "b"),), "a", "reads 'b', which no step gives"),
        ((RunBundle("a", "a.ekb"), MapBundle("b", "b.ekb", "a")), "b", "gives result, as pictures"),
        ((RunBundle("a", "a.ekb"), RunBundle("b", "b.ekb", "a")), "b", "gives result, as picture"),
        ((RunBundle("a", "a.ekb"), Crop("b", "a", margin=-1.0)), "b", "margin -1.0"),
        ((RunBundle("a", "a.ekb"), Crop("b", "a", limit=0)), "b", "limit 0"),
        (tuple(RunBundle(f"s{i}", "a.ekb") for i in range(65)), "s0", "65 steps"),
    ],
)
def test_what_cannot_be_executed_is_refused(steps: tuple[RunBundle, ...], answer: str, words: str) -> None:
    with pytest.raises(BadInput) as caught:
        Pipeline(steps, answer)
    assert words in str(caught.value)


def test_unknown_kinds_and_fields_in_a_file_are_named() -> None:
    with pytest.raises(BadInput, match=r"steps\[0\]: kind 'loop' is not known"):
        Pipeline.from_toml('answer = "a"\n[[steps]]\nkind = "loop"\nname = "a"\n')
    with pytest.raises(BadInput, match="unknown field 'colour'"):
        Pipeline.from_toml('answer = "a"\n[[steps]]\nkind = "bundle"\nname = "a"\nbundle = "a.ekb"\ncolour = 1\n')
