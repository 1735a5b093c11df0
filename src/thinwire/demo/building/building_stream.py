"""Sensors, schema and event stream of the building's plants.

A signal is a value of the plant model; a reading is the signal plus a slowly varying error. A sensor reports ticks,
which are whole numbers of steps. The report changes when the reading differs from it by more than half a step and a
margin. Without the margin, reports of a value between two steps would alternate. Energy meters are read every 30 s.

A seed gives the same stream on every machine: the random numbers are the raw output of PCG64, whose sequence NumPy
guarantees. Batches and single events have the same values. Memory holds one block of each plant.

The stream is frozen. Names, steps and texts determine the sizes as JSON, gzip, Avro and Thrift; they were calibrated to
the published sizes of the original building before any codec of this project was measured. Any change would make all
published figures incomparable.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
from numba import njit
from numpy.typing import NDArray

from thinwire.demo.building.plant_model import (
    DAY,
    RANDOM_NUMBERS,
    Factor,
    RandomNumber,
    Status,
    Vector,
    first_state,
    run,
)
from thinwire.errors import ConfigError
from thinwire.schema import Kind, Property, Role, Schema

Ticks = NDArray[np.int64]
"""values of properties as whole numbers of steps"""

BLOCK = 10_000
"""largest number of rows of a batch"""
MAX_SOURCES = 1_000
MARGIN = 0.3
"""part of a step that a reading must exceed the middle between two steps by, before the report changes"""
_START = 1_530_507_600
"""2018-07-02T05:00:00Z, half an hour after the sunrise of the model: the values of a short sample change"""
_WORDS = RANDOM_NUMBERS // 4
"""64-bit words of the random generator for one second"""


@dataclass(frozen=True)
class Sensor:
    """A sensor of one signal.

    name: name of the property
    numerator, denominator: the step, numerator / denominator; the denominator is a power of ten
    minimum, maximum: range of the property, in its unit
    max_error: largest error of a reading, in the unit of the property
    interval: seconds between two readings
    """

    name: str
    unit: str
    numerator: int
    denominator: int
    minimum: float
    maximum: float
    max_error: float = 0.0
    interval: int = 1

    @property
    def property(self) -> Property:
        """The property of the schema."""
        step = f"{self.numerator}/{self.denominator}"
        return Property(self.name, Kind.NUMBER, step=step, minimum=self.minimum, maximum=self.maximum, unit=self.unit)


def _temperature(name: str, minimum: float = 0, maximum: float = 120, max_error: float = 0.2) -> Sensor:
    return Sensor(name, "qudt:DEG_C", 1, 10, minimum, maximum, max_error)


def _percent(name: str) -> Sensor:
    return Sensor(name, "qudt:PERCENT", 1, 1, 0, 100)


SENSORS = (
    Sensor("solar_irradiance", "qudt:W-PER-M2", 5, 1, 0, 1400, max_error=20.0),
    _temperature("outdoor_temp", -20, 50),
    _temperature("solar_temp_1", -20, 180, 0.4),
    _temperature("solar_temp_2", -20, 180, 0.4),
    _temperature("solar_temp_3", -20, 180, 0.4),
    Sensor("solar_flow", "qudt:L-PER-MIN", 1, 10, 0, 80, max_error=1.6),
    _percent("solar_speed"),
    _temperature("hot_tank_1"),
    _temperature("hot_tank_2"),
    _temperature("hot_tank_3"),
    _temperature("hot_tank_4"),
    _temperature("cold_tank_1"),
    _temperature("cold_tank_2"),
    _temperature("chiller_temp_1", max_error=0.4),
    _temperature("chiller_temp_2", max_error=0.4),
    _temperature("chiller_temp_3", max_error=0.4),
    _temperature("chiller_temp_4", max_error=0.4),
    _temperature("chiller_temp_5", max_error=0.4),
    Sensor("chiller_flow", "qudt:L-PER-MIN", 1, 10, 0, 80, max_error=1.6),
    Sensor("chiller_power_in", "qudt:KiloW", 1, 10, 0, 120, max_error=1.2),
    Sensor("chiller_power_out", "qudt:KiloW", 1, 10, 0, 60, max_error=1.2),
    _percent("chiller_valve"),
    _percent("chiller_speed"),
    _temperature("room_temp_1", 0, 50),
    _temperature("room_temp_2", 0, 50),
    _temperature("room_temp_3", 0, 50),
    _percent("room_valve_1"),
    _percent("room_valve_2"),
    Sensor("room_co2", "qudt:PPM", 5, 1, 0, 5000, max_error=10.0),
    Sensor("solar_energy", "qudt:KiloW-HR", 1, 10, 0, 9_999_999, interval=30),
    Sensor("plant_energy", "qudt:KiloW-HR", 1, 10, 0, 9_999_999, interval=30),
    Sensor("plant_power", "qudt:KiloW", 1, 100, 0, 20, max_error=0.08),
)
"""in the order of `Signal`"""
STEPS = np.array([s.numerator / s.denominator for s in SENSORS])
MAX_ERRORS = np.array([s.max_error for s in SENSORS])
INTERVALS = np.array([s.interval for s in SENSORS])
LOWEST = np.array([int(s.minimum * s.denominator) // s.numerator for s in SENSORS])

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
    """Return the schema of the events.

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
            *(sensor.property for sensor in SENSORS),
            Property("solar_pump", Kind.BOOLEAN),
            Property("tank_heater", Kind.BOOLEAN),
            Property("plant_mode", Kind.ENUM, members=PLANT_MODES),
            Property("chiller_mode", Kind.ENUM, members=CHILLER_MODES),
            Property("alarm", Kind.STRING),
        ],
    )


