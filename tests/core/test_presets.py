import pytest

from edgekit.core.artifact import Port
from edgekit.core.errors import UsageError
from edgekit.core.geometry import CentreCrop, Letterbox, ShortSide
from edgekit.core.presets import PRESETS, accepts, preset, presets_fitting

NAMES = (
    *("torchvision", "efficientnet-lite", "mobilenet-v1-128", "yolox"),
    *("ppocr-det", "ppocr-rec", "ppocr-cls", "tf", "raw"),
)


def test_the_names_are_fixed() -> None:
    assert tuple(PRESETS) == NAMES


@pytest.mark.parametrize(
    ("shape", "fitting"),
    [
        (("N", 3, 224, 224), "torchvision efficientnet-lite yolox ppocr-det tf raw"),
        ((1, 3, 416, 416), "torchvision efficientnet-lite yolox ppocr-det tf raw"),
        (("N", 3, 128, 128), "torchvision efficientnet-lite mobilenet-v1-128 yolox ppocr-det tf raw"),
        ((1, 128, 128, 3), "torchvision efficientnet-lite mobilenet-v1-128 yolox ppocr-det tf raw"),
        ((1, 3, 48, 320), "ppocr-rec raw"),
        (("N", 3, 48, 192), "ppocr-rec ppocr-cls raw"),
        (("N", 1, 28, 28), "tf raw"),
        ((5, 3, 224, 224), ""),
        (("N", 4, 224, 224), ""),
        ((1, 576), ""),
    ],
)
def test_presets_that_fit_follow_from_the_shape(shape: tuple[int | str, ...], fitting: str) -> None:
    port = Port("x", "float32", shape)
    assert presets_fitting(port) == tuple(fitting.split())
    for name in presets_fitting(port):
        assert accepts(port, preset(name, port).tensor_shape(333, 500))


def test_a_free_input_takes_every_preset() -> None:
    assert presets_fitting(Port("x", "float32", ("N", 3, "H", "W"))) == NAMES


@pytest.mark.parametrize("dtype", ["int64", "float64", "int8", "int32"])
def test_a_dtype_that_no_picture_has_fits_nothing(dtype: str) -> None:
    assert presets_fitting(Port("x", dtype, (1, 3, 224, 224))) == ()


def test_a_preset_follows_layout_dtype_and_size_of_the_input() -> None:
    value = preset("yolox", Port("x", "float16", (1, 3, 640, 640)))
    assert (value.steps, value.dtype) == ((Letterbox(640, 640),), "float16")
    nhwc = preset("torchvision", Port("x", "float32", (1, 299, 299, 3)))
    assert (nhwc.layout, nhwc.steps) == ("nhwc", (ShortSide(342), CentreCrop(299, 299)))
    bare = preset("mobilenet-v1-128", Port("x", "uint8", (1, 128, 128, 3)))
    assert (bare.dtype, bare.mean, bare.std) == ("uint8", (0.0,), (1.0,))


def test_sizes_of_one_name_are_equal() -> None:
    port = Port("x", "float32", ("N", 3, "S", "S"))
    assert accepts(port, (1, 3, 8, 8))
    assert not accepts(port, (1, 3, 8, 9))
    assert not accepts(port, (1, 3, 8))


def test_an_unknown_or_unfitting_preset_lists_the_others() -> None:
    with pytest.raises(UsageError, match="one of torchvision, efficientnet-lite"):
        preset("imagenet")
    with pytest.raises(UsageError, match=r"does not fit the input 'x'.*one that fits: ppocr-rec, raw"):
        preset("torchvision", Port("x", "float32", (1, 3, 48, 320)))
    with pytest.raises(UsageError, match="write a preprocess file"):
        preset("raw", Port("x", "int64", (1, 7)))
