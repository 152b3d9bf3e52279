"""One compiled form of a model on disk, for an engine that keeps no cache of its own.

An entry is its own SHA-256 and the content; whatever does not match is as if it were missing. Writing never fails a
load: a full disk or a read-only folder costs time on the next start, not an answer on this one.
"""

import hashlib
import os
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

_DIGEST_BYTES = 32


@dataclass(frozen=True, slots=True)
class CompiledCache:
    """The entry of one model in `folder`, named by everything that its content depends on."""

    folder: Path
    key: str

    @classmethod
    def of(cls, folder: Path, *, engine: str, parts: Iterable[bytes]) -> "CompiledCache":
        """`engine` names library and version; `parts` are the model's files and the options that matter."""
        digest = hashlib.sha256()
        for part in (engine.encode(), cpu_features().encode(), *parts):
            digest.update(len(part).to_bytes(8, "little"))
            digest.update(part)
        return cls(folder, digest.hexdigest())

    @property
    def path(self) -> Path:
        """Where the entry is, or would be."""
        return self.folder / f"{self.key}.compiled"

    def read(self) -> bytes | None:
        """The content; None where it is missing, cut or altered."""
        try:
            entry = self.path.read_bytes()
        except OSError:
            return None
        content = entry[_DIGEST_BYTES:]
        return content if hashlib.sha256(content).digest() == entry[:_DIGEST_BYTES] else None

    def write(self, content: bytes) -> None:
        """Atomic: a reader sees the whole entry or none."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            handle, part = tempfile.mkstemp(dir=self.folder, suffix=".part")
        except OSError:
            return
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(hashlib.sha256(content).digest())
                file.write(content)
            os.replace(part, self.path)
        except OSError:
            Path(part).unlink(missing_ok=True)


@cache
def cpu_features() -> str:
    """What the kernel says that this CPU can do; a compiled form is right only for the same words."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    features = [line.partition(":")[2].strip() for line in lines if line.lower().startswith(("flags", "features"))]
    return f"{os.uname().machine} {features[0] if features else ''}"
