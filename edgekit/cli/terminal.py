"""What a person sees: tables on standard output, progress on standard error where someone watches."""

import json
import shutil
import sys
import time
from collections.abc import Sequence
from typing import Final

PERIOD_S: Final = 0.1  # a bar is drawn at most ten times a second


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Aligned columns, two spaces apart; columns whose cells are all figures stand to the right.

    >>> print(table(["runtime", "ms"], [["litert", "9.1"], ["openvino", "12.9"]]))
    runtime     ms
    litert     9.1
    openvino  12.9
    """
    columns = list(zip(header, *rows, strict=True))
    widths = [max(map(len, column)) for column in columns]
    to_right = [bool(rows) and all(_is_figure(cell) for cell in column[1:]) for column in columns]
    lines = []
    for row in [header, *rows]:
        cells = zip(row, widths, to_right, strict=True)
        lines.append(
            "  ".join(cell.rjust(width) if right else cell.ljust(width) for cell, width, right in cells).rstrip()
        )
    return "\n".join(lines)


def _is_figure(cell: str) -> bool:
    return not cell or cell[0].isdigit() or (cell[0] in "-–≤≥<>+" and (len(cell) == 1 or cell[1:].strip()[0].isdigit()))


def print_json(document: object) -> None:
    """One JSON document; non-finite numbers are refused, since JSON has none."""
    print(json.dumps(document, ensure_ascii=False, allow_nan=False, indent=2))


class Progress:
    """A one-line bar on standard error; silent where standard error is no terminal.

    Called as `progress(stage, done, total)`; `total` 0: unknown. Call `close` to wipe the line.
    """

    def __init__(self, *, shown: bool | None = None) -> None:
        self._shown = sys.stderr.isatty() if shown is None else shown
        self._drawn_at = 0.0
        self._stage = ""

    def __call__(self, stage: str, done: int = 0, total: int = 0) -> None:
        """Draw, at most ten times a second within a stage."""
        now = time.monotonic()
        if not self._shown or (stage == self._stage and now - self._drawn_at < PERIOD_S and done < total):
            return
        self._stage, self._drawn_at = stage, now
        width = max(20, shutil.get_terminal_size().columns - 1)
        text = stage
        if total > 0:
            filled = 24 * min(done, total) // total
            text = f"{stage:<28} [{'█' * filled}{'·' * (24 - filled)}] {done}/{total}"
        print(f"\r\x1b[K{text[:width]}", end="", file=sys.stderr, flush=True)

    def close(self) -> None:
        """Wipe the line."""
        if self._shown and self._stage:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
            self._stage = ""
