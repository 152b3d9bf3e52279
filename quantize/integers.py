"""The integers of the weights on disk, beside a recipe: what a decided recipe needs to give the same bytes anywhere."""

import io
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Final
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from edgekit.quantize.quantized import QuantizedModel, QWeight
from edgekit.quantize.recipe import Recipe
from edgekit.quantize.weights import WeightSet

FILE: Final = "integers.npz"
_DIGEST: Final = "parameters_digest"
_NO_AXIS: Final = -1

Integers = dict[WeightSet, tuple[dict[str, QWeight], dict[str, NDArray[np.int32]]]]


def pack_integers(recipe: Recipe, quantized: Mapping[WeightSet, QuantizedModel]) -> bytes:
    """A compressed .npz: for each weight set and node the int8 values, scales, axis and int32 bias."""
    arrays: dict[str, NDArray[np.generic]] = {_DIGEST: np.frombuffer(recipe.parameters_digest().encode(), np.uint8)}
    for weights, model in sorted(quantized.items()):
        for i, node in enumerate(sorted(model.weights)):
            weight = model.weights[node]
            key = f"{weights}.{i}"  # node names may hold what a zip member's name must not
            arrays[f"{key}.node"] = np.frombuffer(node.encode(), np.uint8)
            arrays[f"{key}.values"] = weight.values
            arrays[f"{key}.scales"] = weight.scales
            arrays[f"{key}.axis"] = np.array([_NO_AXIS if weight.axis is None else weight.axis], np.int32)
            if node in model.biases:
                arrays[f"{key}.bias"] = model.biases[node]
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)  # type: ignore[arg-type]  # numpy before 2.1 has no allow_pickle here
    return buffer.getvalue()


def load_integers(recipe_path: Path, recipe: Recipe) -> Integers | None:
    """The integers beside a recipe; None where they are missing, damaged, or the recipe was edited since."""
    try:
        with np.load(recipe_path.with_name(FILE), allow_pickle=False) as stored:
            if bytes(stored[_DIGEST]).decode() != recipe.parameters_digest():
                return None
            found: Integers = {}
            for name in stored.files:
                if not name.endswith(".node"):
                    continue
                key = name.removesuffix(".node")
                weights: WeightSet = "full" if key.startswith("full.") else "saturation-safe"
                values, biases = found.setdefault(weights, ({}, {}))
                node = bytes(stored[name]).decode()
                axis = int(stored[f"{key}.axis"][0])
                values[node] = QWeight(
                    stored[f"{key}.values"], stored[f"{key}.scales"], None if axis == _NO_AXIS else axis
                )
                if f"{key}.bias" in stored.files:
                    biases[node] = stored[f"{key}.bias"]
            return found
    except (OSError, ValueError, KeyError, EOFError, RuntimeError, MemoryError, BadZipFile, zlib.error):
        return None  # whatever is wrong with that file, the integers are computed again
