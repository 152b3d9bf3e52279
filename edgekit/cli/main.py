"""The `edgekit` command: finds the command's module, runs it, and turns every outcome into an exit code.

No command's work lives here. A command module is imported only after its name is known, so that `edgekit --help` and a
typing error cost no heavy import; `add_arguments` must not import one either.
"""

import difflib
import errno
import importlib
import os
import signal
import sys
from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from collections.abc import Sequence
from types import FrameType
from typing import Final, Protocol, cast

from edgekit import __version__
from edgekit.cli.failures import report_error, report_fault
from edgekit.cli.parser import Parser
from edgekit.core.errors import EdgekitError, EnvironmentFault, ExitCode, UsageError


class Command(Protocol):
    """A command's module in `edgekit.cli`."""

    DESCRIPTION: str  # the first paragraph of `--help`
    EXAMPLE: str  # shown at the end of `--help`; runs as it stands

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Declare the flags."""

    def run(self, args: Namespace) -> ExitCode:
        """Do it. Raises `EdgekitError`."""


COMMANDS: Final = {
    "check": "say which runtimes can take a model, and why not",
    "build": "turn a model and calibration data into a verified bundle",
    "inspect": "show what is in a bundle",
    "run": "run a bundle on images or arrays",
    "eval": "measure a bundle's quality on labelled data",
    "bench": "measure a bundle's speed, INT8 against float",
    "export": "write a bundle's plain model files",
    "devices": "list device profiles, or detect this machine's",
}

EXIT_CODES: Final = """\
exit codes:
  0  done
  1  a fault of edgekit; the log is named
  2  usage
  3  done, but a promise was not kept (accuracy budget); the best found is on disk
  4  bad input: model, data, labels, bundle
  5  unsupported: operator, runtime, shape, by name
  6  environment: extra not installed, disk full, no rights
  130  interrupted; nothing half-written"""

# What the operating system says when the machine, not the program, is at fault.
MACHINE_ERRORS: Final = frozenset(
    {errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EPERM, errno.EROFS, errno.EMFILE, errno.ENFILE, errno.EFBIG}
)


def overview() -> str:
    """What `edgekit --help` prints."""
    width = max(map(len, COMMANDS))
    rows = "\n".join(f"  {name:<{width}}  {summary}" for name, summary in COMMANDS.items())
    return (
        "usage: edgekit COMMAND …\n\n"
        "From a trained network to verified INT8 on edge devices.\n\n"
        f"commands:\n{rows}\n\n"
        "  edgekit COMMAND --help    flags and an example\n"
        "  edgekit --version\n\n"
        f"{EXIT_CODES}\n"
    )


def load_command(name: str) -> Command:
    """Import the module behind a command name; unknown: `UsageError` that names the nearest."""
    if name not in COMMANDS:
        near = difflib.get_close_matches(name, COMMANDS, n=1)
        raise UsageError(repr(name), "no such command", f"edgekit {near[0]}" if near else "edgekit --help")
    return cast(Command, importlib.import_module(f"edgekit.cli.{name}"))


def parser_of(name: str, command: Command) -> ArgumentParser:
    """The command's parser."""
    parser = Parser(
        prog=f"edgekit {name}",
        description=command.DESCRIPTION,
        epilog=f"example:\n  {command.EXAMPLE}",
        formatter_class=RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    command.add_arguments(parser)
    return parser


def dispatch(arguments: Sequence[str]) -> ExitCode:
    """Run one command line. Raises `EdgekitError`."""
    match list(arguments):
        case [] | ["-h" | "--help" | "help"]:
            print(overview(), end="")
            return ExitCode.DONE
        case ["--version"]:
            print(f"edgekit {__version__}")
            return ExitCode.DONE
        case ["help", name, *_]:
            parser_of(name, load_command(name)).print_help()
            return ExitCode.DONE
        case [name, *rest]:
            command = load_command(name)
            try:
                args = parser_of(name, command).parse_args(rest)
                args.words = rest  # for a command whose argument may be a file of further arguments
            except SystemExit:  # argparse leaves this way after --help only: `Parser.error` raises
                return ExitCode.DONE
            return command.run(args)
    raise AssertionError("unreachable: the patterns above are exhaustive")


def machine_fault(error: OSError) -> EnvironmentFault | None:
    """A full disk, missing rights and their like as an `EnvironmentFault`; None: it is another kind."""
    if error.errno not in MACHINE_ERRORS:
        return None
    what = str(error.filename or "writing")
    said = error.strerror or str(error)
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return EnvironmentFault(what, f"the disk is full ({said})", "free some space, or name another folder")
    return EnvironmentFault(what, said, "check the rights of the file and its folder")


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point of the `edgekit` command; returns its exit code."""
    arguments = sys.argv[1:] if arguments is None else arguments
    as_json = "--json" in arguments
    code = ExitCode.ENVIRONMENT  # what a reader's going away means before the work is done
    try:
        with terminating_as_interrupt():
            code = dispatch(arguments)
            sys.stdout.flush()
        return code
    except EdgekitError as error:
        return report_error(error, as_json=as_json)
    except KeyboardInterrupt:
        print("edgekit: interrupted; nothing half-written", file=sys.stderr)
        return ExitCode.INTERRUPTED
    except BrokenPipeError:  # `edgekit … | head`: the reader has gone, there is no one to tell
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return code
    except OSError as error:
        fault = machine_fault(error)
        return report_error(fault, as_json=as_json) if fault else report_fault(error, as_json=as_json)
    except MemoryError as error:
        wanted = EnvironmentFault("memory", str(error) or "exhausted", "close other programs, or use a larger machine")
        return report_error(wanted, as_json=as_json)
    except Exception as error:  # noqa: BLE001 - the one place that turns a bug into a log and exit code 1
        return report_fault(error, as_json=as_json)


class terminating_as_interrupt:
    """SIGTERM unwinds like Ctrl-C, so that temporary files are removed; restored on leaving."""

    def __enter__(self) -> None:
        self._before = signal.getsignal(signal.SIGTERM)
        if self._before == signal.SIG_DFL:
            signal.signal(signal.SIGTERM, _interrupt)

    def __exit__(self, *_: object) -> None:
        if self._before == signal.SIG_DFL:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _interrupt(_signal: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt
