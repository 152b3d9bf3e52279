"""What a benchmark is given: where the data is, where to work, and this machine.

Large models and photos are not part of the repository: they are looked for in `../shared/data` (or in
`$EDGEKIT_SHARED/data`) and in `.data/`. What is missing there is skipped by name.
"""

import hashlib
import os
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

from edgekit.core.profile import DeviceProfile, detect_host

ROOT: Final = Path(__file__).resolve().parents[1]
CODE: Final = ("edgekit", "quantize", "runtimes", "offload", "firmware_configs")
_STATES_KEPT: Final = 3


class Missing(Exception):
    """Something that a benchmark needs is not on this machine."""


@dataclass(frozen=True)
class World:
    """`is_quick`: fewer photos and rounds, for trying a benchmark out; such figures are never stored."""

    is_quick: bool
    work: Path
    say: Callable[[str], None] = lambda text: None

    @cached_property
    def shared(self) -> Path:
        """The folder of models and photos."""
        return self.needed(Path(os.environ.get("EDGEKIT_SHARED", ROOT / "../shared")).resolve() / "data")

    def needed(self, path: Path) -> Path:
        """The path. Raises `Missing` where nothing is there."""
        if not path.exists():
            raise Missing(f"{path.name} is not here: set EDGEKIT_SHARED to the folder that holds data/")
        return path

    @cached_property
    def host(self) -> DeviceProfile:
        """This machine."""
        return detect_host()

    @cached_property
    def state(self) -> Path:
        """A folder for what was made by exactly this state of the code."""
        digest = hashlib.sha256()
        for file in sorted(f for name in CODE for f in (ROOT / name).rglob("*") if f.suffix in (".py", ".toml")):
            digest.update(file.relative_to(ROOT).as_posix().encode() + b"\0" + file.read_bytes())
        folder = self.work / "states" / digest.hexdigest()[:16]
        folder.mkdir(parents=True, exist_ok=True)
        os.utime(folder)
        older = sorted(folder.parent.iterdir(), key=lambda each: each.stat().st_mtime, reverse=True)
        for stale in older[_STATES_KEPT:]:
            shutil.rmtree(stale, ignore_errors=True)
        return folder

    def edgekit(self, *words: str) -> list[str]:
        """The command line of an `edgekit` command of this checkout, for a process started in `ROOT`."""
        return [sys.executable, "-c", "import sys; from edgekit.cli.main import main; sys.exit(main())", *words]
