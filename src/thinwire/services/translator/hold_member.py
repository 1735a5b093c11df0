"""What of an event decides who must look at it: the ticks of its measurements, and everything else that may change."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, NamedTuple

from thinwire.codec.code_generation_picking import picker
from thinwire.codec.ticks import TICK_LIMIT
from thinwire.codec.value_conversion import converter
from thinwire.errors import EventRejected
from thinwire.schema import Event, Property, Role, Schema
from thinwire.wire.partial_event import Lane, lane_of


class Reading(NamedTuple):
    """ticks: of each measurement; None where one is absent, off its grid or beyond all limits
    others: what must not change, if nobody is to be told
    """

    ticks: list[int] | None
    others: list[Any]


class Gauge:
    """Reads events of one schema.

    watched: names of the properties that somebody is told of
    names: those that have ticks, by their places
    """

    def __init__(self, schema: Schema, watched: Collection[str] = ()) -> None:
        self.schema = schema
        self.watched = frozenset(watched)
        read = [p for p in schema.wire if p.role is not Role.HEADER and p.name in self.watched]
        ticks = [p for p in read if lane_of(p.kind) is Lane.TICK]
        self.names = {p.name: place for place, p in enumerate(ticks)}
        self._pick = picker(schema)
        self._ticks = [(p.name, converter(p)) for p in ticks]
        self._others = [(p.name, _kept(p)) for p in read if p.name not in self.names]

    def read(self, event: Event) -> Reading:
        """What an event brings."""
        values = self._pick(event)
        others = [kept(values.get(name)) for name, kept in self._others]
        try:
            ticks = [convert(values.get(name)) for name, convert in self._ticks]
        except EventRejected:
            return Reading(None, others)
        ordinary = all(-TICK_LIMIT < each < TICK_LIMIT for each in ticks)
        return Reading(ticks if ordinary else None, others)


def _kept(p: Property) -> Callable[[Any], Any]:
    """A value such that others are equal to it only if no link could tell them apart: the two zeros are two, and so
    are the number one and what is true."""
    lane = lane_of(p.kind)
    if lane is Lane.OPAQUE:
        return repr
    if lane is Lane.FLOAT:
        return lambda value: value if value else repr(value)
    return lambda value: value
