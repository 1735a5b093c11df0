"""A small physical model of a solar-thermal cooling plant, one step a second.

Collectors on the roof charge a layered hot tank; an adsorption chiller driven by that heat cools a cold tank; the cold
tank cools the rooms. Thermostats with hysteresis switch pump, heater and chiller; the chiller's two beds take turns,
with a pause between them in which heat is recovered. Frozen together with `building_tags`.

Only +, -, *, / and comparisons are used, never a function of libm, so that a seed gives the same stream everywhere.
Temperatures are degrees Celsius, flows litres a minute, powers kilowatts. One file, because the compiled code is kept
on disk and only a change of this file renews it.

What the plant model remembers from one second to the next, and what it is given: places in flat arrays.

Flat, because compiled kernels read them; named, because the kernels are to be read by people.
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np
from numba import njit
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


@njit(cache=True)
def run(state: Vector, build: Vector, second: int, chances: Vector, out: Vector) -> None:
    """Let the plant run for `len(out)` seconds from `second` of its first day on; `state` is carried on in place."""
    for row in range(len(out)):
        now = second + row
        _weather(state, build, now % DAY, chances[row])
        _collectors(state, build, now)
        _tanks(state, build)
        _chiller(state, now)
        _rooms(state, build, now % DAY, now, chances[row])
        _meters(state)
        _alarms(state, chances[row])
        out[row] = state[:REPORTED]


@njit()
def _clamp(value: float, low: float, high: float) -> float:
    return min(max(value, low), high)


@njit()
def _bow(second: float, noon: float) -> float:
    """The height of the sun over a day of 15 hours: a parabola, 0 at night."""
    x = (second - noon) / 27_000.0
    return max(0.0, 1.0 - x * x)


@njit()
def _weather(s: Vector, build: Vector, second: int, luck: Vector) -> None:
    if second == 0:
        s[Hidden.HAZE] = 0.5 + 0.5 * luck[Luck.CLOUD_DEPTH]
    if luck[Luck.CLOUD] < 0.0015:
        clear = luck[Luck.CLOUD_DEPTH] < s[Hidden.HAZE] * build[Build.WEATHER] - 0.3
        s[Hidden.CLOUD_TARGET] = 1.0 if clear else 0.3 + 0.7 * luck[Luck.CLOUD_DEPTH]
    s[Hidden.CLOUD] += 0.03 * (s[Hidden.CLOUD_TARGET] - s[Hidden.CLOUD])
    s[Signal.IRRADIANCE] = 940.0 * _bow(second, 43_200.0) * s[Hidden.HAZE] * s[Hidden.CLOUD]
    settled = 13.0 + 10.0 * s[Hidden.HAZE] * _bow(second, 50_400.0) + 0.006 * s[Signal.IRRADIANCE]
    s[Signal.OUTDOOR] += (settled - s[Signal.OUTDOOR]) / 3_600.0


@njit()
def _collectors(s: Vector, build: Vector, now: int) -> None:
    """Two fields, facing south and east, in one circuit; the pump's speed follows the usable difference."""
    sun = s[Signal.IRRADIANCE]
    east = sun * (1.25 if now % DAY < 43_200 else 0.75)
    taken = s[Signal.SOLAR_FLOW] / 60.0 * 3.7 / (720.0 * build[Build.COLLECTORS])
    for field, light in ((Signal.SOUTH_FIELD, sun), (Signal.EAST_FIELD, east)):
        gain = (0.72 * light - 3.8 * (s[field] - s[Signal.OUTDOOR])) / 8_000.0
        s[field] += gain - taken * (s[field] - s[Signal.SOLAR_RETURN])
    usable = 0.5 * (s[Signal.SOUTH_FIELD] + s[Signal.EAST_FIELD]) - s[Signal.HOT_4]
    if s[Status.SOLAR_PUMP] > 0.0:
        s[Status.SOLAR_PUMP] = 1.0 if usable > 3.0 else 0.0
    else:
        s[Status.SOLAR_PUMP] = 1.0 if usable > 10.0 and s[Signal.HOT_1] < 94.0 else 0.0
    _drive_pump(s, usable, now)


