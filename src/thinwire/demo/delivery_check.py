"""Comparison of delivered events with the events that the plants generated."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import inf
from typing import Any

from thinwire.analysis.guarantee_check import number_error
from thinwire.codec.demand import tolerance_of
from thinwire.demo.demo_scenario import PLANTS, SCHEMA, DemoSubscription, PlantEvents
from thinwire.ledger import RowTally
from thinwire.schema import Event, Role, timestamps

_TIME_FORM = SCHEMA["timestamp"].form or ""
_read_ticks, _TICKS_PER_SECOND = timestamps.reader(_TIME_FORM), timestamps.ticks_per_second(_TIME_FORM) or 1


@dataclass
class CheckResult:
    """Result of the comparison for one subscription.

    checked: number of events that were compared
    violations: number of events that exceeded a bound or a tolerance, were repeated, or had other properties
    lost: number of events that were not delivered and that the subscription cannot have suppressed
    early: number of events from before the publisher applied the tolerance of the subscription
    first_violation: text of the first violation or loss; empty without one
    """

    checked: int = 0
    violations: int = 0
    lost: int = 0
    early: int = 0
    first_violation: str = ""

    @property
    def is_guarantee_met(self) -> bool:
        """Whether no event was lost and no violation was found."""
        return not self.violations and not self.lost

    def add_lost(self, plant: str, events: int) -> None:
        if events > 0:
            self.lost += events
            self.first_violation = self.first_violation or f"{events} events of {plant} were not delivered"

    def add_violation(self, text: str) -> None:
        self.violations += 1
        self.first_violation = self.first_violation or text


class DeliveryCheck:
    """Compares the events delivered to one subscription with the generated events.

    A subscription to changes does not get every event. While no event is delivered, the values of the last delivered
    event must be within the tolerance of the generated values. After a subscription with a smaller tolerance joins,
    events may have a larger bound until the publisher applies the tolerance; their values must be within this bound.
    """

    def __init__(self, subscription: DemoSubscription, tally: RowTally) -> None:
        demand = subscription.document.demand
        selected = [p for p in SCHEMA.wire if subscription.selects(p.name)]
        self.subscription = subscription
        self.plants = {plant.name: plant for plant in map(PlantEvents, range(PLANTS))}
        self.result = CheckResult()
        self._tally = tally
        self._tolerances = {p.name: float(tolerance_of(SCHEMA, p, demand)) for p in selected}
        self._measured_tolerances = {p.name: self._tolerances[p.name] for p in selected if p.role is Role.MEASUREMENT}
        self._expected_after: Mapping[str, int] = {}
        self._last_ordinal: dict[str, int] = {}
        self._last_event: dict[str, Event] = {}
        self._plants_with_tolerance: set[str] = set()
        """plants whose publishers have applied the tolerance of the subscription"""

    def start(self, expected_after: Mapping[str, int]) -> None:
        """Expect all events of each plant after an ordinal. Earlier events may be delivered, too."""
        self._expected_after = expected_after

    def receive(self, event: Event) -> Mapping[str, Any] | None:
        """Check a delivered event. Return the generated event, None for an unknown plant or a repeated event."""
        name, ordinal = str(event.source[0]), event.ordinal
        previous = self._last_ordinal.get(name, 0)
        if name not in self.plants or ordinal <= previous:
            self.result.add_violation(f"event {ordinal} of {name} was delivered after event {previous}")
            return None
        self._check_undelivered(name, ordinal - 1)
        self._last_ordinal[name] = ordinal
        self.result.checked += 1
        generated = self.plants[name].event(ordinal)
        self._check_delivered(name, event, generated)
        if self.subscription.emit == "changes":
            self._last_event[name] = event
        return generated

    def is_complete(self, last: Mapping[str, int]) -> bool:
        """Return whether all events up to the last one of each plant were delivered."""
        return all(self._last_delivered(name, ordinal) == ordinal for name, ordinal in last.items())

    def finish(self, last: Mapping[str, int], *, has_caught_up: bool = True) -> None:
        """Check the events that were not delivered, up to the last one of each plant.

        has_caught_up: the subscription has processed all messages; if not, every event that was not delivered is lost
        """
        for name, ordinal in last.items():
            if has_caught_up:
                self._check_undelivered(name, ordinal)
            else:
                self.result.add_lost(name, ordinal - self._last_delivered(name, ordinal))

    def _last_delivered(self, name: str, until: int) -> int:
        """Return the ordinal of the last event that was delivered or need not be delivered, at most `until`."""
        return min(until, self._last_ordinal.get(name, self._expected_after.get(name, until)))

    def _check_undelivered(self, name: str, until: int) -> None:
        """Compare the events after the last delivered one with its values. Without `emit="changes"` they are lost."""
        previous, last_event = self._last_delivered(name, until), self._last_event.get(name)
        if last_event is None:
            self.result.add_lost(name, until - previous)
            return
        for ordinal in range(previous + 1, until + 1):
            self.result.checked += 1
            if name in self._plants_with_tolerance:
                label = f"event {ordinal} of {name}, which was not delivered,"
                generated = self.plants[name].event(ordinal)
                self._check_values(label, last_event, generated, self._measured_tolerances, self._measured_tolerances)

    def _check_delivered(self, name: str, event: Event, generated: Mapping[str, Any]) -> None:
        # A virtual event is not sent but predicted. For a subscription to changes its timestamp has no guarantee.
        has_timestamp = not (event.virtual and self.subscription.emit == "changes")
        names: Iterable[str] = self._tolerances if has_timestamp else self._measured_tolerances
        bounds = {p: inf if (bound := event.bound.get(p)) is None else bound for p in names}
        if all(bounds[p] <= self._tolerances[p] for p in names):
            self._plants_with_tolerance.add(name)
        tolerances = self._tolerances if name in self._plants_with_tolerance else {}
        self.result.early += not tolerances
        label = f"event {event.ordinal} of {name}"
        self._check_values(label, event, generated, bounds, tolerances)
        if not all(map(self.subscription.selects, event)):
            self.result.add_violation(f"{label} has properties that were not requested")

    def _check_values(
        self,
        label: str,
        event: Event,
        generated: Mapping[str, Any],
        bounds: Mapping[str, float],
        tolerances: Mapping[str, float],
    ) -> None:
        """Compare values with the generated ones. Without `tolerances` only bounds are checked, errors not counted."""
        violations = []
        for p, bound in bounds.items():
            error = _error(p, event.get(p), generated.get(p))
            tolerance = tolerances.get(p, inf)
            if error > bound:
                violations.append(f"{p} of {label} differs by {error:g}, its bound is {bound:g}")
            elif bound > tolerance:
                violations.append(f"{p} of {label} has the bound {bound:g}, requested was {tolerance:g}")
            if tolerances:
                self._tally.error(p, error, min(bound, tolerance))
        if violations:
            self.result.add_violation(violations[0])


def _error(name: str, value: Any, generated: Any) -> float:
    """Return the difference of two values, in seconds for timestamps; infinity for different values of other kinds."""
    if value == generated:
        return 0.0
    if name == "timestamp":
        ticks, generated_ticks = _read_ticks(value), _read_ticks(generated)
        return inf if ticks is None or generated_ticks is None else abs(ticks - generated_ticks) / _TICKS_PER_SECOND
    if isinstance(value, str | bool | None) or isinstance(generated, str | bool | None):
        return inf
    return number_error(value, generated)
