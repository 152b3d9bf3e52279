"""`edgekit check`: which runtimes can take a model, and each node that they cannot."""

from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING, Final

from edgekit.cli.arguments import RUNTIMES_HELP, add_bindings, add_json, parse_fixed, parse_shapes
from edgekit.cli.terminal import print_json, table
from edgekit.core.errors import ExitCode

if TYPE_CHECKING:
    from edgekit.build.checking import CheckReport

DESCRIPTION: Final = """\
Say, for each runtime of a device profile, which nodes of a model it cannot take, why, and what to do.
Exit code 0 where some runtime takes the model, 5 where none does."""
EXAMPLE: Final = "edgekit check model.onnx --device raspberry-pi-5"


def add_arguments(parser: ArgumentParser) -> None:
    """Flags of the command."""
    parser.add_argument("model", metavar="MODEL", help=".onnx, .pt2, file.py:factory or .tflite")
    parser.add_argument("--device", metavar="PROFILE", default="host", help="see `edgekit devices`; default: host")
    parser.add_argument(
        "--runtime", metavar="R", action="append", default=[], help=f"may be repeated: {RUNTIMES_HELP}; default: all"
    )
    parser.add_argument("--nodes", action="store_true", help="list every node by the name that keep_float takes")
    add_bindings(parser)
    add_json(parser)


def run(args: Namespace) -> ExitCode:
    """Ask the runtimes and print their answers."""
    shapes, fixed = parse_shapes(args.input_shape), parse_fixed(args.fix)
    from edgekit.build.checking import check_model
    from edgekit.core.profile import load_profile

    profile = load_profile(args.device)
    report = check_model(args.model, args.runtime or tuple(profile.runtimes), input_shapes=shapes, fixed=fixed)
    if args.json:
        print_json({**report.to_json(), "device": profile.name})
    else:
        print(rendered(report, with_nodes=args.nodes))
    return ExitCode.DONE if report.is_taken else ExitCode.UNSUPPORTED


def rendered(report: "CheckReport", *, with_nodes: bool) -> str:
    """The report for a person."""
    lines = [report.model]
    for way, ports in (("in ", report.inputs), ("out", report.outputs)):
        for port in ports:
            unused = "  (unused)" if port.unused else ""
            lines.append(f"  {way} {port.name}  {port.dtype} [{', '.join(map(str, port.shape))}]{unused}")
    total = sum(report.operators.values())
    lines.append(f"{total} nodes: " + ", ".join(f"{count} {op}" for op, count in report.operators.items()))
    lines += [f"note: {note}" for note in report.notes]
    answers = [
        [v.runtime, "takes it" if v.takes_it else f"refuses {len(v.refusals)} node{'s' * (len(v.refusals) > 1)}"]
        for v in report.verdicts
    ]
    lines.append(table(["runtime", "answer"], answers))
    lines += [f"refused: {refusal}" for verdict in report.verdicts for refusal in verdict.refusals]
    if with_nodes:
        rows = [[node.name, node.op, "yes" if node.is_quantizable else "no"] for node in report.nodes]
        lines.append(table(["node", "operator", "quantizable"], rows))
    return "\n".join(lines)
