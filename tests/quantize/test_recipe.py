"""A recipe comes back from its text as it was; what was edited wrongly is named; integers follow their recipe."""

import json
from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgekit.core.errors import BadInput
from edgekit.quantize.integers import FILE, load_integers, pack_integers
from edgekit.quantize.quantized import QuantizedModel, QWeight
from edgekit.quantize.recipe import Choice, Kept, Recipe

NAMES = st.text(min_size=1, max_size=8)
PARAMETERS = st.dictionaries(NAMES, st.tuples(st.floats(1e-9, 1e6), st.integers(0, 255)), max_size=4)
RECIPE = Recipe(
    keep_float=("head",),
    integer_nodes=("c1", "c2"),
    activations={"x": (0.1, 3), "y": (0.2, 0)},
    output_hint={"z": (0.3, 128)},
    corrections={"full": Kept(True, True, {"bias corrected": 0.01})},
    runtimes={"litert": Choice("int8", "full", "asked")},
    order=("litert int8",),
    model_sha256="ab",
)


@given(
    st.builds(
        Recipe,
        keep_float=st.lists(NAMES, max_size=3).map(tuple),
        integer_nodes=st.lists(NAMES, max_size=3).map(tuple),
        activations=PARAMETERS,
        output_hint=PARAMETERS,
        corrections=st.dictionaries(
            st.sampled_from(["full", "saturation-safe"]), st.builds(Kept, st.booleans(), st.booleans())
        ),
        order=st.lists(NAMES, max_size=3).map(tuple),
    )
)
def test_a_recipe_comes_back_as_it_was(recipe: Recipe) -> None:
    again = Recipe.from_json(recipe.to_json())
    assert again == recipe
    assert again.to_json() == recipe.to_json()
    assert again.parameters_digest() == recipe.parameters_digest()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"format": 99}, "format 1"),
        ({"keepfloat": []}, "keepfloat"),
        ({"keep_float": "head"}, "keep_float is a list"),
        ({"integer_nodes": [1]}, "integer_nodes is a list"),
        ({"granularity": "row"}, "granularity"),
        ({"activations": {"x": [0.0, 3]}}, "'x' needs a scale above 0"),
        ({"activations": {"x": [float("nan"), 3]}}, "'x' needs a scale above 0"),
        ({"activations": {"x": [0.1, 256]}}, "'x' needs a scale above 0"),
        ({"activations": {"x": 0.1}}, "does not fit"),
        ({"activations": []}, "does not fit"),
        ({"corrections": {"full": {"bias": True}}}, "does not fit"),
        ({"runtimes": {"litert": {"speed": 9}}}, "does not fit"),
    ],
)
def test_what_does_not_fit_is_named(change: dict[str, object], words: str) -> None:
    with pytest.raises(BadInput, match=words):
        Recipe.from_json(json.dumps({**json.loads(RECIPE.to_json()), **change}), "mine.json")


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "1", '"recipe"', "{}"])
def test_what_is_no_recipe_is_called_so(text: str) -> None:
    with pytest.raises(BadInput, match=r"mine\.json"):
        Recipe.from_json(text, "mine.json")


def model() -> QuantizedModel:
    """A model of which only the integers matter."""
    rng = np.random.default_rng(1)
    weights = {
        "per channel": QWeight(rng.integers(-127, 128, (4, 3, 3, 3)).astype(np.int8), np.full(4, 0.1, np.float32), 0),
        "../whole": QWeight(np.ones((2, 2), np.int8), np.array([0.5], np.float32), None),
    }
    biases = {"per channel": np.arange(4, dtype=np.int32)}
    nothing = ir.Model(ir.Graph([], [], nodes=[], name="g"), ir_version=10)
    return QuantizedModel(nothing, frozenset(weights), {}, weights, biases, {})


def stored(folder: Path) -> Path:
    """A recipe with its integers beside it."""
    (folder / "recipe.json").write_text(RECIPE.to_json())
    (folder / FILE).write_bytes(pack_integers(RECIPE, {"full": model(), "saturation-safe": model()}))
    return folder / "recipe.json"


def test_integers_come_back_with_their_recipe(tmp_path: Path) -> None:
    found = load_integers(stored(tmp_path), Recipe.from_json(RECIPE.to_json()))
    assert found is not None
    assert set(found) == {"full", "saturation-safe"}
    for values, biases in found.values():
        assert list(values) == ["../whole", "per channel"]
        for name, weight in model().weights.items():
            assert np.array_equal(values[name].values, weight.values)
            assert np.array_equal(values[name].scales, weight.scales)
            assert values[name].axis == weight.axis
        assert {n: b.tolist() for n, b in biases.items()} == {"per channel": [0, 1, 2, 3]}


def test_the_same_integers_are_the_same_bytes() -> None:
    assert pack_integers(RECIPE, {"full": model()}) == pack_integers(RECIPE, {"full": model()})


@pytest.mark.parametrize(
    "edit",
    [
        {"activations": {"x": (0.1, 4), "y": (0.2, 0)}},
        {"output_hint": {}},
        {"integer_nodes": ("c1",)},
        {"granularity": "tensor"},
        {"model_sha256": "cd"},
        {"corrections": {"full": Kept(False, True)}},
    ],
    ids=lambda edit: next(iter(edit)),
)
def test_an_edited_recipe_gets_integers_of_its_own(edit: dict[str, object], tmp_path: Path) -> None:
    edited = Recipe.from_json(json.dumps({**json.loads(RECIPE.to_json()), **json.loads(_as_json(edit))}))
    assert load_integers(stored(tmp_path), edited) is None


def _as_json(edit: dict[str, object]) -> str:
    return json.dumps(edit, default=lambda kept: {"round_by_output": kept.round_by_output, "bias": kept.bias})


@pytest.mark.parametrize("share", [0.0, 0.3, 0.9, 0.999])
def test_damaged_integers_are_made_again(share: float, tmp_path: Path) -> None:
    recipe = stored(tmp_path)
    content = (tmp_path / FILE).read_bytes()
    (tmp_path / FILE).write_bytes(content[: int(len(content) * share)])
    assert load_integers(recipe, RECIPE) is None


@given(st.integers(0, 2**20), st.integers(1, 255))
def test_no_damage_to_integers_is_a_crash(position: int, flip: int) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        recipe = stored(Path(folder))
        content = bytearray((Path(folder) / FILE).read_bytes())
        content[position % len(content)] ^= flip
        (Path(folder) / FILE).write_bytes(content)
        load_integers(recipe, RECIPE)


def test_missing_integers_are_none(tmp_path: Path) -> None:
    assert load_integers(tmp_path / "recipe.json", RECIPE) is None
