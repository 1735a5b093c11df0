"""How a schema may change from one version to the next, and how the versions understand each other.

The rule behind the table in `docs/schemas.md`: a new version may say *less* about a value than the old one (a finer
step, more members, a wider kind), never something else. Then an old reader can follow a new writer, and a new reader an
old writer, each with its own view of the other's events.

>>> from thinwire.schema import Event, Property, Schema
>>> old = Schema("rooms", [Property("level", "integer")])
>>> new = Schema("rooms", [Property("level", "number", step="0.5"), Property("open", "boolean")], version=2)
>>> compatible(old, new)
>>> written = Event({"level": 7.5, "open": True}, bound={"level": 0.25}, source=(), ordinal=1)
>>> read = Projection(writer=new, reader=old)(written)
>>> read, read.bound
({'level': 8}, {'level': 0.75})
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from thinwire.errors import SchemaError
from thinwire.schema.event import Event
from thinwire.schema.evolution_differences import Change, changes
from thinwire.schema.property import Kind
from thinwire.schema.property_properties import Property
from thinwire.schema.schema import Schema

__all__ = ["Change", "Projection", "changes", "compatible"]

_MEASURED = frozenset({Kind.NUMBER, Kind.FLOAT})


def compatible(old: Schema, new: Schema) -> None:
    """Refuse a new version that readers or writers of the old one could not live with."""
    found = changes(old, new)
    breaking = next((change for change in found if change.breaking), None)
    if breaking is not None:
        detail = f"{breaking.name or new.name}: {breaking.detail}. {breaking.remedy}"
        raise SchemaError(detail, property=breaking.name, what=breaking.what, old=old.version, new=new.version)
    if found and new.version <= old.version:
        raise SchemaError("a changed schema needs a higher version", old=old.version, new=new.version)


class Projection:
    """A reader's view of the events that a writer with another version of the schema wrote.

    Properties that only the writer has are dropped; those that only the reader has are null. Numbers keep their value,
    be the writer's step finer or coarser; only where the reader asks for whole numbers they are rounded. Then the bound
    grows by as much as the value moved, at most by `loss`: ask for a tolerance smaller by that to keep a promise.
    What the reader's schema does not foresee (out of range, not a member) is delivered and flagged.

    Events are flat, one value per path.
    """

    def __init__(self, writer: Schema, reader: Schema) -> None:
        older, newer = sorted((writer, reader), key=lambda schema: schema.version)
        compatible(older, newer)
        self.writer = writer
        self.reader = reader
        self._views = tuple(_view(p, writer) for p in reader)
        self.loss = {view.name: 0.5 if view.convert is _whole else 0.0 for view in self._views if not view.missing}

    def __call__(self, event: Event) -> Event:
        values: dict[str, Any] = {}
        bound: dict[str, float | None] = {}
        for view in self._views:
            value = None if view.missing else event.get(view.name)
            values[view.name] = view.convert(value) if value is not None and view.convert else value
            if view.missing:
                bound[view.name] = None
            elif view.name in event.bound:
                bound[view.name] = _grown(event.bound[view.name], value, values[view.name])
        flags = tuple(view.name for view in self._views if view.flagged(values[view.name], event))
        return event.like(values, bound, flags)


@dataclass(frozen=True)
class _View:
    """How a reader sees one of its properties.

    missing: the writer never sends it; unforeseen: does a value contradict the reader's schema; None where both sides
    declare the same, so that the writer's own flag stands
    """

    name: str
    missing: bool
    convert: Callable[[Any], Any] | None
    unforeseen: Callable[[Any], bool] | None

    def flagged(self, value: Any, event: Event) -> bool:
        if value is None:
            return False
        return self.name in event.flags if self.unforeseen is None else self.unforeseen(value)


def _view(p: Property, writer: Schema) -> _View:
    if p.name not in writer or p.confidential or writer[p.name].confidential:
        return _View(p.name, True, None, None)
    w = writer[p.name]
    same = (w.minimum, w.maximum, w.closed, w.members) == (p.minimum, p.maximum, p.closed, p.members)
    return _View(p.name, False, _conversion(w.kind, p.kind), None if same else _unforeseen(p))


def _conversion(written: Kind, read: Kind) -> Callable[[Any], Any] | None:
    if written in _MEASURED and read is Kind.INTEGER:
        return _whole
    return float if written is Kind.INTEGER and read in _MEASURED else None


def _whole(value: float) -> int:
    return round(value)


def _grown(bound: float | None, value: Any, view: Any) -> float | None:
    """The bound, and how far the value moved on its way to the reader; rounded up, for a bound is a promise."""
    if bound is None or value is view or value == view:
        return bound
    exact = Fraction(bound) + abs(Fraction(view) - Fraction(value))
    grown = float(exact)
    return grown if grown >= exact else math.nextafter(grown, math.inf)


def _unforeseen(p: Property) -> Callable[[Any], bool]:
    """Does a value lie outside the declared range, or outside a closed enum?"""
    members = frozenset(p.members)
    low = -math.inf if p.minimum is None else p.minimum
    high = math.inf if p.maximum is None else p.maximum
    if p.kind is Kind.ENUM:
        return lambda value: p.closed and value not in members
    if p.kind is Kind.ARRAY:
        return lambda value: not all(low <= item <= high for item in value)
    return lambda value: isinstance(value, int | float) and not low <= value <= high
