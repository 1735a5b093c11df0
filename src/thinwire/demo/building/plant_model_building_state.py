"""What the plant model remembers from one second to the next, and what it is given: places in flat arrays.

Flat, because compiled kernels read them; named, because the kernels are to be read by people.
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from thinwire.demo.building.sensor_tags import Signal

Vector = NDArray[np.float64]

DAY = 86_400


class Status(IntEnum):
    """What is reported as it is, without a sensor; follows `Signal` in the state."""

    SOLAR_PUMP = 32
    TANK_HEATER = 33
    PLANT_MODE = 34
    CHILLER_MODE = 35
    ALARM = 36


class Hidden(IntEnum):
    """What the plant keeps to itself; follows `Status` in the state."""

    CLOUD = 37
    CLOUD_TARGET = 38
    HAZE = 39
    CHILLER_CLOCK = 40
    NEXT_BED = 41
    ALARM_CLOCK = 42
    OCCUPIED = 43


class Luck(IntEnum):
    """The chances of a second, in [0, 1); they follow those of the sensors."""

    CLOUD = 32
    CLOUD_DEPTH = 33
    ALARM = 34
    ALARM_KIND = 35
    PEOPLE = 36
    JITTER = 37


class Build(IntEnum):
    """In what plants differ, as factors around 1."""

    COLLECTORS = 0
    TANKS = 1
    ROOMS = 2
    WEATHER = 3


REPORTED = len(Signal) + len(Status)
STATE = REPORTED + len(Hidden)
CHANCES = 40

STANDBY, SOLAR_CHARGING, SOLAR_COOLING, TANK_COOLING, TANK_HEATING = range(5)
OFF, COOLING_LEFT, HEAT_RECOVERY, COOLING_RIGHT = range(4)


def first_state() -> Vector:
    """The plant early on a summer morning."""
    state = np.zeros(STATE)
    state[Signal.OUTDOOR : Signal.SOLAR_RETURN + 1] = 16.0, 18.0, 18.0, 24.0
    state[Signal.HOT_1 : Signal.COLD_2 + 1] = 64.0, 61.0, 57.0, 53.0, 15.0, 12.0
    state[Signal.DRIVE_IN : Signal.CHILLED + 1] = 45.0, 43.0, 24.0, 24.0, 16.0
    state[Signal.OFFICE : Signal.ATRIUM + 1] = 23.5, 23.0, 22.0
    state[Signal.CO2] = 420.0
    state[Signal.HEAT_ENERGY] = 4_210.0
    state[Signal.ELECTRIC_ENERGY] = 1_730.0
    state[Hidden.CLOUD] = state[Hidden.CLOUD_TARGET] = 1.0
    state[Hidden.HAZE] = 0.9
    state[Hidden.NEXT_BED] = COOLING_LEFT
    return state
