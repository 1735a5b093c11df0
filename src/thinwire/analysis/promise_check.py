"""Does what arrives keep its promise? Every event that was published is compared with the one that was delivered.

>>> from thinwire.schema import Event, Property
>>> rooms = Schema("rooms", [Property("room", "string", "dimension"), Property("t", "number", step="0.1")])
>>> checker = Checker(rooms, Demand(default_tolerance=0.5))
>>> checker.sent({"room": "11.1", "t": 20.5})
>>> checker.delivered(Event({"room": "11.1", "t": 20.9}, bound={"t": 0.5}, source=("11.1",), ordinal=1))
>>> checker.checked, checker.broken, round(checker.worst, 2)
(1, 0, 0.8)
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any

from thinwire.codec import Demand
from thinwire.codec.demand import tolerance_of
from thinwire.errors import GuaranteeViolated
from thinwire.ledger import RowTally
from thinwire.schema import Event, Schema

SLACK = 1e-12
"""what comparing two decimals as doubles may be off by, as a share of the larger"""


class Checker:
    """Keeps what was published until it is delivered, and compares.

    demand: what was asked; a bound above the tolerance breaks the promise too
    tally: takes the errors over, where a run writes a ledger
    """

    def __init__(self, schema: Schema, demand: Demand, tally: RowTally | None = None) -> None:
        self.schema = schema
        self.demand = demand
        self.checked = 0
        self.broken = 0
        self.worst = 0.0
        self.first_breach = ""
        self._tally = tally
        self._tolerance = {p.name: float(tolerance_of(schema, p, demand)) for p in schema.wire}
        self._names = [p.name for p in schema.dimensions]
        self._waiting: dict[tuple[Any, ...], deque[Mapping[str, Any]]] = {}
        self._ordinals: dict[tuple[Any, ...], int] = {}

    def sent(self, event: Mapping[str, Any]) -> None:
        """An event was published."""
        source = tuple(event[name] for name in self._names)
        self._waiting.setdefault(source, deque()).append(event)

    def delivered(self, virtual: Event) -> None:
        """An event arrived: it must be the next of its source, and within its bound."""
        waiting = self._waiting.get(virtual.source)
        ordinal = self._ordinals.get(virtual.source, 0) + 1
        self._ordinals[virtual.source] = ordinal
        if not waiting or virtual.ordinal != ordinal:
            self._breach(f"event {virtual.ordinal} of {virtual.source}, expected {ordinal}")
            return
        self.checked += 1
        actual = waiting.popleft()
        if virtual != actual or self._tally is not None:
            self._compare(virtual, actual)

    @property
    def missing(self) -> int:
        """Events published and not delivered so far."""
        return sum(map(len, self._waiting.values()))

    @property
    def kept(self) -> bool:
        """Everything arrived, and nothing was off by more than it may."""
        return not self.broken and not self.missing

    def require(self) -> None:
        """Raise if the promise was not kept."""
        if not self.kept:
            facts = {"schema": self.schema.name, "broken": self.broken, "missing": self.missing}
            raise GuaranteeViolated(self.first_breach, **facts)

    def _compare(self, virtual: Event, actual: Mapping[str, Any]) -> None:
        for name, tolerance in self._tolerance.items():
            bound = virtual.bound.get(name)
            error = _distance(virtual.get(name), actual.get(name))
            if bound is None or bound > tolerance or error > bound:
                self._breach(f"{name} off by {error:g}, bound {bound}, tolerance {tolerance:g}")
            if bound:
                self.worst = max(self.worst, error / bound)
            if self._tally is not None:
                self._tally.error(name, error, bound or 0.0)

    def _breach(self, what: str) -> None:
        self.broken += 1
        self.first_breach = self.first_breach or what


def _distance(seen: Any, actual: Any) -> float:
    """How far apart; infinite where two values are different and have no distance."""
    if seen == actual:
        return 0.0
    if not _is_number(seen) or not _is_number(actual):
        return float("inf")
    return max(0.0, float(abs(seen - actual) - SLACK * max(abs(seen), abs(actual))))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
