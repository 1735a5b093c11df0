"""A physical model of a solar-thermal cooling plant, with steps of one second.

Collectors on the roof charge a layered hot tank. An adsorption chiller driven by that heat cools a cold tank, which
cools the rooms. Thermostats with hysteresis switch pump, heater and chiller. The two beds of the chiller alternate,
with a heat recovery between them.

The model is frozen, see `building_stream`. It uses only +, -, *, / and comparisons and no function of libm, so that a
seed gives the same stream on every machine. Temperatures are in degrees Celsius, flows in litres per minute, powers in
kilowatts. All kernels are in one file, because Numba compiles them again only if this file changes.
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np
from numba import njit
from numpy.typing import NDArray

Vector = NDArray[np.float64]

DAY = 86_400

# The state is a flat array: signals, statuses, hidden values. The enumerations are its indexes.
Signal = IntEnum(
    "Signal",
    """
    IRRADIANCE OUTDOOR
    SOUTH_FIELD EAST_FIELD SOLAR_RETURN SOLAR_FLOW SOLAR_SPEED
    HOT_1 HOT_2 HOT_3 HOT_4 COLD_1 COLD_2
    DRIVE_IN DRIVE_OUT RECOOL_IN RECOOL_OUT CHILLED CHILLED_FLOW DRIVE_POWER COLD_POWER CHILLER_VALVE FAN_SPEED
    OFFICE LECTURE_HALL ATRIUM OFFICE_VALVE HALL_VALVE CO2
    HEAT_ENERGY ELECTRIC_ENERGY ELECTRIC_POWER
    """,
    start=0,
)
"""quantities measured by sensors, in the order of `SENSORS` in `building_stream`, which has the names in the event"""
Status = IntEnum("Status", "SOLAR_PUMP TANK_HEATER PLANT_MODE CHILLER_MODE ALARM", start=32)
"""values reported without a sensor"""
Hidden = IntEnum("Hidden", "CLOUD CLOUD_TARGET HAZE CHILLER_REMAINING NEXT_BED ALARM_REMAINING OCCUPIED", start=37)
"""values that are not reported; CHILLER_REMAINING and ALARM_REMAINING are the seconds until a mode or an alarm ends"""
RandomNumber = IntEnum("RandomNumber", "CLOUD CLOUD_DEPTH ALARM ALARM_KIND PEOPLE JITTER", start=32)
"""indexes of the random numbers of a second that the model uses; the sensors use the numbers before them"""
Factor = IntEnum("Factor", "COLLECTORS TANKS ROOMS WEATHER", start=0)
"""factors around 1 in which plants differ"""

REPORTED = len(Signal) + len(Status)
STATE = REPORTED + len(Hidden)
RANDOM_NUMBERS = 40
"""random numbers of one second; some are unused"""

STANDBY, SOLAR_CHARGING, SOLAR_COOLING, TANK_COOLING, TANK_HEATING = range(5)
OFF, COOLING_LEFT, HEAT_RECOVERY, COOLING_RIGHT = range(4)


def first_state() -> Vector:
    """Return the state early on a summer morning."""
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
def run(state: Vector, factors: Vector, start: int, numbers: Vector, out: Vector) -> None:
    """Simulate `len(out)` seconds from second `start` of the first day: update `state`, write reported values to `out`.

    numbers: one row of random numbers between 0 and 1 per second
    """
    for row in range(len(out)):
        now = start + row
        _weather(state, factors, now % DAY, numbers[row])
        _collectors(state, factors, now)
        _tanks(state, factors)
        _chiller(state, now)
        _rooms(state, factors, now % DAY, now, numbers[row])
        _meters(state)
        _alarms(state, numbers[row])
        out[row] = state[:REPORTED]


@njit()
def _clamp(value: float, low: float, high: float) -> float:
    return min(max(value, low), high)


@njit()
def _sun_height(second_of_day: float, noon: float) -> float:
    """Return the height of the sun, 1 at noon, 0 at night: a parabola over a day of 15 hours."""
    x = (second_of_day - noon) / 27_000.0
    return max(0.0, 1.0 - x * x)


@njit()
def _weather(s: Vector, factors: Vector, second_of_day: int, numbers: Vector) -> None:
    if second_of_day == 0:
        s[Hidden.HAZE] = 0.5 + 0.5 * numbers[RandomNumber.CLOUD_DEPTH]
    if numbers[RandomNumber.CLOUD] < 0.0015:
        clear = numbers[RandomNumber.CLOUD_DEPTH] < s[Hidden.HAZE] * factors[Factor.WEATHER] - 0.3
        s[Hidden.CLOUD_TARGET] = 1.0 if clear else 0.3 + 0.7 * numbers[RandomNumber.CLOUD_DEPTH]
    s[Hidden.CLOUD] += 0.03 * (s[Hidden.CLOUD_TARGET] - s[Hidden.CLOUD])
    s[Signal.IRRADIANCE] = 940.0 * _sun_height(second_of_day, 43_200.0) * s[Hidden.HAZE] * s[Hidden.CLOUD]
    target = 13.0 + 10.0 * s[Hidden.HAZE] * _sun_height(second_of_day, 50_400.0) + 0.006 * s[Signal.IRRADIANCE]
    s[Signal.OUTDOOR] += (target - s[Signal.OUTDOOR]) / 3_600.0


@njit()
def _collectors(s: Vector, factors: Vector, now: int) -> None:
    """Two fields, facing south and east, in one circuit. The pump speed follows the usable temperature difference."""
    sun = s[Signal.IRRADIANCE]
    east = sun * (1.25 if now % DAY < 43_200 else 0.75)
    flow_share = s[Signal.SOLAR_FLOW] / 60.0 * 3.7 / (720.0 * factors[Factor.COLLECTORS])
    for field, light in ((Signal.SOUTH_FIELD, sun), (Signal.EAST_FIELD, east)):
        gain = (0.72 * light - 3.8 * (s[field] - s[Signal.OUTDOOR])) / 8_000.0
        s[field] += gain - flow_share * (s[field] - s[Signal.SOLAR_RETURN])
    usable = 0.5 * (s[Signal.SOUTH_FIELD] + s[Signal.EAST_FIELD]) - s[Signal.HOT_4]
    if s[Status.SOLAR_PUMP] > 0.0:
        s[Status.SOLAR_PUMP] = 1.0 if usable > 3.0 else 0.0
    else:
        s[Status.SOLAR_PUMP] = 1.0 if usable > 10.0 and s[Signal.HOT_1] < 94.0 else 0.0
    _set_pump_speed(s, usable, now)


@njit()
def _set_pump_speed(s: Vector, usable: float, now: int) -> None:
    if s[Status.SOLAR_PUMP] == 0.0:
        s[Signal.SOLAR_SPEED] = 0.0
        s[Signal.SOLAR_RETURN] += (22.0 - s[Signal.SOLAR_RETURN]) / 9_000.0
    else:
        speed = _clamp(30.0 + 5.0 * (usable - 4.0), 30.0, 100.0)
        if s[Signal.SOLAR_SPEED] == 0.0 or (now % 30 == 0 and abs(speed - s[Signal.SOLAR_SPEED]) > 4.0):
            s[Signal.SOLAR_SPEED] = speed // 5.0 * 5.0
        s[Signal.SOLAR_RETURN] += (s[Signal.HOT_4] + 2.0 - s[Signal.SOLAR_RETURN]) / 40.0
    s[Signal.SOLAR_FLOW] += (0.52 * s[Signal.SOLAR_SPEED] - s[Signal.SOLAR_FLOW]) / 4.0
    if s[Signal.SOLAR_FLOW] < 0.05:
        s[Signal.SOLAR_FLOW] = 0.0


@njit()
def _tanks(s: Vector, factors: Vector) -> None:
    """Plug flow through the layers, down while charging, up while discharging, and a heater at the top."""
    layer = 2_000.0 * factors[Factor.TANKS]
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
    for i in range(Signal.HOT_1, Signal.HOT_4 + 1):
        s[i] -= (s[i] - 24.0) * 1.2e-6
    _heater(s, layer)


@njit()
def _heater(s: Vector, layer: float) -> None:
    limit = 64.0 if s[Status.TANK_HEATER] > 0.0 else 60.0
    s[Status.TANK_HEATER] = 1.0 if s[Signal.HOT_1] < limit else 0.0
    s[Signal.HOT_1] += s[Status.TANK_HEATER] * 9.0 / (4.186 * layer)


@njit()
def _chiller(s: Vector, now: int) -> None:
    """Start the chiller if the hot tank is hot and the cold tank is warm. The beds alternate every seven minutes."""
    mode = s[Status.CHILLER_MODE]
    if mode == OFF:
        if s[Signal.HOT_1] > 68.0 and s[Signal.COLD_2] > 13.0:
            _set_chiller_mode(s, s[Hidden.NEXT_BED], 420.0)
    elif s[Signal.HOT_1] < 58.0 or s[Signal.COLD_2] < 7.0:
        _set_chiller_mode(s, OFF, 0.0)
    else:
        s[Hidden.CHILLER_REMAINING] -= 1.0
        if s[Hidden.CHILLER_REMAINING] <= 0.0 and mode == HEAT_RECOVERY:
            _set_chiller_mode(s, s[Hidden.NEXT_BED], 420.0)
        elif s[Hidden.CHILLER_REMAINING] <= 0.0:
            s[Hidden.NEXT_BED] = COOLING_RIGHT if mode == COOLING_LEFT else COOLING_LEFT
            _set_chiller_mode(s, HEAT_RECOVERY, 45.0)
    _circuits(s, now)


@njit()
def _set_chiller_mode(s: Vector, mode: float, seconds: float) -> None:
    s[Status.CHILLER_MODE] = mode
    s[Hidden.CHILLER_REMAINING] = seconds


@njit()
def _circuits(s: Vector, now: int) -> None:
    """Drive, recooling and chilled water. Temperatures approach the values of the current mode exponentially."""
    running = s[Status.CHILLER_MODE] != OFF
    recovering = s[Status.CHILLER_MODE] == HEAT_RECOVERY
    recooler_air = s[Signal.OUTDOOR] + 2.0
    if not running:
        for i in range(Signal.DRIVE_IN, Signal.RECOOL_OUT + 1):
            s[i] += (26.0 - s[i]) / 14_000.0
        s[Signal.CHILLED] += (s[Signal.COLD_1] + 1.0 - s[Signal.CHILLED]) / 7_000.0
    else:
        s[Signal.DRIVE_IN] += (s[Signal.HOT_1] - 0.5 - s[Signal.DRIVE_IN]) / 30.0
        s[Signal.DRIVE_OUT] += (s[Signal.DRIVE_IN] - (20.0 if recovering else 8.0) - s[Signal.DRIVE_OUT]) / 110.0
        s[Signal.RECOOL_IN] += (recooler_air + 6.0 - 0.04 * s[Signal.FAN_SPEED] - s[Signal.RECOOL_IN]) / 150.0
        s[Signal.RECOOL_OUT] += (s[Signal.RECOOL_IN] + (9.0 if recovering else 4.5) - s[Signal.RECOOL_OUT]) / 110.0
        s[Signal.CHILLED] += (s[Signal.COLD_2] - (0.5 if recovering else 4.5) - s[Signal.CHILLED]) / 90.0
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
def _rooms(s: Vector, factors: Vector, second_of_day: int, now: int, numbers: Vector) -> None:
    """Sun and people heat the rooms, chilled ceilings cool two of them, the atrium follows the weather."""
    if now % 5_400 == 0:
        teaching = 28_000 < second_of_day < 64_000
        s[Hidden.OCCUPIED] = 1.0 if teaching and numbers[RandomNumber.PEOPLE] < 0.7 else 0.0
    load = 0.0
    office = (Signal.OFFICE, Signal.OFFICE_VALVE, 0.3)
    hall = (Signal.LECTURE_HALL, Signal.HALL_VALVE, 1.0)
    for room, valve, people in (office, hall):
        _control_valve(s, room, valve, now)
        cooling = s[valve] / 100.0 * 1.1 * (s[room] - s[Signal.COLD_1])
        heat = 0.009 * s[Signal.IRRADIANCE] + 4.0 * people * s[Hidden.OCCUPIED] + 0.5
        heat += 0.25 * (s[Signal.OUTDOOR] - s[room])
        s[room] += (heat - cooling) / (30_000.0 * factors[Factor.ROOMS])
        load += cooling
    s[Signal.ATRIUM] += (24.0 + 0.2 * (s[Signal.OUTDOOR] - 20.0) - s[Signal.ATRIUM]) / 20_000.0
    s[Signal.CO2] += 0.35 * s[Hidden.OCCUPIED] - (s[Signal.CO2] - 420.0) * 5e-4
    layer = 4.186 * 1_000.0 * factors[Factor.TANKS]
    mixed = (s[Signal.CHILLED_FLOW] / 60_000.0 + 3e-4) * (s[Signal.COLD_1] - s[Signal.COLD_2])
    s[Signal.COLD_1] += load / layer - mixed
    s[Signal.COLD_2] += mixed - s[Signal.COLD_POWER] / layer


@njit()
def _control_valve(s: Vector, room: int, valve: int, now: int) -> None:
    opening = _clamp((s[room] - 23.0) * 60.0, 0.0, 100.0) // 5.0 * 5.0
    if now % 60 == 0 and abs(opening - s[valve]) > 5.0:
        s[valve] = opening


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
def _alarms(s: Vector, numbers: Vector) -> None:
    """Alarms of half an hour at random times, and the mode of the plant."""
    s[Hidden.ALARM_REMAINING] -= 1.0
    if s[Hidden.ALARM_REMAINING] <= 0.0:
        s[Status.ALARM] = 0.0
    if numbers[RandomNumber.ALARM] < 0.0001:
        s[Status.ALARM] = 1.0 + 7.0 * numbers[RandomNumber.ALARM_KIND] // 1.0
        s[Hidden.ALARM_REMAINING] = 1_800.0
    pump = s[Status.SOLAR_PUMP] > 0.0
    if s[Status.CHILLER_MODE] != OFF:
        s[Status.PLANT_MODE] = SOLAR_COOLING if pump else TANK_COOLING
    elif s[Status.TANK_HEATER] > 0.0:
        s[Status.PLANT_MODE] = TANK_HEATING
    else:
        s[Status.PLANT_MODE] = SOLAR_CHARGING if pump else STANDBY
