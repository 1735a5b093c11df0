"""Checks of incoming events: schema, size and event time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NoReturn

import numpy as np

from thinwire.codec.rules import Rule
from thinwire.codec.source_table import INTERVAL_START, LAST_SENT, LATEST, SourceTable
from thinwire.codec.ticks import ABSENT, TICK_LIMIT
from thinwire.codec.tolerance_vector import NEVER_TOLERANT
from thinwire.codec.value_conversion import MAX_TEXT, Converter, converter, restorer
from thinwire.errors import EventRejected, LateEvent, MissingProperty, TooLarge, UnknownProperty, WrongType
from thinwire.schema import Kind, Schema
from thinwire.schema.property import MAX_ARRAY
from thinwire.wire.control_frames import MAX_SKIP
from thinwire.wire.exact_value import MAX_EXACT
from thinwire.wire.partial_event import EncodingKind

MAX_KEY = 4_096
"""maximum bytes of a source's texts, over all dimensions"""

MAX_OBJECTS = 1 << 19
"""maximum bytes of an event's texts, arrays and opaque values together"""

_ELEMENT = 9
_LARGEST = {
    Kind.STRING: MAX_TEXT,
    Kind.ENUM: MAX_TEXT,
    Kind.OPAQUE: MAX_EXACT,
    Kind.ARRAY: MAX_ARRAY * _ELEMENT,
}


