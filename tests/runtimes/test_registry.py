"""Engines are found by name, ours and those of third parties."""

import tomllib
from importlib import metadata
from pathlib import Path

import pytest

from edgekit.core.errors import EnvironmentFault, UsageError
from edgekit.runtimes import registry
from edgekit.runtimes.installed import engine_module, engine_version
from edgekit.runtimes.runtime import Runtime

ROOT = Path(__file__).parents[2]


def test_our_entry_points_are_those_of_the_distribution() -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"][registry.GROUP]
    assert declared == registry.OWN


@pytest.mark.parametrize("name", registry.OWN)
def test_every_name_leads_to_a_runtime_of_that_name(name: str) -> None:
    found = registry.runtime(name)
    assert isinstance(found, Runtime)
    assert found.name == name


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(UsageError, match=r"'tensorrt'.*onnxruntime, openvino, litert, tflite-runtime"):
        registry.runtime("tensorrt")


def test_the_version_is_the_distributions() -> None:
    for each in registry.installed():
        distribution = {"litert": "ai-edge-litert"}.get(each.name, each.name)
        assert each.version() == metadata.version(distribution)


def test_an_engine_that_is_missing_has_no_version() -> None:
    assert engine_version("no_such_engine", "no-such-engine") is None


def test_a_missing_engine_says_how_to_install_it() -> None:
    with pytest.raises(EnvironmentFault, match=r"pip install 'edgekit-sdk\[litert\]'"):
        engine_module("no_such_engine", runtime="litert", extra="litert")


def test_an_engine_of_a_third_party_is_found_by_its_entry_point(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    info = tmp_path / "acme_engine-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-engine\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        f"[{registry.GROUP}]\nacme = edgekit.runtimes.litert:RUNTIME\nbroken = no_such_module:RUNTIME\n"
        "no-runtime = math:pi\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    registry._places.cache_clear()
    registry.runtime.cache_clear()
    try:
        assert registry.names() == (*registry.OWN, "acme", "broken", "no-runtime")
        assert isinstance(registry.runtime("acme"), Runtime)
        with pytest.raises(EnvironmentFault, match="no_such_module"):
            registry.runtime("broken")
        with pytest.raises(EnvironmentFault, match="no runtime"):
            registry.runtime("no-runtime")
    finally:
        registry._places.cache_clear()
        registry.runtime.cache_clear()
