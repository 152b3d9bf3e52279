"""`edgekit inspect`: what is in a bundle."""

from argparse import ArgumentParser, Namespace
from typing import Final

from edgekit.cli.arguments import add_bundle, add_json
from edgekit.cli.terminal import print_json, table
from edgekit.core.errors import ExitCode

DESCRIPTION: Final = (
    "Show a bundle's manifest: artifacts, sizes, hashes, integer share, errors on the golden samples, refusals."
)
EXAMPLE: Final = "edgekit inspect model.ekb"


def add_arguments(parser: ArgumentParser) -> None:
    """Flags of the command."""
    add_bundle(parser)
    add_json(parser)


def run(args: Namespace) -> ExitCode:
    """Print the manifest, as JSON or as tables."""
    from edgekit.core.bundle import Bundle
    from edgekit.core.record import to_plain

    with Bundle.open(args.bundle) as bundle:
        manifest = bundle.manifest
    if args.json:
        plain = to_plain(manifest)
        assert isinstance(plain, dict)
        sized = [
            {**entry, "size": artifact.size} if isinstance(entry, dict) else entry
            for entry, artifact in zip(_listed(plain["artifacts"]), manifest.artifacts, strict=True)
        ]
        print_json({**plain, "artifacts": sized})
        return ExitCode.DONE
    print(f"{manifest.model}, built by edgekit {manifest.version} for {manifest.profile}")
    for port in (*manifest.inputs, *manifest.outputs):
        way = "in " if port in manifest.inputs else "out"
        print(f"  {way} {port.name}  {port.dtype} {list(port.shape)}")
    rows = [
        [
            entry.label,
            f"{entry.size / 1e6:.2f} MB",
            "-" if entry.integer_share is None else f"{entry.integer_share:.2%}",
            ", ".join(f"{max(g.nrmse.values(), default=0.0):.2g}" for g in entry.golden) or "-",
            entry.speed,
        ]
        for entry in manifest.artifacts
    ]
    print(table(["artifact", "size", "integer share", "golden errors", "speed"], rows))
    if manifest.calibration is not None:
        c = manifest.calibration
        print(f"calibrated on {c.samples} samples ({c.observer}, per {c.granularity})")
    for refusal in manifest.refusals:
        print(f"refused: {refusal}")
    for note in manifest.notes:
        print(f"note: {note}")
    return ExitCode.DONE


def _listed(value: object) -> list[object]:
    assert isinstance(value, list)
    return value