class Admission:
    """Checks of events against one schema. They change no state. Errors name the field and the limit."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self.names = frozenset(p.name for p in schema)
        self.converters: list[Converter] = [converter(p) for p in schema.wire]
        self._dimension_converters = [converter(p) for p in schema.dimensions]

    @property
    def needs_size_check(self) -> bool:
        """Whether an event can be too large although each of its values is within its limit."""
        return sum(_LARGEST.get(p.kind, 0) for p in self.schema.wire) > MAX_OBJECTS

    def check_names(self, event: Mapping[str, Any]) -> None:
        """Reject unknown properties, and an event without its timestamp."""
        unknown = [name for name in event if name not in self.names]
        if unknown:
            raise UnknownProperty(property=unknown[0], schema=self.schema.name, known=sorted(self.names))
        stamp = self.schema.time
        if stamp is not None and event.get(stamp.name) is None:
            raise MissingProperty(property=stamp.name, schema=self.schema.name)

    def check_size(self, ticks: tuple[Any, ...]) -> None:
        """Reject an event whose values are too large together."""
        size = sum(_size_of(value) for value in ticks)
        if size > MAX_OBJECTS:
            raise TooLarge("texts, arrays and opaque values together", size=size, limit=MAX_OBJECTS)

    def check_key(self, key: tuple[Any, ...]) -> None:
        """Reject dimension values that cannot identify a source."""
        for p, convert, value in zip(self.schema.dimensions, self._dimension_converters, key, strict=True):
            if value is None:
                raise MissingProperty(property=p.name, schema=self.schema.name)
            convert(value)
            if not isinstance(value, str | int):  # 7.0 is an integer value, but JSON would send the key as 7
                raise WrongType(f"a {p.kind.value} is expected", property=p.name, value=value)
        size = sum(len(value.encode()) for value in key if isinstance(value, str))
        if size > MAX_KEY:
            raise TooLarge("dimension values", size=size, limit=MAX_KEY)

    def reject(self, event: Any, error: Exception) -> NoReturn:
        """Raise the error for an event that the generated code could not convert."""
        if not isinstance(event, Mapping):
            raise WrongType("an event is a mapping from names to values", given=type(event).__name__)
        for p, convert in zip(self.schema.wire, self.converters, strict=True):
            convert(event.get(p.name))
        for p in self.schema.dimensions:
            if event.get(p.name) is None:
                raise MissingProperty(property=p.name, schema=self.schema.name)
            if not isinstance(event[p.name], str | int):
                raise WrongType(f"a {p.kind.value} is expected", property=p.name, value=event[p.name])
        raise EventRejected(str(error)) from error


def _size_of(value: Any) -> int:
    """Return the bytes of a converted value that is sent completely."""
    if isinstance(value, str):
        return len(value.encode())
    if isinstance(value, bytes):
        return len(value)
    return len(value[0]) * _ELEMENT if isinstance(value, tuple) and isinstance(value[0], tuple) else 0


LatePolicy = Literal["accept", "reject"]


class EventPacing:
    """Event times of each source: rejects late events and applies `min_interval`."""

    def __init__(self, table: SourceTable) -> None:
        self.table = table
        wire = table.rules.schema.wire
        self.time = next((i for i, p in enumerate(wire) if p is table.rules.schema.time), None)

    def begin(self, row: int, ticks: tuple[Any, ...]) -> None:
        """Store the time of the first event of a source."""
        start, now = row * self.table.width, self._instant(ticks)
        self.table.cells[start + LATEST] = self.table.cells[start + INTERVAL_START] = ABSENT if now is None else now

    def resume(self) -> None:
        """Restore the latest time of adopted sources from the state."""
        if self.time is not None and self.table.rows:
            cells = self.table.by_row()
            known = cells[:, self.table.slot_start(0, self.table.rules.rules[self.time].first_slot)]
            cells[:, LATEST] = np.maximum(cells[:, LATEST], known)

    def check(self, row: int, ticks: tuple[Any, ...], source: tuple[Any, ...]) -> None:
        """Reject an event older than the latest of its source."""
        now = self._instant(ticks)
        if now is None or self.time is None:
            return
        latest = row * self.table.width + LATEST
        if now < self.table.cells[latest]:
            p = self.table.rules.schema.wire[self.time]
            restore = restorer(p)
            raise LateEvent(property=p.name, source=source, time=restore(now), latest=restore(self.table.cells[latest]))
        self.table.cells[latest] = now

    def is_too_soon(self, row: int, ticks: tuple[Any, ...]) -> bool:
        """Check whether an event is within `min_interval` of the last sent one and not urgent.

        Otherwise it starts a new interval, as does a clock that was set back by more than the interval.
        """
        now = self._instant(ticks)
        if now is None:
            return False
        cells, interval_start = self.table.cells, row * self.table.width + INTERVAL_START
        elapsed = now - cells[interval_start]
        interval = self.table.rules.min_interval
        if -interval < elapsed < interval and not self._is_urgent(row, ticks):
            return True
        cells[interval_start] = now
        return False

    def _is_urgent(self, row: int, ticks: tuple[Any, ...]) -> bool:
        """Check for values that `min_interval` must not delay: status, flags, texts, absence, values out of range. The
        maximum number of suppressed events is urgent as well."""
        rules = self.table.rules.rules
        if any(self._is_urgent_value(row, index, rule, ticks[index]) for index, rule in enumerate(rules)):
            return True
        start = row * self.table.width
        return self.table.cells[start] - self.table.cells[start + LAST_SENT] >= MAX_SKIP - 1

    def _is_urgent_value(self, row: int, index: int, rule: Rule, now: Any) -> bool:
        if not rule.slots:
            last = self.table.objects[index][row]
            return bool(now != last) if rule.encoding is EncodingKind.TEXT else (now is None) != (last is None)
        last = self.table.last(row, rule.first_slot)
        if rule.encoding is EncodingKind.GEO:
            return (now is None) != (last == ABSENT)
        if rule.encoding is EncodingKind.FLAG or rule.property.domain in NEVER_TOLERANT or ABSENT in (now, last):
            return bool(now != last)
        return rule.encoding is EncodingKind.TICK and not rule.lowest <= now <= rule.highest

    def _instant(self, ticks: tuple[Any, ...]) -> int | None:
        """Return the event time, or None if it is absent or off the grid."""
        if self.time is None or not -TICK_LIMIT <= ticks[self.time] <= TICK_LIMIT:
            return None
        now: int = ticks[self.time]
        return now
