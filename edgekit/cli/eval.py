"""`edgekit eval`: a bundle's quality on labelled data, and its agreement with the float model."""

import sys
from argparse import ArgumentParser, Namespace
from dataclasses import asdict
from pathlib import Path
from typing import Final

from edgekit.cli.arguments import PRECISIONS, add_bundle, add_json, add_runtime, add_threads
from edgekit.cli.terminal import Progress, print_json, table
from edgekit.core.errors import ExitCode

DESCRIPTION: Final = """\
Measure top-1 (or mAP 0.50:0.95 for detection) on labelled data, and agreement and mean KL divergence of softmax
against the FP32 reference that `build` wrote beside the bundle."""
EXAMPLE: Final = "edgekit eval model.ekb --data photos/ --labels labels.csv --json"


def add_arguments(parser: ArgumentParser) -> None:
    """Flags of the command."""
    add_bundle(parser)
    parser.add_argument("--data", metavar="DIR", type=Path, required=True, help="folder of images")
    parser.add_argument(
        "--labels", metavar="FILE", type=Path, required=True, help="CSV with columns file and label, or COCO json"
    )
    add_runtime(parser, default="the first that the bundle prefers and this machine has")
    parser.add_argument("--precision", choices=PRECISIONS, help="default: the one that the bundle prefers")
    parser.add_argument("--reference", metavar="DIR", type=Path, help="default: OUT.reference/ beside the bundle")
    add_threads(parser)
    add_json(parser)


def run(args: Namespace) -> ExitCode:
    """Measure, and print the figures."""
    from edgekit.runtimes.evaluation import evaluate
    from edgekit.runtimes.reference import float_model, load_precision

    model = load_precision(args.bundle, args.runtime, args.precision, threads=args.threads, reference=args.reference)
    # the answer that all runtimes are held against is ONNX Runtime's, where that is here
    reference = float_model(args.bundle, "onnxruntime", threads=args.threads, reference=args.reference) or float_model(
        args.bundle, model.entry.runtime, threads=args.threads, reference=args.reference
    )
    progress = Progress()
    try:
        found = evaluate(
            model, args.data, args.labels, reference=reference, progress=lambda i, n: progress("evaluate", i, n)
        )
    finally:
        progress.close()
    document = asdict(found)
    why = document.pop("why_no_reference")
    if why is not None:
        print(f"edgekit: {why}", file=sys.stderr)
    if args.json:
        print_json(document)
        return ExitCode.DONE
    names = {"top1": "top-1", "map": "mAP 0.50:0.95"}
    rows = [[names[found.metric], f"{found.value:.4f}"]]
    if found.agreement is not None:
        rows.append(["agreement with FP32", f"{found.agreement:.4f}"])
    if found.kl is not None:
        rows.append(["mean KL to FP32 (nats)", f"{found.kl:.5f}"])
    print(table([f"{found.runtime} {found.precision}, {found.samples} samples", "value"], rows))
    return ExitCode.DONE
