"""Pages do not rot: commands in them parse, links lead somewhere, generated pages are current."""

import os
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from PIL import Image

from edgekit.cli.main import COMMANDS, load_command, main, parser_of
from edgekit.core.errors import ExitCode

ROOT = Path(__file__).parents[1]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md")), *sorted((ROOT / "examples").glob("*.md"))]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)

pytestmark = pytest.mark.skipif(not (ROOT / "Makefile").exists(), reason="runs in a source tree only")


def blocks(language: str) -> list[tuple[str, str]]:
    return [
        (str(page.relative_to(ROOT)), body)
        for page in PAGES
        for found, body in FENCE.findall(page.read_text(encoding="utf-8"))
        if found == language
    ]


def command_lines() -> list[tuple[str, str]]:
    lines = [(page, line) for page, body in blocks("sh") for line in body.splitlines() if line.startswith("edgekit ")]
    lines += [("example", load_command(name).EXAMPLE) for name in COMMANDS]
    return lines


@pytest.mark.parametrize(("page", "line"), command_lines())
def test_every_edgekit_command_line_on_a_page_parses(page: str, line: str) -> None:
    _, name, *arguments = shlex.split(line, comments=True)
    if name.startswith("-"):
        return
    parser_of(name, load_command(name)).parse_args(arguments)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_to_a_file_leads_to_one(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), target


@pytest.mark.parametrize(("page", "body"), blocks("python"))
def test_every_python_block_compiles(page: str, body: str) -> None:
    compile(body, page, "exec")


@pytest.mark.parametrize(("page", "body"), blocks("toml"))
def test_every_toml_block_reads(page: str, body: str) -> None:
    assert tomllib.loads(body)


@pytest.mark.parametrize(("page", "body"), blocks("sh"))
def test_every_make_verb_on_a_page_exists(page: str, body: str) -> None:
    verbs = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"\bmake ([a-z-]+)", body)) <= verbs


def test_the_readme_lists_every_exit_code() -> None:
    rows = re.findall(r"^\| (\d+) \|", (ROOT / "README.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert [int(row) for row in rows] == sorted(ExitCode)


def test_generated_pages_are_what_the_code_says() -> None:
    command = [sys.executable, "-m", "docs.generate", "--check"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A reader's folder: a small model, photos, labels and class names under the names that the README uses."""
    folder = tmp_path_factory.mktemp("reader")
    rng = np.random.default_rng(5)
    shapes = {"w": (8, 3, 3, 3), "b": (8,), "fc": (4, 8)}
    graph = helper.make_graph(
        [
            helper.make_node("Conv", ["x", "w", "b"], ["c"], "conv", strides=[2, 2], kernel_shape=[3, 3]),
            helper.make_node("Relu", ["c"], ["r"], "relu"),
            helper.make_node("GlobalAveragePool", ["r"], ["p"], "pool"),
            helper.make_node("Flatten", ["p"], ["f"], "flatten"),
            helper.make_node("Gemm", ["f", "fc"], ["y"], "fc", transB=1),
        ],
        "small",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 64, 64])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 4])],
        [numpy_helper.from_array(rng.normal(0, 0.4, n).astype(np.float32), k) for k, n in shapes.items()],
    )
    imports = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=imports, ir_version=8), folder / "model.onnx")
    (folder / "photos").mkdir()
    for file in (folder / "photo.jpg", *(folder / f"photos/{i}.jpg" for i in range(8))):
        Image.fromarray(rng.integers(0, 256, (6, 8, 3), dtype=np.uint8)).resize((128, 96)).save(file)
    (folder / "labels.csv").write_text("file,label\n" + "".join(f"{i}.jpg,{i % 4}\n" for i in range(8)))
    (folder / "classes.txt").write_text("one\ntwo\nthree\nfour\n")
    return folder


def readme_blocks(language: str) -> list[str]:
    return [body for page, body in blocks(language) if page == "README.md"]


def test_the_readme_s_python_runs_as_it_stands(reader: Path) -> None:
    for body in readme_blocks("python"):
        done = subprocess.run([sys.executable, "-c", body], cwd=reader, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr


def test_the_readme_s_commands_run_as_they_stand(
    reader: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(reader)
    (reader / "edgekit.toml").write_text(readme_blocks("toml")[0].replace("model.ekb", "other.ekb"))
    Path("model.ekb").unlink(missing_ok=True)
    lines = [line for body in readme_blocks("sh") for line in body.splitlines() if line.startswith("edgekit ")]
    assert len(lines) >= 5
    for line in [*lines, "edgekit build edgekit.toml", "edgekit export model.ekb --runtime litert -o plain/"]:
        assert main(shlex.split(line, comments=True)[1:]) == ExitCode.DONE, line + capsys.readouterr().err
    assert os.listdir("plain") == ["model.tflite"]