class PlantSensors:
    """All sensors of one plant with their last reports.

    >>> sensors = PlantSensors()
    >>> signals = np.full((3, len(SENSORS)), 21.04)
    >>> int(sensors.read(signals, np.full(signals.shape, 0.5), second=0)[2, 1])
    210
    """

    def __init__(self) -> None:
        self._errors = np.zeros(len(SENSORS))  # as fractions of the largest error, -1 to 1
        self._reported: Ticks | None = None

    def read(self, signals: Vector, numbers: Vector, second: int) -> Ticks:
        """Return the reports for each row of signals, one row per second, as ticks."""
        if self._reported is None:
            self._reported = np.floor(signals[0, : len(SENSORS)] / STEPS + 0.5).astype(np.int64)
        ticks = np.empty((len(signals), len(SENSORS)), np.int64)
        _report(signals, numbers, second, STEPS, MAX_ERRORS, INTERVALS, LOWEST, self._errors, self._reported, ticks)
        return ticks


@njit(cache=True)
def _report(
    signals: Vector,
    numbers: Vector,
    second: int,
    steps: Vector,
    max_errors: Vector,
    intervals: Ticks,
    lowest: Ticks,
    errors: Vector,
    reported: Ticks,
    ticks: Ticks,
) -> None:
    for row in range(len(ticks)):
        for j in range(len(steps)):
            errors[j] += 0.1 * (2.0 * numbers[row, j] - 1.0 - errors[j])
            # a signal of zero, such as the flow of a pump that is off, has no error
            error = max_errors[j] * errors[j] if signals[row, j] != 0.0 else 0.0
            if (second + row + j) % intervals[j] == 0:
                reading = (signals[row, j] + error) / steps[j]
                if abs(reading - reported[j]) > 0.5 + MARGIN:
                    reported[j] = max(lowest[j], int(np.floor(reading + 0.5)))
            ticks[row, j] = reported[j]


