"""Where the peers run: one virtual environment each under `.venv-peers/`, made when first needed.

Their pins contradict each other and edgekit's, so they share nothing. A peer that cannot be installed is `Missing`.
"""

import hashlib
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks.world import ROOT, Missing, World

FOLDER: Final = ROOT / ".venv-peers"
SCRIPTS: Final = Path(__file__).parent
_COMPLETE: Final = "complete.txt"


@dataclass(frozen=True, slots=True)
class Environment:
    """A Python version and exact packages."""

    name: str
    python: str
    packages: tuple[str, ...]

    def interpreter(self, world: World) -> Path:
        """Its Python, installed if need be. Raises `Missing` with the reason."""
        folder = FOLDER / self.name
        stamp, wanted = folder / _COMPLETE, "\n".join((self.python, *self.packages))
        if not (stamp.exists() and stamp.read_text() == wanted):
            world.say(f"install {', '.join(self.packages)} in {folder.relative_to(ROOT)}")
            found = subprocess.run([ROOT / ".ci/find_python", self.python], capture_output=True, text=True, check=False)
            if found.returncode:
                raise Missing(f"no Python {self.python} here, which {self.packages[0]} needs")
            self._try([found.stdout.strip(), "-m", "venv", "--clear", str(folder)])
            self._try([str(folder / "bin/python"), "-m", "pip", "install", "--quiet", *self.packages])
            stamp.write_text(wanted)
        return folder / "bin/python"

    def _try(self, command: list[str]) -> None:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise Missing(f"{self.packages[0]} cannot be installed: {last_line(done.stderr)}")

    def made(
        self, world: World, script: str, source: Path, output: str, *, samples: Path | None, flags: tuple[str, ...]
    ) -> Path:
        """The file that a script of this folder makes of a model; kept, since the same input gives the same peer."""
        digest = hashlib.sha256("\0".join((self.python, *self.packages, *flags)).encode())
        for file in (SCRIPTS / script, source, *([samples] if samples else [])):
            digest.update(file.read_bytes())
        if source.suffix == ".xml":
            digest.update(source.with_suffix(".bin").read_bytes())
        folder = world.work / "peers" / digest.hexdigest()[:16]
        made = folder / output
        if not made.exists():
            interpreter = self.interpreter(world)
            world.say(f"{script} {' '.join(flags)} on {source.name}")
            folder.mkdir(parents=True, exist_ok=True)
            files = [source, *([samples] if samples else []), made]
            done = subprocess.run(
                [interpreter, SCRIPTS / script, *files, *flags], capture_output=True, text=True, check=False
            )
            if done.returncode or not made.exists():
                made.unlink(missing_ok=True)
                raise Missing(f"{script} fails on {source.name}: {last_line(done.stderr)}")
        return made


def last_line(text: str) -> str:
    """What a tool said last: where its error usually stands."""
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "it says nothing")


NNCF: Final = Environment("nncf", "3.11", ("nncf==3.4.0", "openvino==2026.4.0", "onnx==1.23.0", "onnxruntime==1.32.0"))
ONNX2TF: Final = Environment("onnx2tf", "3.12", ("onnx2tf==2.6.9",))
AI_EDGE_QUANTIZER: Final = Environment("ai-edge-quantizer", "3.12", ("ai-edge-quantizer==0.10.0",))
