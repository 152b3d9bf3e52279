"""`edgekit build edgekit.toml`: keys are flags."""

from argparse import Namespace
from pathlib import Path

import pytest

from edgekit.cli import build
from edgekit.cli.configuration import as_arguments, with_configuration
from edgekit.cli.parser import Parser
from edgekit.core.errors import BadInput, UsageError


def parse(tmp_path: Path, text: str, *beside: str) -> Namespace:
    file = tmp_path / "edgekit.toml"
    file.write_text(text)
    parser = Parser(prog="edgekit build")
    build.add_arguments(parser)
    return parser.parse_args([*as_arguments(file, parser), *beside])


def test_keys_with_dashes_or_underscores_are_the_flags(tmp_path: Path) -> None:
    args = parse(tmp_path, 'model = "m.onnx"\nmax-drop = 1.5\nno_cache = true\nsamples = 100\nforce = false')
    assert args.model == str(tmp_path / "m.onnx")
    assert args.max_drop == 1.5
    assert args.no_cache is True
    assert args.force is False
    assert args.samples == 100


def test_a_list_repeats_a_flag_that_may_be_repeated(tmp_path: Path) -> None:
    args = parse(tmp_path, 'model = "m.onnx"\nruntime = ["litert", "openvino"]')
    assert args.runtime == ["litert", "openvino"]


def test_tables_bind_shapes_and_values(tmp_path: Path) -> None:
    args = parse(tmp_path, 'model = "m.onnx"\ninput-shape = {x = [1, 3, 640, 640]}\nfix = {sr = 16000}')
    assert args.input_shape == ["x:1,3,640,640"]
    assert args.fix == ["sr=16000"]


def test_paths_are_relative_to_the_file_s_folder_and_presets_are_not_paths(tmp_path: Path) -> None:
    text = """
    model = "m.onnx"
    calibration = "calib.py:samples"
    preprocess = "torchvision"
    task = "t.toml"
    output = "/o.ekb"
    """
    args = parse(tmp_path, text)
    assert args.calibration == str(tmp_path / "calib.py:samples")
    assert args.preprocess == "torchvision"
    assert args.task == str(tmp_path / "t.toml")
    assert args.output == Path("/o.ekb")


def test_an_unknown_key_names_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        parse(tmp_path, 'model = "m.onnx"\ncalibaration = "x"')
    assert caught.value.remedy == "calibration"


@pytest.mark.parametrize("line", ["force = 1", "samples = true", 'samples = ["1"]', "device = {a = 1}", "samples = 0"])
def test_a_value_of_another_kind_is_a_usage_error(line: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        parse(tmp_path, f'model = "m.onnx"\n{line}')


@pytest.mark.parametrize("text", ["model = ", "a = 1\na = 2"])
def test_what_is_not_toml_is_bad_input(text: str, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="not TOML"):
        parse(tmp_path, text)


def test_a_file_that_is_missing_or_not_text_is_bad_input(tmp_path: Path) -> None:
    parser = Parser(prog="edgekit build")
    with pytest.raises(BadInput):
        as_arguments(tmp_path / "no.toml", parser)
    (tmp_path / "edgekit.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(BadInput, match="UTF-8"):
        as_arguments(tmp_path / "edgekit.toml", parser)


def merged(tmp_path: Path, text: str, *flags: str) -> Namespace:
    file = tmp_path / "edgekit.toml"
    file.write_text(text)
    return with_configuration(file, [str(file), *flags], build.add_arguments)


def test_a_flag_beside_the_file_replaces_its_key_even_by_the_default(tmp_path: Path) -> None:
    text = 'model = "m.onnx"\ndevice = "x86-64"\nruntime = ["litert"]\nsamples = 7'
    args = merged(tmp_path, text, "--device", "host", "--runtime", "openvino", "-o", "out.ekb")
    assert (args.device, args.runtime, args.samples) == ("host", ["openvino"], 7)
    assert args.output == Path("out.ekb")
    assert args.model == str(tmp_path / "m.onnx")


def test_a_file_without_a_model_or_with_another_file_as_model_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="MODEL"):
        merged(tmp_path, "samples = 7")
    with pytest.raises(UsageError, match="no model"):
        merged(tmp_path, 'model = "other.toml"')
