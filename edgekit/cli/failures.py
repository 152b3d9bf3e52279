"""How a failure reaches a person or a script: one line and a remedy, or JSON; a bug leaves a log.

Everything goes to standard error, so that standard output stays what a script expects.
"""

import json
import os
import sys
import tempfile
import time
import traceback
from pathlib import Path

from edgekit import __version__
from edgekit.core.errors import EdgekitError, ExitCode, RuntimeRefuses
from edgekit.core.state import state_folder


def one_line(text: str) -> str:
    """Any text as one line."""
    return " ".join(text.split())


def report_error(error: EdgekitError, *, as_json: bool) -> ExitCode:
    """Print `edgekit: what: why` and the remedy; returns the error's exit code."""
    if as_json:
        body: dict[str, object] = {
            "kind": type(error).__name__,
            "exit_code": int(error.exit_code),
            "what": error.what,
            "why": error.why,
            "remedy": error.remedy,
        }
        if isinstance(error, RuntimeRefuses):
            names = ("runtime", "node", "op", "reason", "remedy")
            body["refusals"] = [{name: getattr(refusal, name) for name in names} for refusal in error.refusals]
        print(json.dumps({"error": body}, ensure_ascii=False), file=sys.stderr)
    else:
        print(f"edgekit: {one_line(error.what)}: {one_line(error.why)}", file=sys.stderr)
        print(f"  try: {one_line(error.remedy)}", file=sys.stderr)
    return error.exit_code


def report_fault(error: Exception, *, as_json: bool) -> ExitCode:
    """A bug: its traceback goes into a log, whose path is printed; returns 1."""
    what = f"{type(error).__name__}: {one_line(str(error))}"
    log = write_log(error)
    if as_json:
        body = {"kind": "Fault", "exit_code": int(ExitCode.FAULT), "what": what, "log": log and str(log)}
        print(json.dumps({"error": body}, ensure_ascii=False), file=sys.stderr)
    else:
        print(f"edgekit: a fault of edgekit's own: {what}", file=sys.stderr)
        print(f"  try: report it with the log {log}" if log else "  try: report it", file=sys.stderr)
    return ExitCode.FAULT


def write_log(error: Exception) -> Path | None:
    """The traceback in a file of its own; in the temporary folder where the state folder takes none; None: nowhere."""
    text = f"edgekit {__version__}, Python {sys.version}\narguments: {sys.argv[1:]}\n\n"
    text += "".join(traceback.format_exception(error))
    name = f"{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}.log"
    for folder in (state_folder() / "log", Path(tempfile.gettempdir())):
        try:
            folder.mkdir(parents=True, exist_ok=True)
            log = folder / (name if folder.name == "log" else f"edgekit-{name}")
            log.write_text(text, encoding="utf-8")
        except OSError:
            continue
        return log
    return None