@njit()
def _drive_pump(s: Vector, usable: float, now: int) -> None:
    if s[Status.SOLAR_PUMP] == 0.0:
        s[Signal.SOLAR_SPEED] = 0.0
        s[Signal.SOLAR_RETURN] += (22.0 - s[Signal.SOLAR_RETURN]) / 9_000.0
    else:
        wanted = _clamp(30.0 + 5.0 * (usable - 4.0), 30.0, 100.0)
        if s[Signal.SOLAR_SPEED] == 0.0 or (now % 30 == 0 and abs(wanted - s[Signal.SOLAR_SPEED]) > 4.0):
            s[Signal.SOLAR_SPEED] = wanted // 5.0 * 5.0
        s[Signal.SOLAR_RETURN] += (s[Signal.HOT_4] + 2.0 - s[Signal.SOLAR_RETURN]) / 40.0
    s[Signal.SOLAR_FLOW] += (0.52 * s[Signal.SOLAR_SPEED] - s[Signal.SOLAR_FLOW]) / 4.0
    if s[Signal.SOLAR_FLOW] < 0.05:
        s[Signal.SOLAR_FLOW] = 0.0


@njit()
def _tanks(s: Vector, build: Vector) -> None:
    """Plug flow through the layers, down when charged, up when drawn from; a heater at the top for cloudy days."""
    layer = 2_000.0 * build[Build.TANKS]
    down = s[Signal.SOLAR_FLOW] / 60.0 / layer
    feed = 0.5 * (s[Signal.SOUTH_FIELD] + s[Signal.EAST_FIELD]) - 2.0
    s[Signal.HOT_4] += down * (s[Signal.HOT_3] - s[Signal.HOT_4])
    s[Signal.HOT_3] += down * (s[Signal.HOT_2] - s[Signal.HOT_3])
    if feed > s[Signal.HOT_1]:
        s[Signal.HOT_2] += down * (s[Signal.HOT_1] - s[Signal.HOT_2])
        s[Signal.HOT_1] += down * (feed - s[Signal.HOT_1])
    else:
        s[Signal.HOT_2] += down * (feed - s[Signal.HOT_2])
    up = 0.5 / layer if s[Status.CHILLER_MODE] != OFF else 0.0
    s[Signal.HOT_1] += up * (s[Signal.HOT_2] - s[Signal.HOT_1])
    s[Signal.HOT_2] += up * (s[Signal.HOT_3] - s[Signal.HOT_2])
    s[Signal.HOT_3] += up * (s[Signal.HOT_4] - s[Signal.HOT_3])
    s[Signal.HOT_4] += up * (s[Signal.DRIVE_OUT] - s[Signal.HOT_4])
    for place in range(Signal.HOT_1, Signal.HOT_4 + 1):
        s[place] -= (s[place] - 24.0) * 1.2e-6
    _heater(s, layer)


@njit()
def _heater(s: Vector, layer: float) -> None:
    limit = 64.0 if s[Status.TANK_HEATER] > 0.0 else 60.0
    s[Status.TANK_HEATER] = 1.0 if s[Signal.HOT_1] < limit else 0.0
    s[Signal.HOT_1] += s[Status.TANK_HEATER] * 9.0 / (4.186 * layer)


