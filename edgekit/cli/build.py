"""`edgekit build`: model + calibration data + profile -> bundle."""

from argparse import ArgumentParser, Namespace
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Final

from edgekit.cli.arguments import (
    PRECISIONS,
    RUNTIMES_HELP,
    add_bindings,
    add_json,
    parse_fixed,
    parse_shapes,
    positive,
    share_of_points,
)
from edgekit.cli.configuration import with_configuration
from edgekit.cli.terminal import Progress, print_json, table
from edgekit.core.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from edgekit.build.options import BuildOptions
    from edgekit.build.pipeline import BuildResult

DESCRIPTION: Final = """\
Turn a model and calibration data into a verified bundle for every runtime that takes the model.
Beside OUT.ekb it writes OUT.report/ (recipe and measurements) and OUT.reference/ (float model and artifacts).
MODEL may be a .toml file whose keys are the flags below; flags given beside it win."""
EXAMPLE: Final = "edgekit build model.onnx --calibration photos/ --preprocess torchvision -o model.ekb"


def add_arguments(parser: ArgumentParser) -> None:
    """Flags of the command."""
    parser.add_argument(
        "model", metavar="MODEL", help=".onnx, .pt2, file.py:factory, .tflite, or an edgekit.toml with these flags"
    )
    parser.add_argument("-o", "--output", metavar="OUT.ekb", type=Path, help="the bundle to write")
    given = parser.add_argument_group("what is given")
    given.add_argument("--calibration", metavar="PATH", help="folder of images, .npy, .npz, or file.py:function")
    given.add_argument("--preprocess", metavar="PRESET|FILE.toml", help="how an image becomes the input tensor")
    given.add_argument("--task", metavar="PRESET|FILE.toml", help="what the output means")
    given.add_argument("--classes", metavar="FILE", type=Path, help="class names, one per line")
    given.add_argument("--eval", metavar="DIR", type=Path, help="evaluation data; shares nothing with --calibration")
    given.add_argument("--labels", metavar="FILE", type=Path, help="CSV with columns file and label, or COCO json")
    given.add_argument("--samples", metavar="N", type=positive, help="use at most N calibration samples")
    given.add_argument(
        "--random-data", action="store_true", help="calibrate with random data: the result is no promise"
    )
    add_bindings(given_parser := parser)
    wanted = given_parser.add_argument_group("what is wanted")
    wanted.add_argument("--device", metavar="PROFILE", default="host", help="see `edgekit devices`; default: host")
    wanted.add_argument("--runtime", metavar="R", action="append", default=[], help=f"{RUNTIMES_HELP}; may be repeated")
    wanted.add_argument("--precision", choices=PRECISIONS, help="default: what measures best")
    wanted.add_argument("--input", choices=("float32", "uint8"), default="float32", help="dtype of the bundle's input")
    wanted.add_argument("--prefer", choices=("speed", "size", "accuracy"), default="speed", help="default: speed")
    wanted.add_argument(
        "--max-drop", metavar="POINTS", type=share_of_points, help="most that accuracy may fall; else exit 3"
    )
    how = parser.add_argument_group("how")
    how.add_argument("--observer", choices=("minmax", "percentile", "mse"), help="how ranges are chosen")
    how.add_argument("--granularity", choices=("channel", "tensor"), help="of weight scales; default: channel")
    how.add_argument("--recipe", metavar="FILE", type=Path, help="take every decision from this recipe.json")
    how.add_argument("--no-cache", action="store_true", help="compute every stage again")
    how.add_argument("--force", action="store_true", help="overwrite OUT.ekb")
    how.add_argument("--dry-run", action="store_true", help="print the plan, write nothing")
    add_json(parser)


def run(args: Namespace) -> ExitCode:
    """Build, and say what ships and why."""
    args, options = _options(args)
    from edgekit.build.pipeline import build

    progress = Progress()
    try:
        result = build(options, progress)
    finally:
        progress.close()
    artifacts = result.manifest.artifacts
    if args.json:
        print_json(
            {
                "bundle": None if options.dry_run else str(result.output),
                "artifacts": [
                    {"runtime": a.runtime, "precision": a.precision, "size": a.size, "integer_share": a.integer_share}
                    for a in artifacts
                ],
                "decisions": {name: choice.why for name, choice in result.recipe.runtimes.items()},
                "refusals": [asdict(r) for r in result.manifest.refusals],
                "remarks": list(result.manifest.notes),
                "integer_nodes": len(result.recipe.integer_nodes),
            }
        )
        return ExitCode.DONE
    if options.dry_run:
        print(f"would quantize {len(result.recipe.integer_nodes)} nodes for {result.manifest.profile}")
        _say_refusals_and_notes(result)
        print("nothing written (--dry-run)")
        return ExitCode.DONE
    share = [("-" if a.integer_share is None else f"{a.integer_share:.1%}") for a in artifacts]
    why = {f"{name} {c.precision}": c.why for name, c in result.recipe.runtimes.items()}
    rows = [
        [a.runtime, a.precision, f"{a.size / 1e6:.1f} MB", s, why.get(f"{a.runtime} {a.precision}", "second choice")]
        for a, s in zip(artifacts, share, strict=True)
    ]
    print(table(["runtime", "precision", "size", "integer share", "why"], rows))
    _say_refusals_and_notes(result)
    print(f"wrote {result.output}")
    return ExitCode.DONE


def _say_refusals_and_notes(result: "BuildResult") -> None:
    for refusal in result.manifest.refusals:
        print(f"refused: {refusal}")
    for remark in result.manifest.notes:
        print(f"note: {remark}")


def _options(args: Namespace) -> "tuple[Namespace, BuildOptions]":
    """The flags, a configuration file's keys among them, as one value. Raises `UsageError`."""
    if args.model.endswith(".toml"):
        args = with_configuration(Path(args.model), args.words, add_arguments)
    if args.output is None:
        raise UsageError("edgekit build", "no --output is given", "add -o OUT.ekb")
    from edgekit.build.options import BuildOptions

    return args, BuildOptions(
        model=args.model,
        output=args.output,
        calibration=args.calibration,
        device=args.device,
        runtimes=tuple(args.runtime),
        preprocess=args.preprocess,
        task=args.task,
        classes=args.classes,
        eval_data=args.eval,
        labels=args.labels,
        max_drop=args.max_drop,
        samples=args.samples,
        observer=args.observer,
        granularity=args.granularity,
        precision=args.precision,
        input=args.input,
        recipe=args.recipe,
        prefer=args.prefer,
        input_shapes=parse_shapes(args.input_shape),
        fixed=parse_fixed(args.fix),
        random_data=args.random_data,
        cache=not args.no_cache,
        force=args.force,
        dry_run=args.dry_run,
    )
