"""The parser of every command: what argparse complains about reaches a person as any other error does."""

import difflib
from argparse import ArgumentParser
from typing import NoReturn

from edgekit.core.errors import UsageError


class Parser(ArgumentParser):
    """An ArgumentParser whose complaints are `UsageError`s."""

    def error(self, message: str) -> NoReturn:
        """Raise instead of printing; names the nearest flag for a misspelt one."""
        remedy = f"{self.prog} --help"
        if message.startswith("unrecognized arguments: "):
            wrong = message.removeprefix("unrecognized arguments: ").split()[0].split("=")[0]
            if near := difflib.get_close_matches(wrong, self._option_string_actions, n=1):
                remedy = f"{near[0]}, or {remedy}"
        raise UsageError(self.prog.removeprefix("edgekit "), message, remedy)
