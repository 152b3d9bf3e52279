import io
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from PIL import Image

from edgekit.core.errors import BadInput
from edgekit.core.geometry import CentreCrop, Exact, FitHeight, Letterbox, ShortSide, ShortSideAtLeast, Step
from edgekit.core.preprocess import Preprocess, TensorPad
from edgekit.core.presets import PRESETS, preset


def picture(height: int = 60, width: int = 80, seed: int = 0) -> NDArray[np.uint8]:
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3)).astype(np.uint8)


sides = st.integers(1, 40)
filters = st.sampled_from(["bilinear", "bicubic", "lanczos", "box", "nearest"])
steps: st.SearchStrategy[Step] = st.one_of(
    st.builds(ShortSide, sides, filters),
    st.builds(ShortSideAtLeast, sides, st.integers(1, 16), filters),
    st.builds(Exact, sides, sides, filters),
    st.builds(Letterbox, sides, sides, st.sampled_from(["top-left", "centre"]), st.integers(0, 255), filters),
    st.builds(FitHeight, sides, st.none() | sides, filters),
    st.builds(CentreCrop, sides, sides),
)
numbers = st.floats(0.25, 300)
preprocesses = st.builds(
    Preprocess,
    st.lists(steps, max_size=3).map(tuple),
    st.sampled_from(["rgb", "bgr", "gray"]),
    numbers,
    st.tuples(numbers),
    st.tuples(numbers),
    st.sampled_from(["float32", "float16"]),
    st.sampled_from(["nchw", "nhwc"]),
    st.none() | st.builds(TensorPad, sides, sides, st.floats(-2, 2, width=16)),
    st.none() | st.just((0.0, 4095.0)),
)


@settings(deadline=None)
@given(preprocesses, st.integers(1, 30), st.integers(1, 30))
def test_the_promised_shape_is_the_shape_and_the_value_survives_toml(
    value: Preprocess, height: int, width: int
) -> None:
    assert Preprocess.from_toml(value.to_toml()) == value
    assert Preprocess.from_plain(value.to_plain()) == value
    tensor, geometry = value.prepare(picture(height, width))
    assert tensor.shape == value.tensor_shape(height, width)
    assert tensor.dtype == value.dtype
    assert geometry.source == (height, width)


@settings(deadline=None)
@given(preprocesses)
def test_every_value_is_one_of_the_table_or_the_padding(value: Preprocess) -> None:
    """The quantizer's view of the input and the tensors that arrive are one."""
    value = replace(value, dtype="float32")
    tensor = value(picture())
    planes = np.moveaxis(tensor[0], 0 if value.layout == "nchw" else 2, 0)
    for plane, levels in zip(planes, value.denormalise_range(), strict=True):
        allowed = levels if value.pad is None else np.append(levels, np.float32(value.pad.value))
        assert np.isin(plane, allowed).all()


def test_the_arithmetic_is_the_formula_in_the_channels_order() -> None:
    image = picture()
    mean, std = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
    tensor = Preprocess(colour="bgr", divisor=255.0, mean=mean, std=std)(image)
    want = ((image[:, :, ::-1].astype(np.float64) / 255 - mean) / std).transpose(2, 0, 1)
    np.testing.assert_array_equal(tensor[0], want.astype(np.float32))
    assert tensor.dtype == np.float32
    np.testing.assert_array_equal(Preprocess(layout="nhwc", dtype="uint8")(image)[0], image)


def test_batch_one_of_224_is_normalised_within_a_millisecond() -> None:
    value, pixels = preset("torchvision"), picture(224, 224)
    value.normalise(pixels)
    times = []
    for _ in range(30):
        start = time.perf_counter()
        value.normalise(pixels)
        times.append(time.perf_counter() - start)
    assert min(times) < 1e-3


def test_a_picture_is_the_same_from_path_bytes_and_array(tmp_path: Path) -> None:
    image = picture()
    buffer = io.BytesIO()
    Image.fromarray(image).save(buffer, "PNG")
    (tmp_path / "x.png").write_bytes(buffer.getvalue())
    value = preset("efficientnet-lite")
    want = value(image)
    for source in (tmp_path / "x.png", str(tmp_path / "x.png"), buffer.getvalue()):
        np.testing.assert_array_equal(value(source), want)


