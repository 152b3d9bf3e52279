"""What lands in the sdist and the wheel: the linked folders too, and nothing generic in site-packages."""

import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LINKED = ("quantize", "runtimes", "offload", "firmware_configs")

pytestmark = pytest.mark.skipif(not (ROOT / "pyproject.toml").exists(), reason="runs in a source tree only")


def hatchling(kind: str, source: Path, to: Path) -> Path:
    pytest.importorskip("hatchling")
    command = [sys.executable, "-m", "hatchling", "build", "--target", kind, "--directory", str(to)]
    done = subprocess.run(command, cwd=source, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (made,) = to.glob("*.whl" if kind == "wheel" else "*.tar.gz")
    return made


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this source tree."""
    return hatchling("wheel", ROOT, tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sdist of this source tree."""
    return hatchling("sdist", ROOT, tmp_path_factory.mktemp("sdist"))


def members(wheel: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist() if not name.endswith("RECORD")}


def python_files(folder: Path) -> set[str]:
    return {str(file.relative_to(folder)) for file in folder.rglob("*.py")}


def test_the_wheel_holds_every_module_of_the_linked_folders(wheel: Path) -> None:
    names = set(members(wheel))
    for folder in LINKED:
        assert {f"edgekit/{folder}/{name}" for name in python_files(ROOT / folder)} <= names


def test_the_wheel_puts_nothing_but_edgekit_into_site_packages(wheel: Path) -> None:
    tops = {name.split("/")[0] for name in members(wheel)}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"edgekit"}
    assert "edgekit/py.typed" in members(wheel)


def test_the_wheel_from_the_sdist_is_the_wheel_from_the_checkout(wheel: Path, sdist: Path, tmp_path: Path) -> None:
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path / "source", filter="data")
    (source,) = (tmp_path / "source").iterdir()
    assert members(hatchling("wheel", source, tmp_path / "again")) == members(wheel)


def test_the_sdist_carries_licence_tests_and_examples(sdist: Path) -> None:
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"LICENSE", "README.md", "pyproject.toml", "tests/test_packaging.py", "examples/demo_photos.py"} <= names


def test_the_linked_folders_are_imported_from_the_wheel_under_the_package_s_name(wheel: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path)
    script = (
        f"import importlib, sys; sys.path.insert(0, {str(tmp_path)!r})\n"
        f"for name in {LINKED!r}:\n"
        "    module = importlib.import_module(f'edgekit.{name}')\n"
        f"    assert module.__file__.startswith({str(tmp_path)!r}), module.__file__\n"
        "    try: importlib.import_module(name)\n"
        "    except ModuleNotFoundError: continue\n"
        "    raise AssertionError(f'{name} is importable by its bare name')\n"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_the_links_are_relative_and_lead_to_the_real_folders() -> None:
    for folder in LINKED:
        link = ROOT / "edgekit" / folder
        if link.is_symlink():  # an unpacked sdist holds the folders themselves
            assert str(link.readlink()) == f"../{folder}"
            assert (ROOT / folder).is_dir()
