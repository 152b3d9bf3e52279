"""The engines by name, found through the entry-point group `edgekit.runtimes`.

A third party adds an engine by an entry point in its own distribution:

    [project.entry-points."edgekit.runtimes"]
    my-engine = "my_package.my_module:RUNTIME"
"""

import importlib
from functools import cache
from typing import Final

from edgekit.core.errors import EnvironmentFault, UsageError
from edgekit.runtimes.runtime import Runtime

GROUP: Final = "edgekit.runtimes"

OWN: Final = {
    "onnxruntime": "edgekit.runtimes.onnxruntime:RUNTIME",
    "openvino": "edgekit.runtimes.openvino:RUNTIME",
    "litert": "edgekit.runtimes.litert:RUNTIME",
    "tflite-runtime": "edgekit.runtimes.tflite_runtime:RUNTIME",
}
"""Our own entry points. Asked first: reading those of every installed distribution takes longer than some engines."""


@cache
def _places() -> dict[str, str]:
    from importlib import metadata

    return {point.name: point.value for point in metadata.entry_points(group=GROUP)} | OWN


def names() -> tuple[str, ...]:
    """All that are known, installed or not: our own in their order of preference, then others by name."""
    return (*OWN, *sorted(_places().keys() - OWN.keys()))


@cache
def runtime(name: str) -> Runtime:
    """The engine of that name, whether installed or not; the engine itself is not imported.

    Raises `UsageError` for an unknown name, `EnvironmentFault` where an entry point leads nowhere.
    """
    place = OWN.get(name) or _places().get(name)
    if place is None:
        raise UsageError(f"there is no runtime '{name}'", f"known are {', '.join(names())}", "use one of these names")
    module, _, attribute = place.partition(":")
    try:
        found = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise EnvironmentFault(
            f"the runtime '{name}' cannot be loaded", f"{place}: {error}", f"install what provides '{name}' again"
        ) from error
    if not isinstance(found, Runtime):
        raise EnvironmentFault(f"'{place}' is no runtime", "it lacks name, version or load", "ask its author")
    return found


def installed() -> tuple[Runtime, ...]:
    """Those whose engine is installed, in the order of `names`."""
    return tuple(each for each in map(runtime, names()) if each.version() is not None)
