"""Options made concrete: presets, profiles and files looked up before any long work starts."""

from collections.abc import Sequence
from pathlib import Path

from edgekit.build.options import BuildOptions
from edgekit.build.samples import holds_images
from edgekit.compile.targets import SAME_FILE, target_names
from edgekit.core.artifact import Port
from edgekit.core.errors import BadInput, UsageError
from edgekit.core.postprocess import Postprocess, Raw, read_classes, read_postprocess, task, with_classes
from edgekit.core.preprocess import Preprocess
from edgekit.core.presets import preset, presets_fitting
from edgekit.core.profile import DeviceProfile
from edgekit.runtimes.registry import names as runtime_names


def output_paths(output: Path) -> tuple[Path, Path, Path]:
    """The bundle, its report folder and its reference folder."""
    if output.suffix != ".ekb":
        raise UsageError(f"--output {output}", "does not end in .ekb", f"write {output}.ekb")
    return output, output.with_suffix(".report"), output.with_suffix(".reference")


def runtimes_for(options: BuildOptions, profile: DeviceProfile) -> tuple[str, ...]:
    """The runtimes to build for: those asked for, else those of the profile, in the order of tables."""
    for name in options.runtimes:
        if name not in runtime_names() or SAME_FILE.get(name, name) not in target_names():
            raise UsageError(
                f"--runtime {name}", "no such runtime to build for", "use one of " + ", ".join(target_names())
            )
    wanted = options.runtimes or tuple(profile.runtimes) or target_names()
    files = {SAME_FILE.get(name, name) for name in wanted}
    return tuple(name for name in target_names() if name in files)


def preprocess_for(options: BuildOptions, inputs: Sequence[Port]) -> dict[str, Preprocess]:
    """One `Preprocess` for the input that takes pictures, by its name; empty where nothing says so.

    Raises `UsageError` listing the presets that fit where images come without one.
    """
    given = options.preprocess
    pictures = [p for p in inputs if len(p.shape) == 4]
    if given is None:
        if options.calibration is not None and holds_images(options.calibration):
            fitting = sorted({name for p in pictures for name in presets_fitting(p)})
            shape = ", ".join(f"{p.name} {list(p.shape)}" for p in pictures) or "no input of four axes"
            listed = ", ".join(fitting) or "none"
            raise UsageError(
                "calibration with images",
                f"no --preprocess says how an image becomes the input ({shape}); presets that fit: {listed}",
                "add --preprocess with the one that the model was trained with, or a TOML file",
            )
        return {}
    if len(pictures) != 1:
        raise UsageError(
            "--preprocess", f"the model has {len(pictures)} inputs of four axes", "give arrays instead of images"
        )
    if isinstance(given, Preprocess):
        return {pictures[0].name: given}
    if isinstance(given, Path) or str(given).endswith(".toml"):
        return {pictures[0].name: Preprocess.read(Path(given))}
    return {pictures[0].name: preset(str(given), pictures[0])}


def task_for(options: BuildOptions) -> Postprocess:
    """What the outputs mean; `Raw` where nothing says so."""
    given = options.task
    if given is None:
        chosen: Postprocess = task("classification") if options.classes or _labels_are_classes(options) else Raw()
    elif isinstance(given, Path) or str(given).endswith(".toml"):
        chosen = read_postprocess(Path(str(given)))
    elif isinstance(given, str):
        chosen = task(given)
    else:
        chosen = given
    return with_classes(chosen, read_classes(options.classes)) if options.classes else chosen


def _labels_are_classes(options: BuildOptions) -> bool:
    return options.labels is not None and options.labels.suffix.lower() == ".csv"


def check_output(options: BuildOptions) -> None:
    """The place to write to is there and free."""
    bundle, *_ = output_paths(options.output)
    if not bundle.parent.is_dir():
        raise BadInput(f"--output {bundle}", "its folder does not exist", f"mkdir -p {bundle.parent}")
    if bundle.exists() and not options.force:
        raise UsageError(f"--output {bundle}", "the file exists", "add --force to overwrite it")
