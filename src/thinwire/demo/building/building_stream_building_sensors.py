"""From what is so to what is reported: noise, steps, inertia of the display, and polling.

A reading is the true value plus a slowly wandering error. What is reported is a whole count of the sensor's step, and
stays as it is until the reading has left it by more than half a step and a margin; without the margin a value on the
edge between two steps would flicker. Meters on a bus report only when they are polled.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from thinwire.demo.building.plant_model_building_state import Vector
from thinwire.demo.building.sensor_tags import SENSORS

Counts = NDArray[np.int64]

MARGIN = 0.3
"""fraction of a step by which a reading must pass the middle between two steps"""

STEPS = np.array([s.numerator / s.denominator for s in SENSORS])
NOISE = np.array([s.noise for s in SENSORS])
POLLS = np.array([s.poll for s in SENSORS])
LOWEST = np.array([int(s.minimum * s.denominator) // s.numerator for s in SENSORS])


class Sensors:
    """All sensors of one plant, with what they last reported.

    >>> sensors = Sensors()
    >>> still = np.full((3, len(SENSORS)), 21.04)
    >>> int(sensors.read(still, np.full(still.shape, 0.5), second=0)[2, 1])
    210
    """

    def __init__(self) -> None:
        self._wander = np.zeros(len(SENSORS))
        self._shown: Counts | None = None

    def read(self, signals: Vector, chances: Vector, second: int) -> Counts:
        """What is reported for each row of true values, in counts of each sensor's step."""
        if self._shown is None:
            self._shown = np.floor(signals[0, : len(SENSORS)] / STEPS + 0.5).astype(np.int64)
        ticks = np.empty((len(signals), len(SENSORS)), np.int64)
        _report(signals, chances, second, STEPS, NOISE, POLLS, LOWEST, self._wander, self._shown, ticks)
        return ticks


@njit(cache=True)
def _report(
    signals: Vector,
    chances: Vector,
    second: int,
    steps: Vector,
    noise: Vector,
    polls: Counts,
    lowest: Counts,
    wander: Vector,
    shown: Counts,
    ticks: Counts,
) -> None:
    for row in range(len(ticks)):
        for j in range(len(steps)):
            wander[j] += 0.1 * (2.0 * chances[row, j] - 1.0 - wander[j])
            # a sensor of something that stands still reads zero, and its noise with it
            error = noise[j] * wander[j] if signals[row, j] != 0.0 else 0.0
            if (second + row + j) % polls[j] == 0:
                counts = (signals[row, j] + error) / steps[j]
                if abs(counts - shown[j]) > 0.5 + MARGIN:
                    shown[j] = max(lowest[j], int(np.floor(counts + 0.5)))
            ticks[row, j] = shown[j]