@njit()
def _chiller(s: Vector, now: int) -> None:
    """Starts when the hot tank can drive it and the cold tank asks; the beds swap every seven minutes."""
    mode = s[Status.CHILLER_MODE]
    if mode == OFF:
        if s[Signal.HOT_1] > 68.0 and s[Signal.COLD_2] > 13.0:
            _enter(s, s[Hidden.NEXT_BED], 420.0)
    elif s[Signal.HOT_1] < 58.0 or s[Signal.COLD_2] < 7.0:
        _enter(s, OFF, 0.0)
    else:
        s[Hidden.CHILLER_CLOCK] -= 1.0
        if s[Hidden.CHILLER_CLOCK] <= 0.0 and mode == HEAT_RECOVERY:
            _enter(s, s[Hidden.NEXT_BED], 420.0)
        elif s[Hidden.CHILLER_CLOCK] <= 0.0:
            s[Hidden.NEXT_BED] = COOLING_RIGHT if mode == COOLING_LEFT else COOLING_LEFT
            _enter(s, HEAT_RECOVERY, 45.0)
    _circuits(s, now)


@njit()
def _enter(s: Vector, mode: float, seconds: float) -> None:
    s[Status.CHILLER_MODE] = mode
    s[Hidden.CHILLER_CLOCK] = seconds


@njit()
def _circuits(s: Vector, now: int) -> None:
    """Drive, recooling and chilled water: a fresh bed swallows much heat, then less and less."""
    running = s[Status.CHILLER_MODE] != OFF
    resting = s[Status.CHILLER_MODE] == HEAT_RECOVERY
    wet = s[Signal.OUTDOOR] + 2.0
    if not running:
        for place in range(Signal.DRIVE_IN, Signal.RECOOL_OUT + 1):
            s[place] += (26.0 - s[place]) / 14_000.0
        s[Signal.CHILLED] += (s[Signal.COLD_1] + 1.0 - s[Signal.CHILLED]) / 7_000.0
    else:
        s[Signal.DRIVE_IN] += (s[Signal.HOT_1] - 0.5 - s[Signal.DRIVE_IN]) / 30.0
        s[Signal.DRIVE_OUT] += (s[Signal.DRIVE_IN] - (20.0 if resting else 8.0) - s[Signal.DRIVE_OUT]) / 110.0
        s[Signal.RECOOL_IN] += (wet + 6.0 - 0.04 * s[Signal.FAN_SPEED] - s[Signal.RECOOL_IN]) / 150.0
        s[Signal.RECOOL_OUT] += (s[Signal.RECOOL_IN] + (9.0 if resting else 4.5) - s[Signal.RECOOL_OUT]) / 110.0
        s[Signal.CHILLED] += (s[Signal.COLD_2] - (0.5 if resting else 4.5) - s[Signal.CHILLED]) / 90.0
    _set_speeds(s, running, now)
    flow = s[Signal.CHILLED_FLOW] / 60.0 * 4.186
    s[Signal.COLD_POWER] = max(0.0, flow * (s[Signal.COLD_2] - s[Signal.CHILLED]))
    s[Signal.DRIVE_POWER] = max(0.0, 0.5 * 4.186 * (s[Signal.DRIVE_IN] - s[Signal.DRIVE_OUT])) if running else 0.0


@njit()
def _set_speeds(s: Vector, running: bool, now: int) -> None:
    s[Signal.CHILLED_FLOW] += ((45.0 if running else 0.0) - s[Signal.CHILLED_FLOW]) / 5.0
    if s[Signal.CHILLED_FLOW] < 0.05:
        s[Signal.CHILLED_FLOW] = 0.0
    s[Signal.CHILLER_VALVE] = _clamp(s[Signal.CHILLER_VALVE] + (5.0 if running else -5.0), 0.0, 100.0)
    if not running:
        s[Signal.FAN_SPEED] = 0.0
    elif now % 60 == 0:
        s[Signal.FAN_SPEED] = _clamp((s[Signal.RECOOL_OUT] - 20.0) * 8.0, 20.0, 100.0) // 10.0 * 10.0


