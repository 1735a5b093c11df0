"""`emit="changes"`: an event passes when a value has moved by more than its tolerance since the last that passed.

The values seen are themselves up to their bound from the truth, so the filter takes what is left of the tolerance:
then the last value delivered stays within the tolerance of the truth until the next one comes.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from thinwire.events import Event, Kind, Property, Role, Schema, flatten
from thinwire.events.kinds import TOLERANT_KINDS
from thinwire.reduction.demand import tick_size

_NEVER: Any = object()


class Changes:
    """Remembers the last values that passed, for each source.

    schema: of the events; tolerance: per property; those not named do not count

    >>> from thinwire.events import Property
    >>> rooms = Schema("rooms", [Property("room", "string", "dimension"), Property("t", "number", step="0.1")])
    >>> changes = Changes(rooms, {"t": 0.5})
    >>> def seen(t): return Event({"room": "11.1", "t": t}, bound={"t": 0.0}, source=("11.1",), ordinal=1)
    >>> [changes.admit(seen(t)) for t in (20.0, 20.4, 20.5, 20.6, 20.6)]
    [True, False, False, True, False]
    """

    def __init__(self, schema: Schema, tolerance: Mapping[str, float]) -> None:
        self.schema = schema
        self.tolerance = tolerance
        measured = [p for p in schema.wire if p.role is Role.MEASUREMENT and p.name in tolerance]
        self._names = tuple(p.name for p in measured)
        self._steps = tuple(_step(p) for p in measured)
        self._asked = tuple(Fraction(str(tolerance[name])) for name in self._names)
        self._rooms: dict[int, tuple[Any, ...]] = {}
        self._last: dict[tuple[Any, ...], tuple[Any, ...]] = {}

    def admit(self, event: Event) -> bool:
        """Has a value moved far enough? Then it is the one to compare with from now on."""
        flat = flatten(event, self.schema) if self.schema.nested else event
        values = tuple([flat[name] for name in self._names])
        key = (event.publisher, *event.source)
        last = self._last.get(key, _NEVER)
        if last is not _NEVER and (values == last or not self._moved(event, values, last)):
            return False
        self._last[key] = values
        return True

    def forget(self) -> None:
        """Let the next event of every source pass."""
        self._last.clear()

    def _moved(self, event: Event, values: tuple[Any, ...], last: tuple[Any, ...]) -> bool:
        limits = self._limits(event.bound)
        for value, before, step, limit in zip(values, last, self._steps, limits, strict=True):
            if value == before:
                continue
            if step is None or not isinstance(value, int | float) or not isinstance(before, int | float):
                return True
            distance = abs(value - before)
            if (round(distance / float(step)) if step else distance) > limit:
                return True
        return False

    def _limits(self, bound: Mapping[str, float | None]) -> tuple[Any, ...]:
        """What the bound leaves of each tolerance; made once for the bounds of a link."""
        known = self._rooms.get(id(bound))
        if known is not None and known[0] is bound:
            return known[1]  # type: ignore[no-any-return]
        limits = tuple(
            _limit(max(asked - Fraction(str(bound.get(name) or 0)), Fraction(0)), step)
            for name, asked, step in zip(self._names, self._asked, self._steps, strict=True)
        )
        if len(self._rooms) > 64:
            self._rooms.clear()
        self._rooms[id(bound)] = (bound, limits)
        return limits


def _step(p: Property) -> Fraction | None:
    """The grid to compare on: its step, 0 where there is none, None for kinds that differ or do not."""
    if p.kind not in TOLERANT_KINDS or p.kind in (Kind.GEO, Kind.ARRAY):
        return None
    return Fraction(0) if p.kind is Kind.FLOAT else tick_size(p)


def _limit(room: Fraction, step: Fraction | None) -> float:
    """How far a value may move: in whole steps where it has a grid, so that no rounding of doubles decides."""
    return int(room / step) if step else float(room)
