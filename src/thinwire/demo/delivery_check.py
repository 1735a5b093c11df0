"""Comparison of delivered events with the events that the plants generated."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import inf
from typing import Any

from thinwire.codec.demand import tolerance_of
from thinwire.demo.demo_scenario import PLANTS, SCHEMA, DemoSubscription, PlantEvents
from thinwire.ledger import RowTally
from thinwire.schema import Event, Role, timestamps

ROUNDING = 1e-12
"""rounding error of the difference of two decimals as doubles, relative to the larger"""

_FORM = SCHEMA["timestamp"].form or ""
_TICKS, _TICKS_PER_SECOND = timestamps.reader(_FORM), timestamps.ticks_per_second(_FORM) or 1


class DeliveryCheck:
    """Compares the events delivered to one subscription with the generated ones.

    A subscription to changes does not get every event. While no event is delivered, the values of the last one must be
    within the tolerance of the generated ones.

    checked, broken: events that were compared, and that exceeded their bound or tolerance; lost: events not delivered
    early: events with a wider bound, from before the publisher applied the tolerance
    breach: the first violation, as text
    last: ordinal of the last delivered event, by plant
    """

    def __init__(self, subscription: DemoSubscription, tally: RowTally) -> None:
        demand = subscription.document.demand
        selected = [p for p in SCHEMA.wire if subscription.selects(p.name)]
        self.subscription = subscription
        self.plants = {plant.name: plant for plant in map(PlantEvents, range(PLANTS))}
        self.checked = self.broken = self.lost = self.early = 0
        self.breach = ""
        self.last: dict[str, int] = {}
        self._tally = tally
        self._tolerances = {p.name: float(tolerance_of(SCHEMA, p, demand)) for p in selected}
        self._measurements = [p.name for p in selected if p.role is Role.MEASUREMENT]
        self._applied: set[str] = set()
        self._latest: dict[str, Event] = {}

    def start(self, *, from_first_event: bool) -> None:
        """Expect all events of each plant, or those after the first delivered one."""
        self.last = dict.fromkeys(self.plants, 0) if from_first_event else {}

    def receive(self, event: Event) -> Mapping[str, Any] | None:
        """Check a delivered event. Return the generated event, None if there is none or it was already passed."""
        name, ordinal = str(event.source[0]), event.ordinal
        previous = self.last.get(name, ordinal - 1)
        if name not in self.plants or ordinal <= previous:
            self._add_violation(f"event {ordinal} of {name} was delivered after event {previous}")
            return None
        self._check_undelivered(name, ordinal - 1)
        self.last[name] = ordinal
        self.checked += 1
        original = self.plants[name].event(ordinal)
        self._check_delivered(name, event, original)
        if self.subscription.emit == "changes":
            self._latest[name] = event
        return original

    def finish(self, last: Mapping[str, int], *, complete: bool = True) -> None:
        """Count the events up to the last one of each plant that were not delivered.

        complete: the publishers have confirmed that no more events follow
        """
        for name, ordinal in last.items():
            if complete:
                self._check_undelivered(name, ordinal)
            else:
                self._add_lost(name, ordinal - self.last.get(name, ordinal))

    def _check_undelivered(self, name: str, until: int) -> None:
        """Check the events of a plant that were not delivered after the last delivered one."""
        previous, latest = self.last.get(name, until), self._latest.get(name)
        if latest is None:
            self._add_lost(name, until - previous)
            return
        requested = {p: self._tolerances[p] for p in self._measurements}
        for ordinal in range(previous + 1, until + 1):
            self.checked += 1
            if name in self._applied:
                label = f"event {ordinal} of {name}, which was not delivered,"
                self._check_values(label, latest, self.plants[name].event(ordinal), requested, requested)

    def _check_delivered(self, name: str, event: Event, original: Mapping[str, Any]) -> None:
        # between changes, the timestamp of a virtual event is not guaranteed
        is_partial = event.virtual and self.subscription.emit == "changes"
        names: Iterable[str] = self._measurements if is_partial else self._tolerances
        bounds = {p: inf if (bound := event.bound.get(p)) is None else bound for p in names}
        if all(bounds[p] <= self._tolerances[p] for p in names):
            self._applied.add(name)
        requested = self._tolerances if name in self._applied else {}
        self.early += not requested
        label = f"event {event.ordinal} of {name}"
        self._check_values(label, event, original, bounds, requested)
        if not all(map(self.subscription.selects, event)):
            self._add_violation(f"{label} has properties that were not requested")

    def _check_values(
        self,
        label: str,
        event: Event,
        original: Mapping[str, Any],
        bounds: Mapping[str, float],
        requested: Mapping[str, float],
    ) -> None:
        """Compare values with the original ones; `requested` is empty before the tolerance was applied."""
        violation = ""
        for p, bound in bounds.items():
            error = _error(p, event.get(p), original.get(p))
            if error > bound:
                violation = f"{p} of {label} differs by {error:g}, its bound is {bound:g}"
            elif requested and bound > requested[p]:
                violation = f"{p} of {label} has the bound {bound:g}, requested was {requested[p]:g}"
            if requested:
                self._tally.error(p, error, min(bound, requested[p]))
        if violation:
            self._add_violation(violation)

    def _add_lost(self, name: str, events: int) -> None:
        if events > 0:
            self.lost += events
            self.breach = self.breach or f"{events} events of {name} were not delivered"

    def _add_violation(self, text: str) -> None:
        self.broken += 1
        self.breach = self.breach or text


def _error(name: str, value: Any, original: Any) -> float:
    """Return the difference of two values, in seconds for timestamps; infinity for different values of other kinds."""
    if value == original:
        return 0.0
    if name == "timestamp":
        ticks, original_ticks = _TICKS(value), _TICKS(original)
        return inf if ticks is None or original_ticks is None else abs(ticks - original_ticks) / _TICKS_PER_SECOND
    if isinstance(value, str | bool | None) or isinstance(original, str | bool | None):
        return inf
    return max(0.0, float(abs(value - original) - ROUNDING * max(abs(value), abs(original))))
