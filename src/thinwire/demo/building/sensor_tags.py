"""What the building reports: one tag per sensor, with its unit, step and range.

Frozen. The names, steps and texts decide how large an event is as JSON, gzip, Avro and Thrift; they were chosen to meet
the published sizes of the original building (see `building_calibration`) before any codec of this project was measured
on them, and changing one would make every figure printed since incomparable.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from thinwire.schema import Kind, Property, Role, Schema


class Signal(IntEnum):
    """The measured quantities, in the order of the event; also their place in the state of the plant model."""

    IRRADIANCE = 0
    OUTDOOR = 1
    SOUTH_FIELD = 2
    EAST_FIELD = 3
    SOLAR_RETURN = 4
    SOLAR_FLOW = 5
    SOLAR_SPEED = 6
    HOT_1 = 7
    HOT_2 = 8
    HOT_3 = 9
    HOT_4 = 10
    COLD_1 = 11
    COLD_2 = 12
    DRIVE_IN = 13
    DRIVE_OUT = 14
    RECOOL_IN = 15
    RECOOL_OUT = 16
    CHILLED = 17
    CHILLED_FLOW = 18
    DRIVE_POWER = 19
    COLD_POWER = 20
    CHILLER_VALVE = 21
    FAN_SPEED = 22
    OFFICE = 23
    LECTURE_HALL = 24
    ATRIUM = 25
    OFFICE_VALVE = 26
    HALL_VALVE = 27
    CO2 = 28
    HEAT_ENERGY = 29
    ELECTRIC_ENERGY = 30
    ELECTRIC_POWER = 31


@dataclass(frozen=True)
class Sensor:
    """How a quantity is reported.

    numerator, denominator: the step, as a fraction whose denominator is a power of ten
    noise: amplitude of the wandering error, in the unit of the quantity
    poll: seconds between readings; meters on a bus are asked less often than once a second
    """

    name: str
    unit: str
    numerator: int
    denominator: int
    minimum: float
    maximum: float
    noise: float = 0.0
    poll: int = 1

    @property
    def step(self) -> str:
        return f"{self.numerator}/{self.denominator}"


def _temperature(name: str, minimum: float = 0, maximum: float = 120, noise: float = 0.2) -> Sensor:
    return Sensor(name, "qudt:DEG_C", 1, 10, minimum, maximum, noise)


def _percent(name: str) -> Sensor:
    return Sensor(name, "qudt:PERCENT", 1, 1, 0, 100)


SENSORS: tuple[Sensor, ...] = (
    Sensor("solar_irradiance", "qudt:W-PER-M2", 5, 1, 0, 1400, noise=20.0),
    _temperature("outdoor_temp", -20, 50),
    _temperature("solar_temp_1", -20, 180, 0.4),
    _temperature("solar_temp_2", -20, 180, 0.4),
    _temperature("solar_temp_3", -20, 180, 0.4),
    Sensor("solar_flow", "qudt:L-PER-MIN", 1, 10, 0, 80, noise=1.6),
    _percent("solar_speed"),
    _temperature("hot_tank_1"),
    _temperature("hot_tank_2"),
    _temperature("hot_tank_3"),
    _temperature("hot_tank_4"),
    _temperature("cold_tank_1"),
    _temperature("cold_tank_2"),
    _temperature("chiller_temp_1", noise=0.4),
    _temperature("chiller_temp_2", noise=0.4),
    _temperature("chiller_temp_3", noise=0.4),
    _temperature("chiller_temp_4", noise=0.4),
    _temperature("chiller_temp_5", noise=0.4),
    Sensor("chiller_flow", "qudt:L-PER-MIN", 1, 10, 0, 80, noise=1.6),
    Sensor("chiller_power_in", "qudt:KiloW", 1, 10, 0, 120, noise=1.2),
    Sensor("chiller_power_out", "qudt:KiloW", 1, 10, 0, 60, noise=1.2),
    _percent("chiller_valve"),
    _percent("chiller_speed"),
    _temperature("room_temp_1", 0, 50),
    _temperature("room_temp_2", 0, 50),
    _temperature("room_temp_3", 0, 50),
    _percent("room_valve_1"),
    _percent("room_valve_2"),
    Sensor("room_co2", "qudt:PPM", 5, 1, 0, 5000, noise=10.0),
    Sensor("solar_energy", "qudt:KiloW-HR", 1, 10, 0, 9_999_999, poll=30),
    Sensor("plant_energy", "qudt:KiloW-HR", 1, 10, 0, 9_999_999, poll=30),
    Sensor("plant_power", "qudt:KiloW", 1, 100, 0, 20, noise=0.08),
)

PLANT_MODES = ("STANDBY", "SOLAR_CHARGING", "SOLAR_COOLING", "TANK_COOLING", "TANK_HEATING")
CHILLER_MODES = ("STANDBY", "COOLING_LEFT", "HEAT_RECOVERY", "COOLING_RIGHT")
ALARMS = (
    "no alarm",
    "solar flow low",
    "solar pressure low",
    "fan speed limited",
    "chiller flow low",
    "room_co2 high",
    "room_temp_2 high",
    "hot_tank_1 high",
)


def schema() -> Schema:
    """The schema of the building's events.

    >>> building = schema()
    >>> building["hot_tank_1"].step, building["chiller_mode"].members[0], len(building.wire)
    (Fraction(1, 10), 'STANDBY', 38)
    """
    return Schema(
        "building.plant",
        [
            Property("timestamp", Kind.TIMESTAMP, Role.HEADER, form="iso:T3Z"),
            Property("plant", Kind.STRING, Role.DIMENSION),
            Property("controller", Kind.STRING, Role.DIMENSION),
            *(_number(sensor) for sensor in SENSORS),
            Property("solar_pump", Kind.BOOLEAN),
            Property("tank_heater", Kind.BOOLEAN),
            Property("plant_mode", Kind.ENUM, members=PLANT_MODES),
            Property("chiller_mode", Kind.ENUM, members=CHILLER_MODES),
            Property("alarm", Kind.STRING),
        ],
    )


def _number(sensor: Sensor) -> Property:
    return Property(
        sensor.name,
        Kind.NUMBER,
        step=sensor.step,
        minimum=sensor.minimum,
        maximum=sensor.maximum,
        unit=sensor.unit,
    )
