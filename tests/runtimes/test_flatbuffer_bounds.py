"""Cut and altered TFLite files are found before an engine that verifies nothing reads them."""

from pathlib import Path

import pytest

from edgekit.runtimes.flatbuffer_bounds import is_inside

FILES = sorted((Path(__file__).parents[1] / "golden/contract").glob("*.tflite"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_whole_file_is_inside_and_no_cut_of_it_is(path: Path) -> None:
    content = path.read_bytes()
    assert is_inside(content)
    assert [size for size in range(len(content)) if is_inside(content[:size])] == []


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_no_altered_byte_makes_it_fail_otherwise(path: Path) -> None:
    content = path.read_bytes()
    for at in range(len(content)):
        for value in (0, 0x7F, 0x80, 0xFF):
            is_inside(content[:at] + bytes([value]) + content[at + 1 :])  # answers; never raises, never hangs
