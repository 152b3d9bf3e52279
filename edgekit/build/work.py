"""What every stage of a build reads."""

from collections.abc import Mapping
from dataclasses import dataclass

from edgekit.build.importing import ImportedModel
from edgekit.build.options import BuildOptions
from edgekit.core.errors import Refusal
from edgekit.core.postprocess import Postprocess
from edgekit.core.preprocess import Preprocess
from edgekit.core.profile import DeviceProfile
from edgekit.quantize.quantized import QParams
from edgekit.quantize.weights import WeightSet


@dataclass(frozen=True, slots=True)
class Work:
    """Options made concrete. `runtimes` are those that take the model, `refusals` the others' reasons."""

    options: BuildOptions
    imported: ImportedModel
    profile: DeviceProfile
    is_host: bool
    preprocess: Mapping[str, Preprocess]
    fixed_inputs: Mapping[str, QParams]
    task: Postprocess
    runtimes: tuple[str, ...]
    refusals: tuple[Refusal, ...]

    def weights_for(self, runtime: str) -> WeightSet:
        """Which integers the runtime gets on this profile."""
        return self.profile.weights_for(runtime)

    @property
    def weight_sets(self) -> tuple[WeightSet, ...]:
        """All that are needed, in a fixed order."""
        return tuple(sorted({self.weights_for(name) for name in self.runtimes}))
