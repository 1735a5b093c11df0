"""Check of a stream in a test: is every published event delivered, and every value within its bound?

>>> from thinwire.schema import Event, Property
>>> rooms = Schema("rooms", [Property("room", "string", "dimension"), Property("t", "number", step="0.1")])
>>> checker = GuaranteeChecker(rooms, Demand(default_tolerance=0.5))
>>> checker.sent({"room": "11.1", "t": 20.5})
>>> checker.delivered(Event({"room": "11.1", "t": 20.9}, bound={"t": 0.5}, source=("11.1",), ordinal=1))
>>> checker.checked, checker.broken, round(checker.worst, 2)
(1, 0, 0.8)
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any

from thinwire.analysis.guarantee_check import number_error, value_error
from thinwire.codec import Demand
from thinwire.codec.demand import tolerance_of
from thinwire.errors import GuaranteeViolated
from thinwire.ledger import RowTally
from thinwire.schema import Event, Kind, Property, Schema


class GuaranteeChecker:
    """Compares events in the order of their delivery.

    demand: the requested tolerances; a bound above its tolerance counts as broken
    tally: receives the errors for a ledger
    """

    def __init__(self, schema: Schema, demand: Demand, tally: RowTally | None = None) -> None:
        self.schema = schema
        self.demand = demand
        self.checked = 0
        self.broken = 0
        self.worst = 0.0
        self.first_breach = ""
        self._tally = tally
        self._tolerances = [(p, float(tolerance_of(schema, p, demand))) for p in schema.wire]
        self._dimensions = [p.name for p in schema.dimensions]
        self._pending: dict[tuple[Any, ...], deque[Mapping[str, Any]]] = {}
        self._ordinals: dict[tuple[Any, ...], int] = {}

    def sent(self, event: Mapping[str, Any]) -> None:
        """Record a published event."""
        source = tuple(event[name] for name in self._dimensions)
        self._pending.setdefault(source, deque()).append(event)

    def delivered(self, event: Event) -> None:
        """Check a delivered event: it must be the next of its source and within its bound."""
        pending = self._pending.get(event.source)
        ordinal = self._ordinals.get(event.source, 0) + 1
        self._ordinals[event.source] = ordinal
        if not pending or event.ordinal != ordinal:
            self._add_breach(f"event {event.ordinal} of {event.source}, expected {ordinal}")
            return
        self.checked += 1
        actual = pending.popleft()
        if event != actual or self._tally is not None:
            self._compare(event, actual)

    @property
    def missing(self) -> int:
        """Number of events that were published and not delivered yet."""
        return sum(map(len, self._pending.values()))

    @property
    def is_guarantee_met(self) -> bool:
        """Whether every event was delivered within its bound."""
        return not self.broken and not self.missing

    def require(self) -> None:
        """Raise `GuaranteeViolated` unless every event was delivered within its bound."""
        if not self.is_guarantee_met:
            facts = {"schema": self.schema.name, "broken": self.broken, "missing": self.missing}
            raise GuaranteeViolated(self.first_breach, **facts)

    def _compare(self, event: Event, actual: Mapping[str, Any]) -> None:
        for p, tolerance in self._tolerances:
            bound = event.bound.get(p.name)
            error = _error(p, event.get(p.name), actual.get(p.name))
            if bound is None or bound > tolerance or error > bound:
                self._add_breach(f"{p.name} differs by {error:g}, bound {bound}, tolerance {tolerance:g}")
            if bound:
                self.worst = max(self.worst, error / bound)
            if self._tally is not None:
                self._tally.error(p.name, error, bound or 0.0)

    def _add_breach(self, text: str) -> None:
        self.broken += 1
        self.first_breach = self.first_breach or text


def _error(p: Property, delivered: Any, actual: Any) -> float:
    """Return the distance of two values; infinite for different values without a distance."""
    if delivered == actual:
        return 0.0
    if p.kind in (Kind.GEO, Kind.ARRAY):
        return value_error(p, delivered, actual)
    if not _is_number(delivered) or not _is_number(actual):
        return float("inf")
    return number_error(delivered, actual)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