@njit()
def _rooms(s: Vector, build: Vector, second: int, now: int, luck: Vector) -> None:
    """Sun and people heat the rooms, chilled ceilings cool two of them; the atrium follows the weather."""
    if now % 5_400 == 0:
        teaching = 28_000 < second < 64_000
        s[Hidden.OCCUPIED] = 1.0 if teaching and luck[Luck.PEOPLE] < 0.7 else 0.0
    load = 0.0
    office = (Signal.OFFICE, Signal.OFFICE_VALVE, 0.3)
    hall = (Signal.LECTURE_HALL, Signal.HALL_VALVE, 1.0)
    for room, valve, people in (office, hall):
        _ceiling(s, room, valve, now)
        cooling = s[valve] / 100.0 * 1.1 * (s[room] - s[Signal.COLD_1])
        heat = 0.009 * s[Signal.IRRADIANCE] + 4.0 * people * s[Hidden.OCCUPIED] + 0.5
        heat += 0.25 * (s[Signal.OUTDOOR] - s[room])
        s[room] += (heat - cooling) / (30_000.0 * build[Build.ROOMS])
        load += cooling
    s[Signal.ATRIUM] += (24.0 + 0.2 * (s[Signal.OUTDOOR] - 20.0) - s[Signal.ATRIUM]) / 20_000.0
    s[Signal.CO2] += 0.35 * s[Hidden.OCCUPIED] - (s[Signal.CO2] - 420.0) * 5e-4
    layer = 4.186 * 1_000.0 * build[Build.TANKS]
    mixed = (s[Signal.CHILLED_FLOW] / 60_000.0 + 3e-4) * (s[Signal.COLD_1] - s[Signal.COLD_2])
    s[Signal.COLD_1] += load / layer - mixed
    s[Signal.COLD_2] += mixed - s[Signal.COLD_POWER] / layer


@njit()
def _ceiling(s: Vector, room: int, valve: int, now: int) -> None:
    wanted = _clamp((s[room] - 23.0) * 60.0, 0.0, 100.0) // 5.0 * 5.0
    if now % 60 == 0 and abs(wanted - s[valve]) > 5.0:
        s[valve] = wanted


@njit()
def _meters(s: Vector) -> None:
    pumped = s[Signal.SOLAR_FLOW] / 60.0 * 3.7
    harvest = pumped * max(0.0, 0.5 * (s[Signal.SOUTH_FIELD] + s[Signal.EAST_FIELD]) - s[Signal.SOLAR_RETURN])
    fan = s[Signal.FAN_SPEED] / 100.0
    running = 1.0 if s[Status.CHILLER_MODE] != OFF else 0.0
    watts = 140.0 + 4.0 * s[Signal.SOLAR_SPEED] + 1_800.0 * fan * fan * fan + 420.0 * running
    watts += 9_000.0 * s[Status.TANK_HEATER]
    s[Signal.ELECTRIC_POWER] = watts / 1_000.0
    s[Signal.HEAT_ENERGY] += harvest / 3_600.0
    s[Signal.ELECTRIC_ENERGY] += watts / 3_600_000.0


@njit()
def _alarms(s: Vector, luck: Vector) -> None:
    """Now and then something complains for a while; and the mode of the plant sums up what runs."""
    s[Hidden.ALARM_CLOCK] -= 1.0
    if s[Hidden.ALARM_CLOCK] <= 0.0:
        s[Status.ALARM] = 0.0
    if luck[Luck.ALARM] < 0.0001:
        s[Status.ALARM] = 1.0 + 7.0 * luck[Luck.ALARM_KIND] // 1.0
        s[Hidden.ALARM_CLOCK] = 1_800.0
    pump = s[Status.SOLAR_PUMP] > 0.0
    if s[Status.CHILLER_MODE] != OFF:
        s[Status.PLANT_MODE] = SOLAR_COOLING if pump else TANK_COOLING
    elif s[Status.TANK_HEATER] > 0.0:
        s[Status.PLANT_MODE] = TANK_HEATING
    else:
        s[Status.PLANT_MODE] = SOLAR_CHARGING if pump else STANDBY
