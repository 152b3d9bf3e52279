"""HOST. The pipeline: import, check, optimise, calibrate, decide, emit, verify, report.

The package is also the public function: `edgekit.build(BuildOptions(...))`. A module and a function cannot share a name
in one namespace, so this module is made callable; see `pipeline.build` for what the call does.
"""

import sys
from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from edgekit.build.options import BuildOptions
    from edgekit.build.pipeline import BuildResult


class _CallableModule(ModuleType):
    def __call__(
        self, options: "BuildOptions", progress: "Callable[[str], None]" = lambda stage: None
    ) -> "BuildResult":
        """See `edgekit.build.pipeline.build`."""
        from edgekit.build.pipeline import build

        return build(options, progress)


sys.modules[__name__].__class__ = _CallableModule
