"""The profiles that ship: each valid by the published schema, and the schema as strict as the reader."""

import json
import tomllib
from importlib.resources import files
from typing import Any, get_args

import pytest

from edgekit.core.errors import BadInput
from edgekit.core.profile import FEATURES, PROFILES, Arch, DeviceProfile, Power, load_profile
from edgekit.core.record import from_plain

jsonschema = pytest.importorskip("jsonschema", reason="jsonschema is not installed")

FOLDER = files("edgekit.firmware_configs")


@pytest.fixture(scope="module")
def schema() -> dict[str, Any]:
    read: dict[str, Any] = json.loads(FOLDER.joinpath("profile.schema.json").read_text("utf-8"))
    jsonschema.Draft202012Validator.check_schema(read)
    return read


def test_every_shipped_profile_is_listed() -> None:
    shipped = {entry.name.removesuffix(".toml") for entry in FOLDER.iterdir() if entry.name.endswith(".toml")}
    assert shipped == set(PROFILES)


@pytest.mark.parametrize("name", PROFILES)
def test_each_profile_is_valid_and_named_as_its_file(name: str, schema: dict[str, Any]) -> None:
    plain = tomllib.loads(FOLDER.joinpath(f"{name}.toml").read_text("utf-8"))
    jsonschema.validate(plain, schema)
    profile = load_profile(name)
    assert profile.name == name
    assert profile.runtimes
    assert DeviceProfile.from_toml(profile.to_toml()) == profile


def test_the_detected_host_is_valid(schema: dict[str, Any]) -> None:
    jsonschema.validate(tomllib.loads(load_profile("host").to_toml()), schema)


def test_the_schema_knows_the_same_words_as_the_reader(schema: dict[str, Any]) -> None:
    fields = schema["properties"]
    assert set(fields) == set(DeviceProfile.__dataclass_fields__)
    assert tuple(fields["isa"]["items"]["enum"]) == FEATURES
    assert tuple(fields["arch"]["enum"]) == get_args(Arch)
    assert tuple(fields["power"]["enum"]) == get_args(Power)


WHOLE: dict[str, Any] = {"name": "board", "arch": "aarch64", "cores": 4, "memory_mb": 512}


@pytest.mark.parametrize(
    "change",
    [
        {"name": "My Board"},
        {"name": ""},
        {"arch": "mips"},
        {"cores": 0},
        {"cores": "4"},
        {"memory_mb": 0},
        {"isa": ["sse9"]},
        {"isa": "avx2"},
        {"runtimes": {"onnxruntime": "new"}},
        {"runtimes": ["onnxruntime"]},
        {"power": "sun"},
        {"colour": "red"},
    ],
)
def test_schema_and_reader_refuse_the_same(change: dict[str, Any], schema: dict[str, Any]) -> None:
    jsonschema.validate(WHOLE, schema)
    assert from_plain(DeviceProfile, WHOLE, where="p").cores == 4
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**WHOLE, **change}, schema)
    with pytest.raises(BadInput):
        from_plain(DeviceProfile, {**WHOLE, **change}, where="p")
