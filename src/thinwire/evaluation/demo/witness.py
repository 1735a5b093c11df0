"""Whoever sees what a subscriber is handed and knows what the plants really said.

>>> from thinwire.workload.samples import building
>>> witness = Witness(0.5, Tally("story"))
>>> witness.begin(whole=True)
>>> truth = Plant(0).event(1)
>>> seen = truth | {"hot_tank_1": truth["hot_tank_1"] + 0.4}
>>> bound = {p.name: 0.5 if p.kind == "number" else 0.0 for p in building.schema().wire}
>>> witness.take(Event(seen, bound=bound, source=(truth["plant"], truth["controller"]), ordinal=1)) == truth
True
>>> witness.checked, witness.broken, witness.lost
(1, 0, 0)
"""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from typing import Any

from thinwire.evaluation.checking import SLACK
from thinwire.evaluation.demo.plants import PLANTS, Plant
from thinwire.events import Event
from thinwire.ledger import Tally
from thinwire.reduction import Demand
from thinwire.reduction.demand import tolerance_of
from thinwire.workload.samples import building


class Witness:
    """Compares every value of every event one subscriber is handed, and counts what is missing between them.

    tolerance: what the subscriber asked for

    checked, broken, lost: events compared, beyond their promise, and never handed out
    early: events handed out before the publisher knew of the tolerance. Each is within its own bound, which is wider
    last: how far each plant has come; breach: the first thing that was wrong, in words
    """

    def __init__(self, tolerance: float, tally: Tally) -> None:
        schema = building.schema()
        demand = Demand(default_tolerance=tolerance)
        self.checked = self.broken = self.lost = self.early = 0
        self.breach = ""
        self.plants = {plant.name: plant for plant in map(Plant, range(PLANTS))}
        self.last: dict[str, int] = {}
        self._tally = tally
        self._tolerances = {p.name: float(tolerance_of(schema, p, demand)) for p in schema.wire}
        self._in_force: set[str] = set()

    def begin(self, *, whole: bool) -> None:
        """Events come from now on; a whole story has the first event of every plant."""
        self.last = dict.fromkeys(self.plants, 0) if whole else {}

    def take(self, event: Event) -> Mapping[str, Any] | None:
        """An event was handed out. Returns what the plant really said; None where it said no such thing."""
        name = str(event.source[0])
        plant, ordinal = self.plants.get(name), event.ordinal
        previous = self.last.get(name, ordinal - 1)
        if plant is None or ordinal <= previous:
            self._broken(f"event {ordinal} of {name} came after event {previous}")
            return None
        self._miss(name, ordinal - previous - 1)
        self.last[name] = ordinal
        self.checked += 1
        truth = plant.event(ordinal)
        self._compare(name, event, truth)
        return truth

    def expect(self, last: Mapping[str, int]) -> None:
        """The plants have come this far and say no more: what was not handed out by now is lost."""
        for name, ordinal in last.items():
            self._miss(name, ordinal - self.last.get(name, ordinal))

    def complete(self, last: Mapping[str, int]) -> bool:
        """Has everything come that it must have? A plant it never heard of since it joined owes it nothing."""
        return all(self.last.get(name, ordinal) >= ordinal for name, ordinal in last.items())

    def _compare(self, name: str, event: Event, truth: Mapping[str, Any]) -> None:
        errors = {p: _distance(event.get(p), truth.get(p)) for p in self._tolerances}
        bounds = {p: inf if (bound := event.bound.get(p)) is None else bound for p in self._tolerances}
        wider = next((p for p, tolerance in self._tolerances.items() if bounds[p] > tolerance), None)
        beyond = next((p for p in self._tolerances if errors[p] > bounds[p]), None)
        which = f"event {event.ordinal} of {name}"
        if beyond is not None:
            self._broken(f"{beyond} of {which} is off by {errors[beyond]:g}, its bound is {bounds[beyond]:g}")
        elif wider is not None and name in self._in_force:
            self._broken(f"{wider} of {which} may be off by {bounds[wider]:g}, asked was {self._tolerances[wider]:g}")
        if wider is not None and name not in self._in_force:
            self.early += 1
            return
        self._in_force.add(name)
        for p, error in errors.items():
            self._tally.error(p, error, min(bounds[p], self._tolerances[p]))

    def _miss(self, name: str, events: int) -> None:
        if events > 0:
            self.lost += events
            self.breach = self.breach or f"{events} events of {name} were never handed out"

    def _broken(self, what: str) -> None:
        self.broken += 1
        self.breach = self.breach or what


def _distance(seen: Any, truth: Any) -> float:
    """How far apart; infinite where two values are different and have no distance."""
    if seen == truth:
        return 0.0
    if isinstance(seen, str | bool | None) or isinstance(truth, str | bool | None):
        return inf
    return max(0.0, float(abs(seen - truth) - SLACK * max(abs(seen), abs(truth))))
