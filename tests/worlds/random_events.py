"""Random schemas, demands and sensor events. The same seed returns the same ones.

>>> from random import Random
>>> random = Random(4)
>>> schema = draw_schema(random)
>>> sensors = RandomSensors(random, sources=2)
>>> [p.name for p in schema], sensors.read(schema, 0.0)["sensor"], draw_demand(schema, random).mode
(['sensor', 'season', 'flow'], 's1', 'hold')
"""

from __future__ import annotations

from datetime import UTC, datetime
from random import Random
from typing import Any

from thinwire.codec import Demand
from thinwire.schema import Kind, Property, Schema
from thinwire.schema.kind import TOLERANT_KINDS

_COMMON = (
    Property("temperature", "number", step="0.1", minimum=-40, maximum=60),
    Property("flow", "number", step="0.25"),
    Property("power", "number", step="0.01", idle_band=0.5),
    Property("count", "integer"),
    Property("season", "integer", period=8),
    Property("on", "boolean"),
    Property("mode", "enum", members=("off", "on", "auto")),
    Property("note", "string"),
    Property("pressure", "float"),
)
_RARE = (
    Property("place", "geo"),
    Property("scan", "array", step="0.5", length=3),
    Property("raw", "opaque"),
    Property("weight", "float", minimum=0, maximum=100),
)
_TIMES = (
    Property("time", "timestamp", "header"),
    Property("time", "timestamp", "header", form="iso:T3Z"),
    Property("time", "timestamp", "header", form="datetime"),
)
_TOLERANCES: tuple[float | str, ...] = (0, 0, 0.25, 0.5, 1, 2, "0.3")
_PREDICTORS = ("auto", "auto", "auto", "last", "linear", "trend", "smooth", "cadence")
_LARGEST = 20.0
"""value at which a creeping number returns to 0"""


def draw_schema(random: Random, *, all_kinds: bool = False, with_note: bool = False) -> Schema:
    """Return a schema with the dimension `sensor`, perhaps a time, and one to five measurements.

    all_kinds: include the kinds that have no compiled kernel; with_note: include the string `note`
    """
    pool = _COMMON + _RARE if all_kinds else _COMMON
    measured = random.sample(pool, random.randint(1, 5))
    if with_note and not any(p.name == "note" for p in measured):
        measured.append(next(p for p in pool if p.name == "note"))
    times = [random.choice(_TIMES)] if random.random() < 0.7 else []
    return Schema("world", [*times, Property("sensor", "string", "dimension"), *measured])


def evolve_schema(schema: Schema, random: Random) -> Schema:
    """Return the next version of a schema, with one more measurement."""
    unused = [p for p in _COMMON if p.name not in schema]
    return Schema(schema.name, [*schema.properties, random.choice(unused)], schema.version + 1)


def draw_demand(schema: Schema, random: Random) -> Demand:
    """Return a demand on a schema."""
    tolerant = [p for p in schema.wire if p.kind in TOLERANT_KINDS and p.kind is not Kind.TIMESTAMP]
    tolerances = {p.name: draw_tolerance(p, random) for p in tolerant if random.random() < 0.6}
    predictor: Any = random.choice(_PREDICTORS)
    if "season" in schema and random.random() < 0.5:
        predictor = {"season": "seasonal"}
    return Demand(
        tolerance=tolerances,
        default_tolerance=random.choice((0, 0.5, 2)),
        mode=random.choice(("predict", "predict", "hold")),
        predictor=predictor,
    )


def draw_tolerance(p: Property, random: Random) -> float | str:
    """Return a tolerance of a property."""
    return random.choice((0, 10, 500)) if p.kind is Kind.GEO else random.choice(_TOLERANCES)