def test_the_filter_is_part_of_the_contract() -> None:
    image = picture(300, 400)
    tensors = [
        Preprocess((ShortSide(32, kind),))(image) for kind in ("bilinear", "bicubic", "lanczos", "box", "nearest")
    ]
    for i, one in enumerate(tensors):
        for other in tensors[i + 1 :]:
            assert np.abs(one.astype(float) - other.astype(float)).mean() > 0.1


def test_calibration_and_device_see_the_same_orientation(case: Callable[[str], Path]) -> None:
    value = Preprocess()
    upright = value(case("d01") / "upright.png").astype(float)
    for tag in range(1, 9):
        assert np.abs(value(case("d01") / f"orientation{tag}.jpg").astype(float) - upright).mean() < 4


def test_a_declared_range_belongs_to_the_preprocess(case: Callable[[str], Path]) -> None:
    declared = Preprocess(value_range=(0.0, 4095.0))
    assert declared(case("d02") / "twelve_bit.png").mean() == pytest.approx(127.5, abs=1)


def test_gray_models_get_one_channel() -> None:
    tensor = Preprocess((Exact(8, 8),), "gray")(picture())
    assert tensor.shape == (1, 1, 8, 8)
    flat = np.full((5, 5, 3), 77, np.uint8)
    assert np.unique(Preprocess(colour="gray")(flat)).tolist() == [77]
    assert np.unique(Preprocess()(flat[:, :, 0])).tolist() == [77]


def test_recognition_is_padded_with_zeros_of_the_tensor() -> None:
    tensor = preset("ppocr-rec")(picture(48, 100))
    assert tensor.shape == (1, 3, 48, 320)
    assert np.unique(tensor[..., 100:]).tolist() == [0.0]
    assert preset("ppocr-rec")(picture(48, 500)).shape == (1, 3, 48, 500)


def test_bare_pixels_stand_for_the_same_picture() -> None:
    for name in PRESETS:
        value = preset(name)
        bare = value.as_uint8()
        pixels, tensor = bare(picture()), value(picture())
        channels = range(pixels.shape[1])
        looked_up = np.stack([value.denormalise_range()[c][pixels[0, c]] for c in channels])
        step = float(np.diff(value.denormalise_range()[0]).max())
        assert np.abs(looked_up - tensor[0].astype(np.float32)).max() <= step / 2 + 1e-6, name


@pytest.mark.parametrize(
    "array",
    [
        np.zeros((4, 4, 3), np.float32),
        np.zeros((4, 4, 4), np.uint8),
        np.zeros((0, 4, 3), np.uint8),
        np.zeros(4, np.uint8),
        np.zeros((1, 4, 4, 3), np.uint8),
    ],
)
def test_an_array_that_is_no_picture_is_refused(array: NDArray[np.uint8]) -> None:
    with pytest.raises(BadInput, match="not a picture"):
        Preprocess()(array)


def test_a_picture_that_would_explode_is_refused_before_memory_is_taken() -> None:
    with pytest.raises(BadInput, match="crop the picture first"):
        preset("torchvision")(np.zeros((1, 60_000, 3), np.uint8))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("divisor = 0.0", "divisor or std is 0"),
        ("std = [0.0]", "divisor or std is 0"),
        ("mean = [1.0, 2.0]", "mean has 2 values"),
        ('colour = "gray"\nmean = [1.0, 2.0, 3.0]', "mean has 3 values"),
        ('dtype = "uint8"\ndivisor = 255.0', "takes pixels as they are"),
        ("[pad]\nheight = 0\nwidth = 4", "pad to 0 x 4"),
        ('[[steps]]\nkind = "short-side"\nsize = 0', "size is 0"),
        ('[[steps]]\nkind = "letterbox"\nheight = 4\nwidth = 4\nfill = 300', "fill is 300"),
        ('[[steps]]\nkind = "exact"\nheight = 4', "preprocess.steps[0]: field 'width' is missing"),
        ('[[steps]]\nkind = "warp"', "kind 'warp' is not known"),
        ("gamma = 2.2", "unknown field 'gamma'"),
        ("mean = nan", "preprocess.mean: nan is not a list"),
        ("divisor = inf", "not a finite number"),
    ],
)
def test_a_wrong_file_is_refused_with_its_field(text: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(BadInput) as caught:
        Preprocess.from_toml(text)
    assert words in str(caught.value)
    (tmp_path / "p.toml").write_text(text)
    with pytest.raises(BadInput):
        Preprocess.read(tmp_path / "p.toml")
