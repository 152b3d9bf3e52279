"""`edgekit export`: a bundle's artifact as the plain files of its runtime."""

from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import Final

from edgekit.cli.arguments import add_bundle, add_json, add_precision
from edgekit.cli.terminal import print_json
from edgekit.core.errors import ExitCode, RuntimeRefuses, Unsupported, UsageError
from edgekit.core.files import write_atomic

DESCRIPTION: Final = (
    "Write the plain model files of one runtime (model.onnx; model.xml and model.bin; model.tflite) to a folder."
)
EXAMPLE: Final = "edgekit export model.ekb --runtime litert -o plain/"


def add_arguments(parser: ArgumentParser) -> None:
    """Flags of the command."""
    add_bundle(parser)
    parser.add_argument("--runtime", metavar="R", required=True, help="whose files")
    add_precision(parser)
    parser.add_argument("-o", "--output", metavar="DIR", type=Path, required=True, help="folder to write to")
    parser.add_argument("--force", action="store_true", help="overwrite files in DIR")
    add_json(parser)


def run(args: Namespace) -> ExitCode:
    """Write the files of the first artifact of that runtime."""
    from edgekit.core.bundle import Bundle

    with Bundle.open(args.bundle) as bundle:
        fitting = [
            e for e in bundle.manifest.artifacts if e.runtime == args.runtime and args.precision in (None, e.precision)
        ]
        if not fitting:
            if refused := [r for r in bundle.manifest.refusals if r.runtime == args.runtime]:
                raise RuntimeRefuses(refused)
            held = ", ".join(e.label for e in bundle.manifest.artifacts)
            raise Unsupported(f"bundle {args.bundle}", f"no such artifact; it holds {held}", "choose one of these")
        files = bundle.artifact_files(fitting[0])
    if (there := [name for name in files if (args.output / name).exists()]) and not args.force:
        raise UsageError(f"--output {args.output}", f"'{there[0]}' exists in it", "add --force to overwrite it")
    args.output.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        write_atomic(args.output / name, [content])
    written = [str(args.output / name) for name in files]
    if args.json:
        print_json({"artifact": fitting[0].label, "files": written})
    else:
        print("\n".join(written))
    return ExitCode.DONE
