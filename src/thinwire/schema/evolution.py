"""How a schema may change from one version to the next, and how the versions understand each other.

The rule behind the table in `docs/schemas.md`: a new version may say *less* about a value than the old one (a finer
step, more members, a wider kind), never something else. Then an old reader can follow a new writer, and a new reader an
old writer, each with its own view of the other's events.

>>> from thinwire.schema import Event, Property, Schema
>>> old = Schema("rooms", [Property("level", "integer")])
>>> new = Schema("rooms", [Property("level", "number", step="0.5"), Property("open", "boolean")], version=2)
>>> compatible(old, new)
>>> written = Event({"level": 7.5, "open": True}, bound={"level": 0.25}, source=(), ordinal=1)
>>> read = SchemaProjection(writer=new, reader=old)(written)
>>> read, read.bound
({'level': 8}, {'level': 0.75})

What differs between two versions of a schema, and which differences readers or writers cannot live with.

>>> from thinwire.schema import Property, Schema
>>> old = Schema("rooms", [Property("level", "integer")])
>>> new = Schema("rooms", [Property("level", "number", step="0.5"), Property("open", "boolean")], version=2)
>>> [(change.name, change.what, change.breaking) for change in changes(old, new)]
[('level', 'widened', False), ('open', 'added', False)]
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from math import inf
from typing import Any

from thinwire.errors import SchemaError
from thinwire.schema.event import Event
from thinwire.schema.property import Kind, Property, Role
from thinwire.schema.schema import Schema

OTHER_NAME = "Publish it as another property, beside the old one."
OTHER_SCHEMA = "Register a schema of another name: these are other sources."
KEEP = "Keep the old declaration, or publish it as another property."

_WIDER = {
    Kind.INTEGER: {Kind.NUMBER, Kind.FLOAT},
    Kind.NUMBER: {Kind.FLOAT},
    Kind.ENUM: {Kind.STRING},
}
_COUNTED = frozenset({Kind.INTEGER, Kind.TIMESTAMP})
"""kinds that count in ones where no step is declared"""


@dataclass(frozen=True)
class SchemaChange:
    """One difference between two versions.

    name: the property, or empty for the schema as a whole
    what: added, removed, renamed, widened, narrowed, replaced (it means something else), reordered, hidden, revealed
        or tuned (a hint to reduction)
    detail: what it was and what it is; remedy: what to do instead, where the change is breaking
    """

    name: str
    what: str
    detail: str
    remedy: str = ""

    @property
    def breaking(self) -> bool:
        return bool(self.remedy)


def changes(old: Schema, new: Schema) -> list[SchemaChange]:
    """Everything that differs, in the order of the old schema, then of the new one."""
    found = list(_whole(old, new))
    removed = [p for p in old if p.name not in new]
    added = [p for p in new if p.name not in old]
    for p in old:
        found += _between(p, new[p.name]) if p.name in new else [_removed(p, old, added)]
    found += [_added(p, new) for p in added if not _renamed(p, removed)]
    return found


def _whole(old: Schema, new: Schema) -> Iterator[SchemaChange]:
    if old.name != new.name:
        yield SchemaChange("", "replaced", f"schema {old.name} became {new.name}", "Compare versions of one schema.")
    if old.time is not None and new.time is not None and old.time.name != new.time.name:
        detail = f"the timestamp of the event was {old.time.name}"
        yield SchemaChange(new.time.name, "replaced", detail, "List the old timestamp first; others may follow it.")
    shared = [[p.name for p in one if p.name in other] for one, other in ((old, new), (new, old))]
    sources = [[p.name for p in one.dimensions if p.name in other] for one, other in ((old, new), (new, old))]
    if sources[0] != sources[1] and sorted(sources[0]) == sorted(sources[1]):
        yield SchemaChange(
            sources[1][0], "reordered", f"dimensions were {sources[0]}", "Keep the order: it names the source."
        )
    elif shared[0] != shared[1]:
        yield SchemaChange("", "reordered", "the properties stand in another order")


def _removed(p: Property, old: Schema, added: list[Property]) -> SchemaChange:
    if p.role is Role.DIMENSION:
        return SchemaChange(p.name, "removed", "a dimension was removed", OTHER_SCHEMA)
    if p is old.time:
        return SchemaChange(
            p.name, "removed", "the timestamp of the event was removed", "Keep it: it identifies the event."
        )
    twin = next((q for q in added if _same_but_name(p, q)), None)
    if twin is not None:
        remedy = "Take two versions: add the new name and fill both, then remove the old one."
        return SchemaChange(
            p.name, "renamed", f"renamed to {twin.name}, which readers of the old name cannot follow", remedy
        )
    return SchemaChange(p.name, "removed", f"a {p.kind.value} was removed")


def _added(p: Property, new: Schema) -> SchemaChange:
    if p.role is Role.DIMENSION:
        return SchemaChange(p.name, "added", "a dimension was added", OTHER_SCHEMA)
    if p is new.time:
        remedy = "Add it as a measurement: older events cannot have it."
        return SchemaChange(p.name, "added", "the timestamp of the event was added", remedy)
    return SchemaChange(p.name, "added", f"a {p.kind.value} was added")


def _renamed(p: Property, removed: list[Property]) -> bool:
    return any(_same_but_name(p, q) and q.role is not Role.DIMENSION for q in removed)


def _same_but_name(p: Property, q: Property) -> bool:
    return p.to_document() | {"name": ""} == q.to_document() | {"name": ""}


def _between(old: Property, new: Property) -> list[SchemaChange]:
    """What changed in one property."""
    found = [*_meaning(old, new), *_shape(old, new), *_range(old, new), *_hints(old, new)]
    if not found and old != new:
        found.append(SchemaChange(old.name, "tuned", "fields that its kind has no use for changed"))
    return found


def _meaning(old: Property, new: Property) -> Iterator[SchemaChange]:
    for field, remedy in (("role", KEEP), ("unit", OTHER_NAME), ("domain", OTHER_NAME)):
        was, is_now = getattr(old, field), getattr(new, field)
        if was == is_now:
            continue
        if was is None or is_now is None:
            yield SchemaChange(old.name, "tuned", f"{field} was {_shown(was)}, is {_shown(is_now)}")
        else:
            yield SchemaChange(old.name, "replaced", f"{field} was {_shown(was)}, is {_shown(is_now)}", remedy)


def _shape(old: Property, new: Property) -> Iterator[SchemaChange]:
    if old.kind is not new.kind:
        yield _kind(old, new)
    elif old.kind is Kind.TIMESTAMP and (old.form or "epoch") != (new.form or "epoch"):
        yield SchemaChange(old.name, "replaced", f"the form was {old.form}, is {new.form}", OTHER_NAME)
    elif old.kind is Kind.ARRAY and old.length != new.length:
        yield SchemaChange(old.name, "replaced", f"the length was {old.length}, is {new.length}", OTHER_NAME)
    elif old.kind is Kind.ENUM:
        yield from _members(old, new)
    elif _grid(old) != _grid(new):
        yield _steps(old, new)


def _kind(old: Property, new: Property) -> SchemaChange:
    detail = f"a {old.kind.value} became a {new.kind.value}"
    if new.kind in _WIDER.get(old.kind, ()):
        return SchemaChange(old.name, "widened", detail) if _finer(old, new) else _steps(old, new)
    if old.kind in _WIDER.get(new.kind, ()):
        return SchemaChange(old.name, "narrowed", detail, KEEP)
    return SchemaChange(old.name, "replaced", detail, OTHER_NAME)


def _steps(old: Property, new: Property) -> SchemaChange:
    was, is_now = _grid(old), _grid(new)
    detail = f"the step was {_shown(was)}, is {_shown(is_now)}"
    if _finer(old, new):
        return SchemaChange(old.name, "widened", detail)
    return SchemaChange(old.name, "narrowed", f"{detail}: old values lie between the new steps", KEEP)


def _grid(p: Property) -> Fraction | None:
    """The grid of the values; None where any value may occur."""
    return Fraction(1) if p.step is None and p.kind in _COUNTED else p.step


def _finer(old: Property, new: Property) -> bool:
    was, is_now = _grid(old), _grid(new)
    return is_now is None or (was is not None and (was / is_now).denominator == 1)


def _members(old: Property, new: Property) -> Iterator[SchemaChange]:
    lost, more = sorted(set(old.members) - set(new.members)), sorted(set(new.members) - set(old.members))
    if new.closed and not old.closed:
        yield SchemaChange(old.name, "narrowed", "an open enum was closed", KEEP)
    elif new.closed and lost:
        yield SchemaChange(old.name, "narrowed", f"the closed enum lost {lost}", KEEP)
    elif more or (old.closed and not new.closed):
        yield SchemaChange(old.name, "widened", f"the enum gained {more}" if more else "the closed enum was opened")
    elif old.members != new.members:
        yield SchemaChange(old.name, "tuned", "known members are listed otherwise")


def _range(old: Property, new: Property) -> Iterator[SchemaChange]:
    """Not breaking either way: values outside their range always travel, and are flagged."""
    was, is_now = _limits(old), _limits(new)
    if was != is_now:
        wider = is_now[0] <= was[0] and was[1] <= is_now[1]
        yield SchemaChange(old.name, "widened" if wider else "narrowed", f"the range was {was}, is {is_now}")


def _limits(p: Property) -> tuple[float, float]:
    return -inf if p.minimum is None else p.minimum, inf if p.maximum is None else p.maximum


def _hints(old: Property, new: Property) -> Iterator[SchemaChange]:
    if old.confidential != new.confidential:
        what = "hidden" if new.confidential else "revealed"
        yield SchemaChange(old.name, what, f"the property was {what}")
    if old.static != new.static:
        yield SchemaChange(old.name, "tuned", "now told once" if new.static else "no longer told once")
    if (old.idle_band, old.period) != (new.idle_band, new.period):
        yield SchemaChange(old.name, "tuned", "idle band or period changed")


def _shown(value: object) -> str:
    return "none" if value is None else str(value)


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


class SchemaProjection:
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
        self.loss = {
            view.name: 0.5 if view.convert is _whole_evolution else 0.0 for view in self._views if not view.missing
        }

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
        return _whole_evolution
    return float if written is Kind.INTEGER and read in _MEASURED else None


def _whole_evolution(value: float) -> int:
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
