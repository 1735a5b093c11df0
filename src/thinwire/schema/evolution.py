"""Evolution of schemas: differences between two versions, and conversion of events between them.

A new version may state *less* about a value than the old one (a finer step, more members, a wider kind), but nothing
else, see the table in `docs/schemas.md`. Then old readers can read events of new writers, and the reverse.

>>> from thinwire.schema import Event, Property, Schema
>>> old = Schema("rooms", [Property("level", "integer")])
>>> new = Schema("rooms", [Property("level", "number", step="0.5"), Property("open", "boolean")], version=2)
>>> [(change.name, change.what, change.breaking) for change in changes(old, new)]
[('level', 'widened', False), ('open', 'added', False)]
>>> compatible(old, new)
>>> written = Event({"level": 7.5, "open": True}, bound={"level": 0.25}, source=(), ordinal=1)
>>> read = SchemaProjection(writer=new, reader=old)(written)
>>> read, read.bound
({'level': 8}, {'level': 0.75})
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from math import inf
from typing import Any, NamedTuple

from thinwire.errors import SchemaError
from thinwire.schema.event import Event
from thinwire.schema.kind import Kind
from thinwire.schema.property import Property, Role
from thinwire.schema.schema import Schema

OTHER_NAME = "Publish it as another property, beside the old one."
OTHER_SCHEMA = "Register a schema of another name: the sources are different."
KEEP = "Keep the old declaration, or publish it as another property."

_WIDER = {
    Kind.INTEGER: {Kind.NUMBER, Kind.FLOAT},
    Kind.NUMBER: {Kind.FLOAT},
    Kind.ENUM: {Kind.STRING},
}
_UNIT_STEP = frozenset({Kind.INTEGER, Kind.TIMESTAMP})
"""kinds whose default step is 1"""
_MEASURED = frozenset({Kind.NUMBER, Kind.FLOAT})


@dataclass(frozen=True)
class SchemaChange:
    """One difference between two versions.

    name: the property; empty for the whole schema
    what: added, removed, renamed, widened, narrowed, replaced (its meaning changed), reordered, hidden, revealed, or
        tuned (a hint for the encoder)
    detail: old and new state
    remedy: what to do instead; empty if the change is allowed
    """

    name: str
    what: str
    detail: str
    remedy: str = ""

    @property
    def breaking(self) -> bool:
        return bool(self.remedy)


def changes(old: Schema, new: Schema) -> list[SchemaChange]:
    """Return all differences, in the order of the old schema, then of the new one."""
    found = list(_schema_changes(old, new))
    removed = [p for p in old if p.name not in new]
    added = [p for p in new if p.name not in old]
    for p in old:
        found += _property_changes(p, new[p.name]) if p.name in new else [_removed(p, old, added)]
    return found + [_added(p, new) for p in added if not _is_renamed(p, removed)]


def compatible(old: Schema, new: Schema) -> None:
    """Raise `SchemaError` for a new version that readers or writers of the old one cannot work with."""
    found = changes(old, new)
    breaking = next((change for change in found if change.breaking), None)
    if breaking is not None:
        detail = f"{breaking.name or new.name}: {breaking.detail}. {breaking.remedy}"
        raise SchemaError(detail, property=breaking.name, what=breaking.what, old=old.version, new=new.version)
    if found and new.version <= old.version:
        raise SchemaError("a changed schema needs a higher version", old=old.version, new=new.version)


def _schema_changes(old: Schema, new: Schema) -> Iterator[SchemaChange]:
    if old.name != new.name:
        yield SchemaChange("", "replaced", f"schema {old.name} became {new.name}", "Compare versions of one schema.")
    if old.time is not None and new.time is not None and old.time.name != new.time.name:
        detail = f"the timestamp of the event was {old.time.name}"
        yield SchemaChange(new.time.name, "replaced", detail, "List the old timestamp first; others may follow it.")
    old_names, new_names = ([p.name for p in a if p.name in b] for a, b in ((old, new), (new, old)))
    old_source, new_source = ([p.name for p in a.dimensions if p.name in b] for a, b in ((old, new), (new, old)))
    if old_source != new_source and sorted(old_source) == sorted(new_source):
        remedy = "Keep the order: it identifies the source."
        yield SchemaChange(new_source[0], "reordered", f"dimensions were {old_source}", remedy)
    elif old_names != new_names:
        yield SchemaChange("", "reordered", "the order of the properties changed")


def _removed(p: Property, old: Schema, added: list[Property]) -> SchemaChange:
    if p.role is Role.DIMENSION:
        return SchemaChange(p.name, "removed", "a dimension was removed", OTHER_SCHEMA)
    if p is old.time:
        remedy = "Keep it: it identifies the event."
        return SchemaChange(p.name, "removed", "the timestamp of the event was removed", remedy)
    renamed = next((q for q in added if _equal_except_name(p, q)), None)
    if renamed is not None:
        remedy = "Use two versions: add the new name and fill both, then remove the old one."
        detail = f"renamed to {renamed.name}; readers of the old name would not find it"
        return SchemaChange(p.name, "renamed", detail, remedy)
    return SchemaChange(p.name, "removed", f"a {p.kind.value} was removed")


def _added(p: Property, new: Schema) -> SchemaChange:
    if p.role is Role.DIMENSION:
        return SchemaChange(p.name, "added", "a dimension was added", OTHER_SCHEMA)
    if p is new.time:
        remedy = "Add it as a measurement: older events cannot have it."
        return SchemaChange(p.name, "added", "the timestamp of the event was added", remedy)
    return SchemaChange(p.name, "added", f"a {p.kind.value} was added")


def _is_renamed(p: Property, removed: list[Property]) -> bool:
    return any(_equal_except_name(p, q) and q.role is not Role.DIMENSION for q in removed)


def _equal_except_name(p: Property, q: Property) -> bool:
    return p.to_document() | {"name": ""} == q.to_document() | {"name": ""}


def _property_changes(old: Property, new: Property) -> list[SchemaChange]:
    found = [*_meaning_changes(old, new), *_kind_changes(old, new), *_range_changes(old, new), *_hint_changes(old, new)]
    if not found and old != new:
        found.append(SchemaChange(old.name, "tuned", "fields that its kind does not use changed"))
    return found


def _meaning_changes(old: Property, new: Property) -> Iterator[SchemaChange]:
    for field, remedy in (("role", KEEP), ("unit", OTHER_NAME), ("domain", OTHER_NAME)):
        before, after = getattr(old, field), getattr(new, field)
        if before != after:
            what, needed = ("tuned", "") if before is None or after is None else ("replaced", remedy)
            yield SchemaChange(old.name, what, f"{field} was {_format(before)}, is {_format(after)}", needed)


def _kind_changes(old: Property, new: Property) -> Iterator[SchemaChange]:
    if old.custom_kind != new.custom_kind:
        detail = f"custom kind was {_format(old.custom_kind)}, is {_format(new.custom_kind)}"
        yield SchemaChange(old.name, "replaced", detail, OTHER_NAME)
    elif old.kind is not new.kind:
        yield _kind_change(old, new)
    elif old.kind is Kind.TIMESTAMP and (old.form or "epoch") != (new.form or "epoch"):
        yield SchemaChange(old.name, "replaced", f"the form was {old.form}, is {new.form}", OTHER_NAME)
    elif old.kind is Kind.ARRAY and old.length != new.length:
        yield SchemaChange(old.name, "replaced", f"the length was {old.length}, is {new.length}", OTHER_NAME)
    elif old.kind is Kind.ENUM:
        yield from _member_changes(old, new)
    elif _grid(old) != _grid(new):
        yield _step_change(old, new)


def _kind_change(old: Property, new: Property) -> SchemaChange:
    detail = f"a {old.kind.value} became a {new.kind.value}"
    if new.kind in _WIDER.get(old.kind, ()):
        return SchemaChange(old.name, "widened", detail) if _is_finer(old, new) else _step_change(old, new)
    if old.kind in _WIDER.get(new.kind, ()):
        return SchemaChange(old.name, "narrowed", detail, KEEP)
    return SchemaChange(old.name, "replaced", detail, OTHER_NAME)


def _step_change(old: Property, new: Property) -> SchemaChange:
    detail = f"the step was {_format(_grid(old))}, is {_format(_grid(new))}"
    if _is_finer(old, new):
        return SchemaChange(old.name, "widened", detail)
    return SchemaChange(old.name, "narrowed", f"{detail}: old values are between the new steps", KEEP)


def _grid(p: Property) -> Fraction | None:
    """Return the grid of the values; None if any value may occur."""
    return Fraction(1) if p.step is None and p.kind in _UNIT_STEP else p.step


def _is_finer(old: Property, new: Property) -> bool:
    before, after = _grid(old), _grid(new)
    return after is None or (before is not None and (before / after).denominator == 1)


def _member_changes(old: Property, new: Property) -> Iterator[SchemaChange]:
    lost, gained = sorted(set(old.members) - set(new.members)), sorted(set(new.members) - set(old.members))
    if new.closed and not old.closed:
        yield SchemaChange(old.name, "narrowed", "an open enum was closed", KEEP)
    elif new.closed and lost:
        yield SchemaChange(old.name, "narrowed", f"the closed enum lost {lost}", KEEP)
    elif gained or (old.closed and not new.closed):
        detail = f"the enum gained {gained}" if gained else "the closed enum was opened"
        yield SchemaChange(old.name, "widened", detail)
    elif old.members != new.members:
        yield SchemaChange(old.name, "tuned", "the list of known members changed")


def _range_changes(old: Property, new: Property) -> Iterator[SchemaChange]:
    """Yield a change of the range, which is never breaking: values outside it are always sent, and flagged."""
    before, after = _range(old), _range(new)
    if before != after:
        wider = after[0] <= before[0] and before[1] <= after[1]
        yield SchemaChange(old.name, "widened" if wider else "narrowed", f"the range was {before}, is {after}")


def _range(p: Property) -> tuple[float, float]:
    return -inf if p.minimum is None else p.minimum, inf if p.maximum is None else p.maximum


def _hint_changes(old: Property, new: Property) -> Iterator[SchemaChange]:
    if old.confidential != new.confidential:
        what = "hidden" if new.confidential else "revealed"
        yield SchemaChange(old.name, what, f"the property was {what}")
    if old.static != new.static:
        yield SchemaChange(old.name, "tuned", "now static" if new.static else "no longer static")
    if (old.idle_band, old.period) != (new.idle_band, new.period):
        yield SchemaChange(old.name, "tuned", "idle band or period changed")


def _format(value: object) -> str:
    return "none" if value is None else str(value)


class SchemaProjection:
    """Converts flat events of a writer to the schema version of a reader.

    Properties that only the writer has are dropped; those that only the reader has are null. Numbers keep their value,
    except that a reader with an integer receives rounded numbers. The bound then grows by the rounding error, at most
    by `loss`: to keep a tolerance, request one that is smaller by `loss`. Values that the reader's schema does not
    allow (out of range, not a member) are delivered and flagged.
    """

    def __init__(self, writer: Schema, reader: Schema) -> None:
        compatible(*sorted((writer, reader), key=lambda schema: schema.version))
        self.writer = writer
        self.reader = reader
        self._views = {p.name: _view(p, writer) for p in reader}
        self.loss = {name: 0.5 if view.convert is round else 0.0 for name, view in self._views.items() if view}

    def __call__(self, event: Event) -> Event:
        values: dict[str, Any] = {}
        bound: dict[str, float | None] = {}
        flags: list[str] = []
        for name, view in self._views.items():
            if view is None:
                values[name] = bound[name] = None
                continue
            value = event.get(name)
            values[name] = read = view.convert(value) if value is not None and view.convert else value
            if name in event.bound:
                bound[name] = _widen_bound(event.bound[name], value, read)
            if read is not None and (name in event.flags if view.is_unexpected is None else view.is_unexpected(read)):
                flags.append(name)
        return event.like(values, bound, tuple(flags))


class _View(NamedTuple):
    """How a reader receives one of its properties.

    is_unexpected: returns whether the reader's schema does not allow a value; None if both sides declare the same, so
        that the flag of the writer applies
    """

    convert: Callable[[Any], Any] | None
    is_unexpected: Callable[[Any], bool] | None


def _view(p: Property, writer: Schema) -> _View | None:
    """Return the view of a property; None if the writer never sends it."""
    if p.name not in writer or p.confidential or writer[p.name].confidential:
        return None
    w = writer[p.name]
    same = (w.minimum, w.maximum, w.closed, w.members) == (p.minimum, p.maximum, p.closed, p.members)
    return _View(_conversion(w.kind, p.kind), None if same else _range_test(p))


def _conversion(written: Kind, read: Kind) -> Callable[[Any], Any] | None:
    if written in _MEASURED and read is Kind.INTEGER:
        return round
    return float if written is Kind.INTEGER and read in _MEASURED else None


def _widen_bound(bound: float | None, written: Any, read: Any) -> float | None:
    """Return the bound plus the distance between both values, rounded up because a bound must not be exceeded."""
    if bound is None or written is read or written == read:
        return bound
    exact = Fraction(bound) + abs(Fraction(read) - Fraction(written))
    wider = float(exact)
    return wider if wider >= exact else math.nextafter(wider, math.inf)


def _range_test(p: Property) -> Callable[[Any], bool]:
    """Return a function that returns whether a value is outside the declared range or closed enum."""
    members = frozenset(p.members)
    low, high = _range(p)
    if p.kind is Kind.ENUM:
        return lambda value: p.closed and value not in members
    if p.kind is Kind.ARRAY:
        return lambda value: not all(low <= item <= high for item in value)
    return lambda value: isinstance(value, int | float) and not low <= value <= high
