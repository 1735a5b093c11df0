"""Reduce: an event comes in, and what its receivers cannot know comes out."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, NoReturn

from thinwire.errors import (
    EventRejected,
    LateEvent,
    MissingProperty,
    NotFinite,
    TooLarge,
    TooManySources,
    UnknownProperty,
    WrongType,
)
from thinwire.events import Kind, Schema
from thinwire.events.paths import flatten
from thinwire.formats.lanes import Lane
from thinwire.formats.partial import Partial, indexes
from thinwire.frames.control import MAX_SKIP, Switch
from thinwire.reduction import exceptions, generate, lane_codes, residual, snapshots
from thinwire.reduction.columns import DUE, LATEST, TOLD, Columns
from thinwire.reduction.convert import Converter, converter
from thinwire.reduction.limits import ABSENT, OFF_GRID, TICK_LIMIT
from thinwire.reduction.materialise import value_at, value_of_exact
from thinwire.reduction.rules import Rule, RuleSet

MAX_SOURCES = 1_000_000
MAX_KEY = 4_096
FIRST_TRIAL = 2

if TYPE_CHECKING:
    from thinwire.reduction.trials import Trials

LatePolicy = Literal["accept", "reject"]


class Introduction(NamedTuple):
    """A source never seen before: its dimensions, its state after its first event, and exact values beside it."""

    source: int
    dimensions: bytes
    columns: bytes
    exceptions: tuple[tuple[int, Any], ...]


class Reducer:
    """The publishing end of a link's shared knowledge.

    >>> from thinwire.events import Property
    >>> from thinwire.reduction import Demand, resolve
    >>> rooms = Schema("rooms", [Property("room", "string", "dimension"), Property("t", "number", step="0.1")])
    >>> reducer = Reducer(resolve(rooms, Demand(tolerance={"t": 0.5}, predictor="last")))
    >>> first = reducer.reduce({"room": "11.1", "t": 20.0})
    >>> reducer.reduce({"room": "11.1", "t": 20.4}) is None
    True
    >>> reducer.reduce({"room": "11.1", "t": 21.7}).mask
    1
    """

    def __init__(
        self,
        rules: RuleSet,
        *,
        late_policy: LatePolicy = "accept",
        max_sources: int = MAX_SOURCES,
    ) -> None:
        self.rules = rules
        self.schema = rules.schema
        self.columns = Columns(rules)
        self.keys: list[tuple[Any, ...]] = []
        self.rows: dict[tuple[Any, ...], int] = {}
        self.max_sources = max_sources
        self.late_policy = late_policy
        self.trials = _trials(self.columns) if any(rule.auto for rule in rules.rules) else None
        self.suppressed = 0
        self.sent = 0
        self._converters: list[Converter] = [converter(p) for p in self.schema.wire]
        self._dimension_converters = [converter(p) for p in self.schema.dimensions]
        self._names = frozenset(p.name for p in self.schema)
        self._time = next((i for i, p in enumerate(self.schema.wire) if p is self.schema.time), None)
        self._code = self._compile()

    def reduce(self, event: Mapping[str, Any]) -> Partial | Introduction | None:
        """What must travel of this event; None where nothing must. A refused event changes nothing."""
        if self.schema.nested:
            event = flatten(event, self.schema)
        return self._code(event)

    def skipped(self, row: int) -> int:
        """Events of a source that nobody has been told about yet; from now on they count as told."""
        table, start = self.columns.table, row * self.columns.width
        skip = table[start] - table[start + TOLD]
        table[start + TOLD] = table[start]
        return skip

    def values(self, partial: Partial) -> dict[int, Any]:
        """The values of a partial spelled out, for formats that do so."""
        values: dict[int, Any] = {}
        for position, index in enumerate(indexes(partial.mask)):
            rule = self.rules.rules[index]
            if partial.exceptions >> index & 1:
                values[index] = value_of_exact(rule, partial.codes[position])
            else:
                values[index] = value_at(self.columns, rule, index, partial.source)
        return values

    def take_over(self, old: Reducer) -> None:
        """Begin with the sources of another reducer of the same schema, at the values it has told."""
        for key in old.keys:
            row = self.columns.add()
            self.rows[key] = row
            self.keys.append(key)
            self.columns.take_over(old.columns, row)
            start = row * self.columns.width
            self.columns.table[start + TOLD] = self.columns.table[start]
            self.columns.table[start + DUE] = self.columns.table[start] + 1

    def drain_switches(self) -> list[Switch]:
        """Changes of predictor that must be told before the next event."""
        if self.trials is None:
            return []
        return [Switch(row, self.skipped(row), changes) for row, changes in self.trials.drain()]

    def dimensions(self, row: int) -> bytes:
        """The dimension values of a source, as JSON."""
        return json.dumps(list(self.keys[row]), separators=(",", ":"), ensure_ascii=False).encode()

    def _compile(self) -> Callable[[Mapping[str, Any]], Partial | Introduction | None]:
        late = self.late_policy == "reject" and self._time is not None
        source = generate.reducer_source(self.rules, self.columns.width, [p.name for p in self.schema.dimensions], late)
        names: dict[str, Any] = {
            "ABSENT": ABSENT,
            "OFF_GRID": OFF_GRID,
            "LIMIT": TICK_LIMIT,
            "PROPERTIES": len(self.schema.properties),
            "rows": self.rows,
            "columns": self.columns,
            "expected": self.columns.expected,
            "settle": self.columns.settle,
            "encode_residual": residual.encode,
            "decode_residual": residual.decode,
            "refuse": self._refuse,
            "check_names": self._check_names,
            "check_time": self._check_time,
            "thinned": self._thinned,
            "introduce": self._introduce,
            "finish": self._finish,
            **{name: getattr(lane_codes, name) for name in _LANE_FUNCTIONS},
        }
        for index, rule in enumerate(self.rules.rules):
            names[f"rule{index}"] = rule
            names[f"convert{index}"] = self._converters[index]
            names[f"objects{index}"] = self.columns.objects[index]
        exec(compile(source, "<reduce>", "exec"), names)
        code: Callable[[Mapping[str, Any]], Partial | Introduction | None] = names["reduce"]
        return code

    def _finish(
        self, row: int, mask: int, exceptional: int, codes: list[Any], ticks: tuple[Any, ...]
    ) -> Partial | None:
        table, start = self.columns.table, row * self.columns.width
        ordinal = table[start] + 1
        table[start] = ordinal
        if self.trials is not None and ordinal >= table[start + DUE]:
            self.trials.offer(row, ticks)
        skip = ordinal - table[start + TOLD] - 1
        if not mask and skip < MAX_SKIP - 1:
            self.suppressed += 1
            return None
        table[start + TOLD] = ordinal
        self.sent += 1
        return Partial(row, skip, mask, exceptional, codes)

    def _introduce(self, key: tuple[Any, ...], ticks: tuple[Any, ...], event: Mapping[str, Any]) -> Introduction:
        if len(self.keys) >= self.max_sources:
            raise TooManySources(limit=self.max_sources)
        self._check_key(key)
        row = self.columns.add()
        self.rows[key] = row
        self.keys.append(key)
        told = self._first_values(row, ticks, event)
        table, start = self.columns.table, row * self.columns.width
        table[start] = table[start + TOLD] = 1
        table[start + DUE] = FIRST_TRIAL
        table[start + LATEST] = ABSENT if self._time is None else ticks[self._time]
        self.sent += 1
        return Introduction(row, self.dimensions(row), snapshots.take(self.columns, row), told)

    def _first_values(self, row: int, ticks: tuple[Any, ...], event: Mapping[str, Any]) -> tuple[tuple[int, Any], ...]:
        told: list[tuple[int, Any]] = []
        for index, rule in enumerate(self.rules.rules):
            value = event.get(rule.property.name)
            answer = first_value(self.columns, rule, row, index, ticks[index], value)
            if answer is not None:
                told.append((index, answer))
        return tuple(told)

    def _thinned(self, row: int, ticks: tuple[Any, ...]) -> bool:
        """Is this event too soon after the last one that travelled, with nothing in it that must not wait?"""
        if self._time is None or not isinstance(ticks[self._time], int):
            return False
        latest = row * self.columns.width + LATEST
        if ticks[self._time] - self.columns.table[latest] >= self.rules.min_interval or self._urgent(row, ticks):
            self.columns.table[latest] = ticks[self._time]
            return False
        self.columns.advance(row)
        self.suppressed += 1
        return True

    def _urgent(self, row: int, ticks: tuple[Any, ...]) -> bool:
        """Flags, texts, absences and readings out of range never wait."""
        for index, rule in enumerate(self.rules.rules):
            now = ticks[index]
            if rule.lane is Lane.TEXT and now != self.columns.objects[index][row]:
                return True
            if rule.lane in (Lane.FLAG, Lane.TICK):
                last = self.columns.last(row, rule.first_slot)
                changed = now != last if rule.lane is Lane.FLAG else (now == ABSENT) != (last == ABSENT)
                if changed or (now != ABSENT and not rule.lowest <= now <= rule.highest):
                    return True
        start = row * self.columns.width
        return self.columns.table[start] - self.columns.table[start + TOLD] >= MAX_SKIP - 1

    def _check_time(self, row: int, ticks: tuple[Any, ...]) -> None:
        now = ticks[self._time] if self._time is not None else ABSENT
        if not isinstance(now, int) or now in (ABSENT, OFF_GRID):
            return
        latest = row * self.columns.width + LATEST
        if now < self.columns.table[latest]:
            raise LateEvent(source=self.keys[row], time=now, latest=self.columns.table[latest])
        self.columns.table[latest] = now

    def _check_names(self, event: Mapping[str, Any]) -> None:
        unknown = [name for name in event if name not in self._names]
        if unknown:
            raise UnknownProperty(property=unknown[0], schema=self.schema.name, known=sorted(self._names))
        stamp = self.schema.time
        if stamp is not None and event.get(stamp.name) is None:
            raise MissingProperty(property=stamp.name, schema=self.schema.name)

    def _check_key(self, key: tuple[Any, ...]) -> None:
        for p, convert, value in zip(self.schema.dimensions, self._dimension_converters, key, strict=True):
            if value is None:
                raise MissingProperty(property=p.name, schema=self.schema.name)
            if convert(value) == OFF_GRID:
                raise WrongType(f"a {p.kind.value} is expected", property=p.name, value=value)
        size = sum(len(value) for value in key if isinstance(value, str))
        if size > MAX_KEY:
            raise TooLarge("dimension values", size=size, limit=MAX_KEY)

    def _refuse(self, event: Mapping[str, Any], problem: Exception) -> NoReturn:
        """Say what is wrong with an event that made the generated code stumble."""
        for p, convert in zip(self.schema.wire, self._converters, strict=True):
            convert(event.get(p.name))
            value = event.get(p.name)
            if p.kind is Kind.NUMBER and isinstance(value, float) and not -1e300 < value < 1e300:
                raise NotFinite(property=p.name, value=value)
        for p in self.schema.dimensions:
            if p.name not in event:
                raise MissingProperty(property=p.name, schema=self.schema.name)
            if not isinstance(event[p.name], str | int | bool):
                raise WrongType(f"a {p.kind.value} is expected", property=p.name, value=event[p.name])
        raise EventRejected(str(problem)) from problem


def _trials(columns: Columns) -> Trials:
    """Trials need the compiled kernels, which cost half a second to load: only `auto` pays for them."""
    from thinwire.reduction.trials import Trials

    return Trials(columns)


def first_value(columns: Columns, rule: Rule, row: int, index: int, ticks: Any, value: Any) -> Any:
    """Put a property's first value into the state; the exact value where the state cannot hold it or it is out of range."""
    if rule.lane in (Lane.TEXT, Lane.OPAQUE):
        columns.objects[index][row] = ticks
    elif rule.lane is Lane.ARRAY:
        columns.objects[index][row] = None if ticks is None else ticks[0]
        return None if ticks is None or ticks[1] else [float(item) for item in value]
    elif rule.lane is Lane.FLOAT:
        columns.put(row, rule.first_slot, ticks)
    elif rule.lane is Lane.GEO:
        exact_position = None if ticks is None else [float(value[0]), float(value[1])]
        exceptions.settle_geo(columns, rule, row, exact_position)
        return None if ticks is None or ticks[2] else exact_position
    elif rule.lane is Lane.TICK and ticks != ABSENT and not rule.lowest <= ticks <= rule.highest:
        exact = exceptions.told_exactly(ticks, value)
        exceptions.settle_tick(columns, rule, row, exact)
        return exact
    elif ticks != ABSENT:
        columns.settle(row, rule.first_slot, ticks)
    return None


_LANE_FUNCTIONS = ("tick_exception", "flag_exception", "float_code", "geo_code", "object_code", "array_code")
