"""Admission: is this an event of the schema? What is turned away learns which field, which limit, and what to do.

Pacing: what an event's own time has to say. Late ones may be refused, and `min_interval` holds back the hasty.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NoReturn

import numpy as np

from thinwire.codec.demand import NEVER_TOLERANT
from thinwire.codec.rules import Rule
from thinwire.codec.source_table import LATEST, TOLD, TRAVELLED, SourceTable
from thinwire.codec.ticks import ABSENT, TICK_LIMIT
from thinwire.codec.value_conversion import MAX_TEXT, Converter, converter, restorer
from thinwire.errors import EventRejected, LateEvent, MissingProperty, TooLarge, UnknownProperty, WrongType
from thinwire.schema import Kind, Schema
from thinwire.schema.property import MAX_ARRAY
from thinwire.wire.control_frames import MAX_SKIP
from thinwire.wire.exact_value import MAX_EXACT
from thinwire.wire.partial_event import EncodingKind

MAX_KEY = 4_096
"""bytes of a source's texts, all dimensions together"""

MAX_OBJECTS = 1 << 19
"""bytes of an event's texts, arrays and opaque values together: frames and key frames have a limit of their own"""

_ELEMENT = 9
_LARGEST = {
    Kind.STRING: MAX_TEXT,
    Kind.ENUM: MAX_TEXT,
    Kind.OPAQUE: MAX_EXACT,
    Kind.ARRAY: MAX_ARRAY * _ELEMENT,
}


