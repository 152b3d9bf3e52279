"""Parameters of an image input that follow from its preprocessing, not from the calibration images.

8-bit pixels take 256 real values a channel. Where one scale makes each of them an integer, the input is exact. Where
none does, no pixel may fall on a rounding tie: runtimes break ties differently (half to even, half away from zero),
and a network that is fed [-1, 1] at a step of 2/255 then gives other answers in each.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from edgekit.quantize.quantized import QParams

COARSEST: Final = 1.02  # how much wider than the finest step the search may go
_STEPS: Final = 400


def pixel_params(levels: NDArray[np.float32], extra: tuple[float, ...] = ()) -> QParams:
    """Parameters for the real values `levels` [C, 256] and further values that must fit (padding).

    Zero is exact. Of all scales up to COARSEST times the finest, the one whose closest pixel is farthest from a tie.

    >>> pixel_params(((np.arange(256) - 127) / 128).astype(np.float32)[None])
    QParams(scale=0.0078125, zero_point=127)
    """
    values = np.unique(np.concatenate([levels.astype(np.float64).ravel(), np.array([*extra, 0.0])]))
    finest = (values[-1] - values[0]) / 255
    best: tuple[float, QParams] | None = None
    for scale in finest * np.linspace(1.0, COARSEST, _STEPS):
        step = float(np.float32(scale))
        zero = int(np.clip(np.rint(-values[0] / step), 0, 255))
        exact = values / step + zero
        distance = float(np.abs(exact - np.floor(exact) - 0.5).min())
        reach = max(-0.5 - exact[0], exact[-1] - 255.5)  # beyond the last level by half a step: clipped
        if reach <= 0 and (best is None or distance > best[0] + 1e-9):
            best = (distance, QParams(step, zero))
        if distance > 0.49:
            break
    assert best is not None, values
    return best[1]
