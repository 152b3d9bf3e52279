"""The engines by name, found through the entry-point group `edgekit.runtimes`; knows none of them.

A third party adds an engine by an entry point in its own distribution:

    [project.entry-points."edgekit.runtimes"]
    my-engine = "my_package.my_module:RUNTIME"
"""

from functools import cache
from importlib import metadata
from typing import Final

from edgekit.core.errors import EnvironmentFault, UsageError
from edgekit.runtimes.runtime import Runtime

GROUP: Final = "edgekit.runtimes"


@cache
def _entry_points() -> dict[str, metadata.EntryPoint]:
    return {point.name: point for point in metadata.entry_points(group=GROUP)}


def names() -> tuple[str, ...]:
    """All that are known, installed or not, in alphabetical order."""
    return tuple(sorted(_entry_points()))


@cache
def runtime(name: str) -> Runtime:
    """The engine of that name, whether installed or not; the engine itself is not imported.

    Raises `UsageError` for an unknown name, `EnvironmentFault` where an entry point leads nowhere.
    """
    point = _entry_points().get(name)
    if point is None:
        raise UsageError(f"there is no runtime '{name}'", f"known are {', '.join(names())}", "use one of these names")
    try:
        found = point.load()
    except (ImportError, AttributeError) as error:
        raise EnvironmentFault(
            f"the runtime '{name}' cannot be loaded", f"{point.value}: {error}", f"install what provides '{name}' again"
        ) from error
    if not isinstance(found, Runtime):
        raise EnvironmentFault(f"'{point.value}' is no runtime", "it lacks name, version or load", "ask its author")
    return found


def installed() -> tuple[Runtime, ...]:
    """Those whose engine is installed, in alphabetical order."""
    return tuple(each for each in map(runtime, names()) if each.version() is not None)