class Admission:
    """The checks of one schema. None of them changes anything."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self.names = frozenset(p.name for p in schema)
        self.converters: list[Converter] = [converter(p) for p in schema.wire]
        self._dimension_converters = [converter(p) for p in schema.dimensions]

    @property
    def must_weigh(self) -> bool:
        """Can an event be too large although each of its values is not?"""
        return sum(_LARGEST.get(p.kind, 0) for p in self.schema.wire) > MAX_OBJECTS

    def check_names(self, event: Mapping[str, Any]) -> None:
        """Refuse what the schema does not have, and an event without its time."""
        unknown = [name for name in event if name not in self.names]
        if unknown:
            raise UnknownProperty(property=unknown[0], schema=self.schema.name, known=sorted(self.names))
        stamp = self.schema.time
        if stamp is not None and event.get(stamp.name) is None:
            raise MissingProperty(property=stamp.name, schema=self.schema.name)

    def check_weight(self, ticks: tuple[Any, ...]) -> None:
        """Refuse an event whose values are too large together."""
        size = sum(_weight(thing) for thing in ticks)
        if size > MAX_OBJECTS:
            raise TooLarge("texts, arrays and opaque values together", size=size, limit=MAX_OBJECTS)

    def check_key(self, key: tuple[Any, ...]) -> None:
        """Refuse dimension values that cannot identify a source."""
        for p, convert, value in zip(self.schema.dimensions, self._dimension_converters, key, strict=True):
            if value is None:
                raise MissingProperty(property=p.name, schema=self.schema.name)
            convert(value)
            if not isinstance(value, str | int):  # 7.0 is a whole number, but as a key it is told as 7
                raise WrongType(f"a {p.kind.value} is expected", property=p.name, value=value)
        size = sum(len(value.encode()) for value in key if isinstance(value, str))
        if size > MAX_KEY:
            raise TooLarge("dimension values", size=size, limit=MAX_KEY)

    def refuse(self, event: Any, problem: Exception) -> NoReturn:
        """Say what is wrong with an event that made the generated code stumble."""
        if not isinstance(event, Mapping):
            raise WrongType("an event is a mapping from names to values", given=type(event).__name__)
        for p, convert in zip(self.schema.wire, self.converters, strict=True):
            convert(event.get(p.name))
        for p in self.schema.dimensions:
            if event.get(p.name) is None:
                raise MissingProperty(property=p.name, schema=self.schema.name)
            if not isinstance(event[p.name], str | int):
                raise WrongType(f"a {p.kind.value} is expected", property=p.name, value=event[p.name])
        raise EventRejected(str(problem)) from problem


def _weight(thing: Any) -> int:
    """Bytes of a converted value that is told whole."""
    if isinstance(thing, str):
        return len(thing.encode())
    if isinstance(thing, bytes):
        return len(thing)
    return len(thing[0]) * _ELEMENT if isinstance(thing, tuple) and isinstance(thing[0], tuple) else 0


LatePolicy = Literal["accept", "reject"]


class Pacing:
    """The clock of every source of a link, as its own events tell it."""

    def __init__(self, columns: SourceTable) -> None:
        self.columns = columns
        wire = columns.rules.schema.wire
        self.time = next((i for i, p in enumerate(wire) if p is columns.rules.schema.time), None)

    def begin(self, row: int, ticks: tuple[Any, ...]) -> None:
        """The first event of a source."""
        start, now = row * self.columns.width, self._instant(ticks)
        self.columns.table[start + LATEST] = self.columns.table[start + TRAVELLED] = ABSENT if now is None else now

    def resume(self) -> None:
        """Sources taken over from others, who may not have looked at the time: their state knows it."""
        if self.time is not None and self.columns.rows:
            table = self.columns.by_row()
            known = table[:, self.columns.place(0, self.columns.rules.rules[self.time].first_slot)]
            table[:, LATEST] = np.maximum(table[:, LATEST], known)

    def check(self, row: int, ticks: tuple[Any, ...], source: tuple[Any, ...]) -> None:
        """Refuse an event older than the latest of its source."""
        now = self._instant(ticks)
        if now is None or self.time is None:
            return
        latest = row * self.columns.width + LATEST
        if now < self.columns.table[latest]:
            p = self.columns.rules.schema.wire[self.time]
            show = restorer(p)
            raise LateEvent(property=p.name, source=source, time=show(now), latest=show(self.columns.table[latest]))
        self.columns.table[latest] = now

    def holds_back(self, row: int, ticks: tuple[Any, ...]) -> bool:
        """Is this event too soon after the last one that was let through, with nothing in it that must not wait?

        A clock that was set back by more than the interval starts a new one.
        """
        now = self._instant(ticks)
        if now is None:
            return False
        table, travelled = self.columns.table, row * self.columns.width + TRAVELLED
        apart = now - table[travelled]
        if not -self.columns.rules.min_interval < apart < self.columns.rules.min_interval or self._urgent(row, ticks):
            table[travelled] = now
            return False
        self.columns.advance(row)
        return True

    def _urgent(self, row: int, ticks: tuple[Any, ...]) -> bool:
        """Status, flags, texts, absences and readings out of range never wait; nor does an overlong silence."""
        rules = self.columns.rules.rules
        if any(self._must_not_wait(row, index, rule, ticks[index]) for index, rule in enumerate(rules)):
            return True
        start = row * self.columns.width
        return self.columns.table[start] - self.columns.table[start + TOLD] >= MAX_SKIP - 1

    def _must_not_wait(self, row: int, index: int, rule: Rule, now: Any) -> bool:
        if not rule.slots:
            last = self.columns.objects[index][row]
            return bool(now != last) if rule.lane is EncodingKind.TEXT else (now is None) != (last is None)
        last = self.columns.last(row, rule.first_slot)
        if rule.lane is EncodingKind.GEO:
            return (now is None) != (last == ABSENT)
        if rule.lane is EncodingKind.FLAG or rule.property.domain in NEVER_TOLERANT:
            return bool(now != last)
        if ABSENT in (now, last):
            return bool(now != last)
        return rule.lane is EncodingKind.TICK and not rule.lowest <= now <= rule.highest

    def _instant(self, ticks: tuple[Any, ...]) -> int | None:
        """The event's time, where it is one that can be counted with."""
        if self.time is None or not -TICK_LIMIT <= ticks[self.time] <= TICK_LIMIT:
            return None
        now: int = ticks[self.time]
        return now