class BuildingPlant:
    """One plant with its controller, which is one source.

    Plants differ in size, clouds, sensor errors, and the millisecond at which their controller samples.
    """

    def __init__(self, seed: int, source: int = 0) -> None:
        self.seed = seed
        self.source = source
        self.name = f"karlsruhe-solar-cooling-{source + 1:02d}"
        self.controller = f"{self.name}-controller"
        self._words = np.random.PCG64(np.random.SeedSequence([seed, source]))
        self._factors = 0.9 + 0.2 * self._random_numbers(1)[0, : len(Factor)]
        self._state = first_state()
        self._sensors = PlantSensors()
        self._second = 0

    def block(self, rows: int = BLOCK) -> pa.RecordBatch:
        """Return the next `rows` events."""
        numbers = self._random_numbers(rows)
        values = np.empty((rows, max(Status) + 1))
        clock = _START % DAY + self._second
        run(self._state, self._factors, clock, numbers, values)
        ticks = self._sensors.read(values, numbers, clock)
        columns = [
            self._timestamps(numbers[:, RandomNumber.JITTER]),
            pa.repeat(self.name, rows),
            pa.repeat(self.controller, rows),
            *(pa.array(ticks[:, j] * s.numerator / s.denominator) for j, s in enumerate(SENSORS)),
            pa.array(values[:, Status.SOLAR_PUMP] > 0),
            pa.array(values[:, Status.TANK_HEATER] > 0),
            _texts(PLANT_MODES, values[:, Status.PLANT_MODE]),
            _texts(CHILLER_MODES, values[:, Status.CHILLER_MODE]),
            _texts(ALARMS, values[:, Status.ALARM]),
        ]
        self._second += rows
        return pa.RecordBatch.from_arrays(columns, names=[p.name for p in schema()])

    def _random_numbers(self, rows: int) -> NDArray[np.float64]:
        """Return rows of random numbers in [0, 1), four per word. A row does not depend on the number of rows."""
        words = self._words.random_raw(rows * _WORDS).astype("<u8")
        return words.view("<u2").reshape(rows, RANDOM_NUMBERS) / 65_536.0

    def _timestamps(self, chance: NDArray[np.float64]) -> pa.Array:
        """Return one timestamp per second, with a delay of up to 24 ms that is usually small."""
        delay = np.floor(25.0 * chance * chance * chance).astype(np.int64)
        phase = self.source * 37 % 900
        instants = (_START + self._second + np.arange(len(chance))) * 1_000 + phase + delay
        return pa.array(np.datetime_as_string(instants.astype("datetime64[ms]"), timezone="UTC"))


def _texts(members: tuple[str, ...], numbers: NDArray[np.float64]) -> pa.Array:
    return pa.DictionaryArray.from_arrays(numbers.astype(np.int8), list(members)).dictionary_decode()


class EventGenerator(Protocol):
    """Generates the events of one source."""

    def block(self, rows: int = BLOCK) -> pa.RecordBatch:
        """Return the next `rows` events."""


def interleaved_batches(generators: Sequence[EventGenerator], events: int) -> Iterator[pa.RecordBatch]:
    """Yield events of all sources in batches; one event of each source, then the next event of each source."""
    rounds = max(1, BLOCK // len(generators))
    while events > 0:
        rows = rounds * len(generators)
        batch = _interleave([generator.block(rounds) for generator in generators])
        yield batch if rows <= events else batch.slice(0, events)
        events -= rows


def _interleave(blocks: list[pa.RecordBatch]) -> pa.RecordBatch:
    """Return the first row of each block, then the second row of each, and so on."""
    if len(blocks) == 1:
        return blocks[0]
    order = np.arange(sum(b.num_rows for b in blocks)).reshape(len(blocks), -1).T.ravel()
    return pa.Table.from_batches(blocks).take(order).combine_chunks().to_batches()[0]


def check_limits(events: int, seed: int, sources: int, first: int) -> None:
    """Raise `ConfigError` if a number is outside its limits."""
    limits = {"events": (events, 0), "sources": (sources, 1), "seed": (seed, 0), "first": (first, 0)}
    for name, (value, lowest) in limits.items():
        highest = MAX_SOURCES if name == "sources" else None
        if value < lowest or (highest is not None and value > highest):
            raise ConfigError("outside its limits", field=name, value=value, lowest=lowest, highest=highest)


def batches(events: int, seed: int = 1, sources: int = 1, *, first: int = 0) -> Iterator[pa.RecordBatch]:
    """Yield `events` events of `sources` plants as Arrow batches of at most 10,000 rows.

    Each plant reports once a second. Several plants take turns, so the seconds of the timestamps ascend. `first` is the
    index of the first plant: the k-th of several publishers uses `batches(n, seed, first=k)`.

    >>> [batch.num_rows for batch in batches(25_000, seed=1)]
    [10000, 10000, 5000]
    """
    check_limits(events, seed, sources, first)
    return interleaved_batches([BuildingPlant(seed, first + k) for k in range(sources)], events)


def events(n: int, seed: int = 1, sources: int = 1, *, first: int = 0) -> Iterator[dict[str, Any]]:
    """Yield the same events as dicts."""
    for batch in batches(n, seed, sources, first=first):
        yield from batch.to_pylist()
