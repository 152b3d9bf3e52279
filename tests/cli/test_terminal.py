"""Tables and progress."""

import pytest

from edgekit.cli.terminal import Progress, print_json, table


def test_a_table_without_rows_is_its_header() -> None:
    assert table(["a", "b"], []) == "a  b"


def test_columns_of_figures_stand_to_the_right() -> None:
    assert table(["r", "ms"], [["x", "1"], ["y", "12"], ["z", ""]]).split("\n")[1:] == ["x   1", "y  12", "z"]


def test_json_has_no_number_that_json_lacks() -> None:
    with pytest.raises(ValueError, match="Out of range"):
        print_json({"x": float("nan")})


def test_progress_is_silent_where_no_one_watches(capsys: pytest.CaptureFixture[str]) -> None:
    progress = Progress()
    progress("calibrate", 1, 2)
    progress.close()
    assert capsys.readouterr().err == ""


def test_progress_is_drawn_and_wiped(capsys: pytest.CaptureFixture[str]) -> None:
    progress = Progress(shown=True)
    progress("calibrate", 1, 2)
    progress("calibrate", 2, 2)
    progress.close()
    drawn = capsys.readouterr().err
    assert "1/2" in drawn
    assert "2/2" in drawn
    assert drawn.endswith("\r\x1b[K")
