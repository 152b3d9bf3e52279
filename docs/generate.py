"""Writes the pages of docs/ that the code knows better than a person: run it with `make docs`.

    python -m docs.generate [--check]

`--check` writes nothing and exits 1 where a page differs from what the code says.
"""

import sys
from argparse import Action, ArgumentParser
from collections.abc import Callable
from pathlib import Path
from typing import Final

from edgekit.cli.main import COMMANDS, EXIT_CODES, load_command, parser_of

FOLDER: Final = Path(__file__).parent
NOTICE: Final = "<!-- written by `make docs`; edit the code instead -->\n\n"


def commands_page() -> str:
    """Every command with its flags, from the parsers themselves."""
    sections = [f"{NOTICE}# Commands\n"]
    for name, summary in COMMANDS.items():
        command = load_command(name)
        parser = parser_of(name, command)
        sections.append(
            f"## edgekit {name}\n\n{summary[0].upper()}{summary[1:]}.\n\n{command.DESCRIPTION}\n\n"
            f"```sh\n{command.EXAMPLE}\n```\n\n{flags_table(parser)}\n"
        )
    sections.append(f"## Exit codes\n\n```text\n{EXIT_CODES}\n```\n")
    return "\n".join(sections)


def flags_table(parser: ArgumentParser) -> str:
    """One row per argument."""
    rows = [
        f"| `{spelled(action)}` | {cell(action.help or '')} |" for action in parser._actions if action.dest != "help"
    ]
    return "\n".join(["| argument | meaning |", "| --- | --- |", *rows])


def spelled(action: Action) -> str:
    """A flag with its value as one writes it."""
    value = str(action.metavar or "")
    if action.choices is not None:
        value = "|".join(map(str, action.choices))
    if action.nargs == "+":
        value += " …"
    return cell(", ".join(action.option_strings) + (f" {value}" if action.option_strings and value else value))


def cell(text: str) -> str:
    """Text that may stand in a table."""
    return text.replace("|", "\\|")


def tflite_operators_page() -> str:
    """What the TFLite writer takes, from its own table of operators."""
    from edgekit.compile.tflite.target import TARGET

    rows = [
        f"| {cell(op)} | {cell(conditions) or '-'} | {cell(int8)} |"
        for op, conditions, int8 in TARGET.supported_operators()
    ]
    head = (
        "# Operators of the TFLite writer\n\n"
        "ONNX operators at opset 21, as they stand in the canonical graph. An operator may have several rows, each\n"
        "with conditions of its own. What no row takes is refused by `edgekit check`, with node, reason, remedy.\n"
    )
    return f"{NOTICE}{head}\n" + "\n".join(["| operator | conditions | 8-bit |", "| --- | --- | --- |", *rows]) + "\n"


PAGES: Final[dict[str, Callable[[], str]]] = {
    "commands.md": commands_page,
    "tflite-operators.md": tflite_operators_page,
}


def main(arguments: list[str]) -> int:
    """Write or check every page; returns the exit code."""
    stale = 0
    for name, page in PAGES.items():
        file, text = FOLDER / name, page()
        if file.exists() and file.read_text(encoding="utf-8") == text:
            continue
        if "--check" in arguments:
            print(f"docs/{name} is not what the code says: run `make docs`")
            stale = 1
        else:
            file.write_text(text, encoding="utf-8")
    return stale


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
