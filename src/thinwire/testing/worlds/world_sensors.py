"""Sensors of a world of classes: in some worlds readings creep, so that what is held drifts out of its tolerance.

What the publishers of a world measure: seeded schemas, and sensors that wander, jump, fall silent and misbehave.
"""

from __future__ import annotations

from datetime import UTC, datetime
from random import Random
from typing import Any

from thinwire.codec import Demand
from thinwire.schema import Kind, Property, Schema
from thinwire.schema.property import TOLERANT_KINDS

_SIMPLE = (
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
_ODD = (
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


def draw_schema(chance: Random, *, odd: bool, noted: bool = False) -> Schema:
    """Any schema: one dimension, perhaps a time, a few measurements.

    odd: also measurements that no kernel serves; noted: a note among them
    """
    pool = _SIMPLE + _ODD if odd else _SIMPLE
    measured = chance.sample(pool, chance.randint(1, 5))
    if noted and not any(p.name == "note" for p in measured):
        measured.append(next(p for p in pool if p.name == "note"))
    stamps = [chance.choice(_TIMES)] if chance.random() < 0.7 else []
    return Schema("world", [*stamps, Property("sensor", "string", "dimension"), *measured])


def evolved(schema: Schema, chance: Random) -> Schema:
    """The next version of a schema: one measurement more."""
    spare = [p for p in _SIMPLE if p.name not in schema]
    return Schema(schema.name, [*schema.properties, chance.choice(spare)], schema.version + 1)


def draw_demand(schema: Schema, chance: Random) -> Demand:
    """Any demand on a schema."""
    tolerant = [p for p in schema.wire if p.kind in TOLERANT_KINDS and p.kind is not Kind.TIMESTAMP]
    named = {p.name: _tolerance(p, chance) for p in tolerant if chance.random() < 0.6}
    predictor: Any = chance.choice(_PREDICTORS)
    if "season" in schema and chance.random() < 0.5:
        predictor = {"season": "seasonal"}
    return Demand(
        tolerance=named,
        default_tolerance=chance.choice((0, 0.5, 2)),
        mode=chance.choice(("predict", "predict", "hold")),
        predictor=predictor,
    )


def _tolerance(p: Property, chance: Random) -> float | str:
    return chance.choice((0, 10, 500)) if p.kind is Kind.GEO else chance.choice(_TOLERANCES)


class WorldSensors:
    """The assets of one publisher, each with its last readings.

    chatter: how likely a reading moves at all; large: notes long enough to make key frames of several chunks
    """

    def __init__(self, chance: Random, *, sources: int, chatter: float, large: bool) -> None:
        self._chance = chance
        self.names = [f"s{number}" for number in range(sources)]
        self.chatter = chatter
        self.large = large
        self._last: dict[tuple[str, str], Any] = {}

    def another(self) -> None:
        """One more asset."""
        self.names.append(f"s{len(self.names)}")

    def read(self, schema: Schema, now: float) -> dict[str, Any]:
        """The next event of some asset."""
        return self.read_of(self._chance.choice(self.names), schema, now)

    def read_of(self, sensor: str, schema: Schema, now: float) -> dict[str, Any]:
        """The next event of this asset."""
        event: dict[str, Any] = {"sensor": sensor}
        for p in schema.wire:
            event[p.name] = self._instant(p, now) if p is schema.time else self._reading(sensor, p)
        if self._chance.random() < 0.02 and len(event) > 2:
            del event[schema.wire[-1].name]
        if schema.time is not None:
            event.setdefault(schema.time.name, self._instant(schema.time, now))
        return event

    def _instant(self, p: Property, now: float) -> Any:
        late = 0 if self._chance.random() < 0.8 else self._chance.randint(1, 40)
        milliseconds = 1_600_000_000_000 + int(now * 1000) - late
        if p.form is None:
            return milliseconds
        if p.form == "datetime":
            return datetime.fromtimestamp(milliseconds // 1000, UTC)
        if self._chance.random() < 0.01:
            return "about noon"
        moment = datetime.fromtimestamp(milliseconds // 1000, UTC)
        return f"{moment:%Y-%m-%dT%H:%M:%S}.{milliseconds % 1000:03d}Z"

    def _reading(self, sensor: str, p: Property) -> Any:
        chance, key = self._chance, (sensor, p.name)
        last = self._last.get(key)
        if last is not None and chance.random() > self.chatter:
            return last
        if chance.random() < 0.03:
            return None
        if p.kind is Kind.NUMBER and chance.random() < 0.02:
            return chance.choice((0.123, 1e6, -77.77, 19.999))
        self._last[key] = value = self._moved(p, last)
        return value

    def _moved(self, p: Property, last: Any) -> Any:
        chance = self._chance
        if p.kind in (Kind.NUMBER, Kind.INTEGER):
            return _multiple(p, chance.choice((0, 1, -1, 3, -4, chance.randint(-200, 200))), last)
        if p.kind is Kind.BOOLEAN:
            return chance.random() < 0.5
        if p.kind is Kind.ENUM:
            return chance.choice((*p.members, "fault 7"))
        if p.kind is Kind.STRING:
            return f"note {chance.randint(0, 9)}" + " and so on" * (2_500 if self.large else 0)
        if p.kind is Kind.FLOAT:
            return round((last or 20.0) + chance.choice((0, 0.001, -0.3, 0.5, chance.uniform(-90, 90))), 3)
        if p.kind is Kind.GEO:
            north, east = last or [48.0, 179.9999]
            east = (east + chance.choice((0.00001, -0.0001, 0.01)) + 180) % 360 - 180
            return [round(north + chance.choice((0.00001, -0.0001, 0.01)), 7), round(east, 7)]
        if p.kind is Kind.ARRAY:
            moved = [item + 0.5 * chance.choice((0, 0, 1, -1, 7)) for item in last or [1.0, 2.0, 3.0]]
            return moved if chance.random() < 0.97 else [moved[0], moved[1], 0.3]
        return {"k": chance.randint(0, 3)} if chance.random() < 0.5 else bytes([chance.randint(0, 255)])


def _multiple(p: Property, steps: int, last: Any) -> Any:
    """A value so many steps further, exactly on the grid and mostly in range."""
    if p.kind is Kind.INTEGER:
        return int(last or 0) + steps
    assert p.step is not None
    ticks = round((last or 0) / p.step) + steps
    if not -400 <= ticks * p.step * 10 <= 600:
        ticks = steps
    return ticks * p.step.numerator / p.step.denominator


_RANGE = 20.0
"""how far a reading creeps before it turns back"""


class CreepingSensors(WorldSensors):
    """Numbers go up a few steps at a time, and back when they are far out."""

    def __init__(self, chance: Random, *, sources: int, chatter: float, large: bool) -> None:
        super().__init__(chance, sources=sources, chatter=chatter, large=large)
        self._steps = chance.choice((1, 3, 10, 40))
        self._creeping = chance.random() < 0.5

    def _moved(self, p: Property, last: Any) -> Any:
        if not self._creeping or last is None or p.kind not in (Kind.NUMBER, Kind.INTEGER, Kind.FLOAT):
            return super()._moved(p, last)
        if p.kind is Kind.INTEGER:
            return 0 if last > _RANGE else last + 1
        if p.kind is Kind.FLOAT:
            return 0.0 if last > _RANGE else round(last + 0.01 * self._steps, 3)
        assert p.step is not None
        ticks = round(last / p.step) + self._steps
        return 0.0 if last > _RANGE else ticks * p.step.numerator / p.step.denominator
