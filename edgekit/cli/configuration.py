"""`edgekit build edgekit.toml`: the keys of a TOML file become the flags of the command line.

The file goes through the command's own parser, so a key means exactly what its flag means. Flags given beside the file
win. Paths in the file are relative to the file's folder.
"""

import difflib
import tomllib
from argparse import SUPPRESS, Action, ArgumentParser, Namespace
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Final

from edgekit.cli.parser import Parser
from edgekit.core.errors import BadInput, UsageError

PATH_KEYS: Final = frozenset({"model", "calibration", "classes", "eval", "labels", "recipe", "output"})
PRESET_OR_FILE_KEYS: Final = frozenset({"preprocess", "task"})  # a path where it ends in .toml


def with_configuration(file: Path, words: Sequence[str], declare: Callable[[ArgumentParser], None]) -> Namespace:
    """What a configuration file and the words beside it mean together; a flag among the words replaces the file's key.

    `declare` adds the command's arguments to a parser. Raises `UsageError`, `BadInput`.
    """
    given, whole = (Parser(prog=f"edgekit build {file}", allow_abbrev=False) for _ in range(2))
    for parser in (given, whole):
        declare(parser)
    for action in given._actions:
        action.default = SUPPRESS  # so that only what stands on the command line is in the namespace
    flags = vars(given.parse_args(words))
    model = flags.pop("model")
    args = whole.parse_args(as_arguments(file, whole, skip=flags))
    if str(args.model).endswith(".toml"):
        raise UsageError(f"{file}: model", f"{args.model} is no model", f"name the model in {model}")
    vars(args).update(flags)
    return args


def read_configuration(file: Path) -> dict[str, object]:
    """The TOML file's top-level keys with dashes as underscores. Raises `BadInput`."""
    try:
        text = file.read_bytes().decode()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else "is not text in UTF-8"
        raise BadInput(str(file), why, "name an existing TOML file") from error
    try:
        return {key.replace("-", "_"): value for key, value in tomllib.loads(text).items()}
    except tomllib.TOMLDecodeError as error:
        raise BadInput(str(file), f"is not TOML: {error}", "correct that line") from error


def as_arguments(file: Path, parser: ArgumentParser, skip: Collection[str] = ()) -> list[str]:
    """The command line that a configuration file stands for, without the keys in `skip`. Raises `EdgekitError`."""
    actions = {action.dest: action for action in parser._actions if action.dest != "help"}
    options: list[str] = []
    positional: list[str] = []
    for key, value in read_configuration(file).items():
        action = actions.get(key)
        if action is None:
            near = difflib.get_close_matches(key, actions, n=1)
            known = ", ".join(sorted(actions))
            raise UsageError(f"{file}: {key}", "no such key", f"{near[0]}" if near else f"one of {known}")
        if key in skip:
            continue
        words = [_resolved(key, text, file.parent) for text in _texts(file, action, value)]
        if not action.option_strings:
            positional += words
        elif action.nargs == 0:
            options += [action.option_strings[-1]] * bool(value)
        else:
            options += [part for word in words for part in (action.option_strings[-1], word)]
    return [*options, "--", *positional] if positional else options


def _texts(file: Path, action: Action, value: object) -> list[str]:
    """A TOML value as the words that its flag takes; a flag without a value takes true or false."""
    is_switch = action.nargs == 0
    if isinstance(value, bool) and is_switch:
        return []
    if isinstance(value, Mapping) and action.dest in ("input_shape", "fix"):
        return [_binding(action.dest, name, bound) for name, bound in value.items()]
    many = value if isinstance(value, list) else [value]
    takes_many = type(action).__name__ == "_AppendAction"
    if is_switch or (isinstance(value, list) and not takes_many) or any(_is_no_word(word) for word in many):
        wanted = "true or false" if is_switch else "a list of strings" if takes_many else "a string or a number"
        raise UsageError(f"{file}: {action.dest}", f"{value!r} is not {wanted}", f"{action.dest} = {wanted}")
    return [str(word) for word in many]


def _is_no_word(value: object) -> bool:
    return isinstance(value, bool) or not isinstance(value, str | int | float)


def _binding(dest: str, name: str, bound: object) -> str:
    """`input_shape = {x = [1, 3, 640, 640]}` and `fix = {sr = 16000}` as their flags write them."""
    if dest == "fix":
        return f"{name}={bound}"
    return f"{name}:{','.join(str(dim) for dim in bound)}" if isinstance(bound, list) else f"{name}:{bound}"


def _resolved(key: str, text: str, folder: Path) -> str:
    is_path = key in PATH_KEYS or (key in PRESET_OR_FILE_KEYS and text.endswith(".toml"))
    return str(folder / text) if is_path else text
