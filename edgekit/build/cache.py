"""Whole builds by what went into them: the same model, data, options, tools and CPU give the same files at once.

An entry is a folder in the state folder that appears by one rename. Losing it costs time. A generator of samples or a
model factory is the user's code, whose result no hash of ours covers: such builds are not kept.
"""

import hashlib
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import fields
from pathlib import Path
from typing import Final

import edgekit
from edgekit.build.options import BuildOptions
from edgekit.build.resolve import output_paths
from edgekit.build.tools import tool_versions
from edgekit.core.errors import EdgekitError, EnvironmentFault
from edgekit.core.state import state_folder
from edgekit.runtimes.compiled_cache import cpu_features

ENTRIES: Final = 16
_NOT_INPUTS: Final = frozenset({"output", "cache", "force", "dry_run"})
_PARTS: Final = ("bundle.ekb", "report", "reference")


def cache_key(options: BuildOptions) -> str | None:
    """A digest of everything that the result depends on, or None where it cannot be known."""
    if any(":" in str(source) and ".py" in str(source) for source in (options.model, options.calibration)):
        return None
    digest = hashlib.sha256()

    def add(*parts: str | bytes) -> None:
        for part in parts:
            raw = part.encode() if isinstance(part, str) else part
            digest.update(len(raw).to_bytes(8, "little") + raw)

    for source in sorted(Path(edgekit.__file__).parent.rglob("*.py")):  # a checkout changes under one version
        add(source.read_bytes())
    add(edgekit.__version__, repr(sorted(tool_versions().items())), cpu_features(), options.output.stem)
    try:
        for field in fields(options):
            if field.name not in _NOT_INPUTS:
                add(field.name, repr(getattr(options, field.name)))
        for path in _files(options):
            add(str(path), path.read_bytes())
    except OSError:
        return None  # the build itself names the file that cannot be read
    return digest.hexdigest()


def _files(options: BuildOptions) -> Iterator[Path]:
    """Every file that a build of these options reads."""
    model = Path(options.model)
    given: list[object] = [options.calibration, options.eval_data, options.labels, options.classes, options.recipe]
    given += [options.preprocess, options.task, options.device]
    if model.is_file():
        yield model
        if b"location" in model.read_bytes():  # external weights lie beside it
            given.append(model.parent)
    if options.recipe is not None:
        given.append(options.recipe.with_name("integers.npz"))
    for source in given:
        if not isinstance(source, str | Path):
            continue
        path = Path(source)
        if path.is_dir():
            yield from sorted(p for p in path.rglob("*") if p.is_file())
        elif path.is_file():
            yield path


def restore(key: str, options: BuildOptions) -> bool:
    """Put a kept build in its place; False where there is none."""
    entry = state_folder() / "builds" / key
    if not (entry / _PARTS[0]).is_file():
        return False
    bundle, report, reference = output_paths(options.output)
    try:
        for part, target in ((_PARTS[1], report), (_PARTS[2], reference), (_PARTS[0], bundle)):
            if (entry / part).exists():
                _place(entry / part, target)
        entry.touch()
    except OSError as error:
        raise EnvironmentFault(
            str(bundle), f"cannot be written: {error.strerror}", "check rights and the disk"
        ) from error
    return True


def keep(key: str, options: BuildOptions) -> None:
    """Remember the build that was just written. Failing to is no failure of the build."""
    folder = state_folder() / "builds"
    with suppress(OSError, EdgekitError):
        folder.mkdir(parents=True, exist_ok=True)
        made = Path(tempfile.mkdtemp(dir=folder, prefix=".new-"))
        try:
            for part, source in zip(_PARTS, output_paths(options.output), strict=True):
                if source.is_dir():
                    shutil.copytree(source, made / part)
                elif source.is_file():
                    shutil.copyfile(source, made / part)
            if not (folder / key).exists():
                made.rename(folder / key)
        finally:
            shutil.rmtree(made, ignore_errors=True)
        for old in sorted(folder.iterdir(), key=lambda p: p.stat().st_mtime, reverse=True)[ENTRIES:]:
            shutil.rmtree(old, ignore_errors=True)


def _place(source: Path, target: Path) -> None:
    """A copy beside the target, then one rename."""
    made = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    try:
        copy = made / target.name
        if source.is_dir():
            shutil.copytree(source, copy)
            if target.exists():
                target.rename(made / "old")
        else:
            shutil.copyfile(source, copy)
        copy.rename(target)
    finally:
        shutil.rmtree(made, ignore_errors=True)