class RandomSensors:
    """Sensors whose values wander, jump, are missing, or do not fit the step of their property.

    change_rate: probability that a value changes
    large: strings of 25 kB, so that key frames need several chunks
    creep: steps by which numbers increase; 0 for random changes
    """

    def __init__(
        self, random: Random, *, sources: int, change_rate: float = 0.5, large: bool = False, creep: int = 0
    ) -> None:
        self.names = [f"s{number}" for number in range(sources)]
        self.change_rate = change_rate
        self.large = large
        self.creep = creep
        self._random = random
        self._last: dict[tuple[str, str], Any] = {}

    def add(self) -> None:
        """Add a sensor."""
        self.names.append(f"s{len(self.names)}")

    def read(self, schema: Schema, now: float) -> dict[str, Any]:
        """Return the next event of a random sensor."""
        sensor = self._random.choice(self.names)
        event: dict[str, Any] = {"sensor": sensor}
        for p in schema.wire:
            event[p.name] = self._draw_time(p, now) if p is schema.time else self._draw_value(sensor, p)
        if self._random.random() < 0.02 and len(event) > 2:
            del event[schema.wire[-1].name]
        if schema.time is not None:
            event.setdefault(schema.time.name, self._draw_time(schema.time, now))
        return event

    def _draw_time(self, p: Property, now: float) -> Any:
        late = 0 if self._random.random() < 0.8 else self._random.randint(1, 40)
        milliseconds = 1_600_000_000_000 + int(now * 1000) - late
        if p.form is None:
            return milliseconds
        moment = datetime.fromtimestamp(milliseconds // 1000, UTC)
        if p.form == "datetime":
            return moment
        if self._random.random() < 0.01:
            return "about noon"
        return f"{moment:%Y-%m-%dT%H:%M:%S}.{milliseconds % 1000:03d}Z"

    def _draw_value(self, sensor: str, p: Property) -> Any:
        random, key = self._random, (sensor, p.name)
        last = self._last.get(key)
        if last is not None and random.random() > self.change_rate:
            return last
        if random.random() < 0.03:
            return None
        if p.kind is Kind.NUMBER and random.random() < 0.02:
            return random.choice((0.123, 1e6, -77.77, 19.999))
        creeps = self.creep and last is not None and p.kind in (Kind.NUMBER, Kind.INTEGER, Kind.FLOAT)
        self._last[key] = value = self._creep(p, last) if creeps else self._change(p, last)
        return value

    def _creep(self, p: Property, last: Any) -> Any:
        if last > _LARGEST:
            return 0 if p.kind is Kind.INTEGER else 0.0
        if p.kind is Kind.INTEGER:
            return last + 1
        if p.kind is Kind.FLOAT:
            return round(last + 0.01 * self.creep, 3)
        assert p.step is not None
        return _value_of(p, round(last / p.step) + self.creep)

    def _change(self, p: Property, last: Any) -> Any:
        random = self._random
        match p.kind:
            case Kind.NUMBER | Kind.INTEGER:
                return _add_steps(p, random.choice((0, 1, -1, 3, -4, random.randint(-200, 200))), last)
            case Kind.BOOLEAN:
                return random.random() < 0.5
            case Kind.ENUM:
                return random.choice((*p.members, "fault 7"))
            case Kind.STRING:
                return f"note {random.randint(0, 9)}" + " and so on" * (2_500 if self.large else 0)
            case Kind.FLOAT:
                return round((last or 20.0) + random.choice((0, 0.001, -0.3, 0.5, random.uniform(-90, 90))), 3)
            case Kind.GEO:
                north, east = last or [48.0, 179.9999]
                east = (east + random.choice((0.00001, -0.0001, 0.01)) + 180) % 360 - 180
                return [round(north + random.choice((0.00001, -0.0001, 0.01)), 7), round(east, 7)]
            case Kind.ARRAY:
                items = [item + 0.5 * random.choice((0, 0, 1, -1, 7)) for item in last or [1.0, 2.0, 3.0]]
                return items if random.random() < 0.97 else [items[0], items[1], 0.3]
            case _:
                return {"k": random.randint(0, 3)} if random.random() < 0.5 else bytes([random.randint(0, 255)])


def _add_steps(p: Property, steps: int, last: Any) -> Any:
    """Return a value that is this many steps from the last one, mostly within the range of the property."""
    if p.kind is Kind.INTEGER:
        return int(last or 0) + steps
    assert p.step is not None
    ticks = round((last or 0) / p.step) + steps
    return _value_of(p, ticks if -400 <= ticks * p.step * 10 <= 600 else steps)


def _value_of(p: Property, ticks: int) -> float:
    assert p.step is not None
    return ticks * p.step.numerator / p.step.denominator
