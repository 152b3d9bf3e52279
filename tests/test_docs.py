"""Pages do not rot: commands in them parse, links lead somewhere, generated pages are current."""

import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from edgekit.cli.main import COMMANDS, load_command, parser_of
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
