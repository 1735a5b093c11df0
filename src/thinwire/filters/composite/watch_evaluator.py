"""A watch over logs: entries of several feeds in, messages of the watch's own log out.

It may die at any place. Whoever writes its messages, each behind the one before or not at all, and begins anew with the
state that they come to, notifies exactly as if nothing had happened: nothing is missed, nothing comes twice.

One composite subscription, evaluated behind every event.

For each quantity there are two numbers: its latest value, and the one the subscriber holds. A predicate is true while
they are further apart than its radius; a quantity of which the subscriber holds nothing has moved as soon as it is
known. When the condition is true, exactly the quantities of the conjuncts that are true are delivered, all at once, and
held from then on. So behind every event the condition is false again.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from operator import index

from thinwire.errors import CorruptWatchLog
from thinwire.filters.composite.condition import Condition, Quantity, Radius
from thinwire.filters.composite.feed_sequencer import (
    Delivery,
    EventReadings,
    LatePolicy,
    LogEntry,
    Order,
    Released,
    Sequencer,
    WatchInput,
)
from thinwire.filters.composite.watch_messages import Source, WatchMessage, WatchState


class WatchEvaluator:
    """A condition and what is known of its quantities.

    held: what the subscriber holds already; latest: the values that are known already (what is held, where not given)
    number: of the last delivery

    >>> from thinwire.filters.composite import And, Predicate
    >>> a, b = Quantity("a", (), "x"), Quantity("b", (), "x")
    >>> watch = WatchEvaluator(Condition.of(And((Predicate(a, Radius(1)), Predicate(b, Radius(1))))))
    >>> watch.offer(a, 10, Order(1))                          # nothing is known of b
    >>> {str(q): value for q, value in watch.offer(b, 20, Order(2)).values.items()}
    {'a[].x': 10, 'b[].x': 20}
    >>> watch.offer(a, 15, Order(3))                          # b has not moved
    >>> {str(q): value for q, value in watch.offer(b, 18, Order(4)).values.items()}
    {'a[].x': 15, 'b[].x': 18}
    """

    def __init__(
        self,
        condition: Condition,
        held: Mapping[Quantity, int] | None = None,
        latest: Mapping[Quantity, int] | None = None,
        number: int = 0,
    ) -> None:
        self.condition = condition
        self.number = number
        known = {**(held or {}), **(latest or {})}
        self._held = [(held or {}).get(quantity) for quantity in condition.quantities]
        self._latest = [known.get(quantity) for quantity in condition.quantities]
        self._slots: Sequence[int] = range(len(self._latest))

    def share(self, latest: list[int | None], slots: Sequence[int]) -> None:
        """From now on look at values that others look at too: those at these places, in the condition's order."""
        self._latest, self._slots = latest, slots

    @property
    def held(self) -> dict[Quantity, int]:
        """What the subscriber holds."""
        return self._known(self._held)

    @property
    def latest(self) -> dict[Quantity, int]:
        """The last value of each quantity."""
        return self._known([self._latest[slot] for slot in self._slots])

    def offer(self, quantity: Quantity, value: int, order: Order) -> Delivery | None:
        """An event of one quantity."""
        return self.offer_all({quantity: value}, order)

    def offer_all(self, values: Mapping[Quantity, int], order: Order, late: bool = False) -> Delivery | None:
        """An event of several quantities, or all events of one time: the condition is looked at once, behind them.

        Quantities that the condition does not speak of are passed over.
        """
        true = self._true(self.note(values))
        return self.deliver_conjuncts(true, order, late) if true else None

    def note(self, values: Mapping[Quantity, int]) -> list[int]:
        """Take values without looking at the condition; the places of those it speaks of."""
        places = self.condition.places
        changed = {places[quantity]: index(value) for quantity, value in values.items() if quantity in places}
        for place, value in changed.items():
            self._latest[self._slots[place]] = value
        return list(changed)

    def is_outside(self, place: int, radius: Radius) -> bool:
        """Has a quantity moved further than the radius from what is held?"""
        latest, held = self._latest[self._slots[place]], self._held[place]
        if latest is None or held is None:
            return latest is not None
        return abs(latest - held) > radius.around(held)

    def interval(self, place: int, radius: Radius) -> tuple[int, int] | None:
        """The values of a quantity that are no news, both ends included; None where every value is."""
        held = self._held[place]
        return None if held is None else (held - radius.around(held), held + radius.around(held))

    def deliver_conjuncts(self, true: Iterable[int], order: Order, late: bool = False) -> Delivery:
        """Deliver what these conjuncts speak of; it is held from now on."""
        conjuncts = tuple(sorted(true))
        places = sorted({place for at in conjuncts for place, _ in self.condition.conjuncts[at]})
        for place in places:
            self._held[place] = self._latest[self._slots[place]]
        self.number += 1
        told = {self.condition.quantities[place]: self._held[place] for place in places}
        values = {quantity: value for quantity, value in told.items() if value is not None}
        return Delivery(self.number, order, values, late, conjuncts)

    def _true(self, changed: Iterable[int]) -> list[int]:
        """The conjuncts that are true. Before the event none was, so it must speak of something that changed."""
        asked = sorted({at for place in changed for at in self.condition.touching[place]})
        conjuncts = self.condition.conjuncts
        return [at for at in asked if all(self.is_outside(place, radius) for place, radius in conjuncts[at])]

    def _known(self, values: Sequence[int | None]) -> dict[Quantity, int]:
        pairs = zip(self.condition.quantities, values, strict=True)
        return {quantity: value for quantity, value in pairs if value is not None}


class Evaluator:
    """One condition, looked at behind every event of its feeds, in their one order.

    state: what the log of the watch comes to; feeds are then read from behind `state.positions`
    max_delay, late_policy, ticks: as in `Sequencer`; with `ticks` the condition is looked at once for each time
    """

    def __init__(
        self,
        condition: Condition,
        state: WatchState | None = None,
        *,
        max_delay: float = math.inf,
        late_policy: LatePolicy = "apply",
        ticks: bool = False,
    ) -> None:
        self.condition = condition
        self.state = state or WatchState(condition.fingerprint)
        _check(condition, self.state)
        at = self.state
        self._sequencer = Sequencer(max_delay, late_policy, ticks, at.frontier, at.positions, at.settled.values())
        self._watch = self._resumed()
        self._orders = {place: order for place, (_, order) in at.latest.items()}
        self._changed: set[int] = set()
        self._settled: dict[Source, Order] = {}

    @property
    def deadline(self) -> float | None:
        """When `advance` has something to do although nothing arrives."""
        return self._sequencer.deadline

    @property
    def dropped(self) -> int:
        """Late readings that were forgotten, in this life."""
        return self._sequencer.dropped

    def expect(self, feeds: Iterable[WatchInput]) -> None:
        """Wait for the watermarks of these feeds too."""
        self._sequencer.expect(feeds)

    def forget(self, feed: WatchInput) -> None:
        """A feed has ended, and is no longer waited for."""
        self._sequencer.forget(feed)

    def read(self, entry: LogEntry, now: float) -> list[WatchMessage]:
        """The next message of a feed's log; in order within the feed, in any order between feeds."""
        self._sequencer.offer(entry, now)
        return self.advance(now)

    def advance(self, now: float) -> list[WatchMessage]:
        """What is to be told now, each message to be written behind the one before."""
        found = (self._look(released) for released in self._sequencer.released(now))
        return [message for message in found if message is not None]

    def bookmark(self) -> WatchMessage:
        """A message without a notification: a successor need not read again what was quiet."""
        return self._message(None)

    def _look(self, released: Released) -> WatchMessage | None:
        values: dict[Quantity, int] = {}
        for reading in released.readings:
            self._settled[reading.order.feed, reading.order.source] = reading.order
            values.update(self._newer(reading) if released.late else reading.values)
            self._note(reading, values)
        delivery = self._watch.offer_all(values, released.readings[-1].order, released.late)
        return self._message(delivery) if delivery is not None else None

    def _newer(self, reading: EventReadings) -> dict[Quantity, int]:
        """Of a late reading what another publisher of the same source has not overtaken."""
        places, orders = self.condition.places, self._orders
        return {
            quantity: value
            for quantity, value in reading.values.items()
            if quantity in places and orders.get(places[quantity], reading.order) <= reading.order
        }

    def _note(self, reading: EventReadings, values: Iterable[Quantity]) -> None:
        places = self.condition.places
        for quantity in reading.values:
            if quantity in values and quantity in places:
                self._orders[places[quantity]] = reading.order
                self._changed.add(places[quantity])

    def _message(self, delivery: Delivery | None) -> WatchMessage:
        """All that has changed since the last one; told is told."""
        places, latest = self.condition.places, self._watch.latest
        quantities = self.condition.quantities
        positions = self._sequencer.positions()
        message = WatchMessage(
            self.state.watch,
            self._watch.number,
            order=delivery.order if delivery else None,
            late=delivery.late if delivery else False,
            conjuncts=delivery.conjuncts if delivery else (),
            held={places[quantity]: value for quantity, value in delivery.values.items()} if delivery else {},
            latest={place: (latest[quantities[place]], self._orders[place]) for place in sorted(self._changed)},
            positions={feed: at for feed, at in positions.items() if self.state.positions.get(feed) != at},
            settled=dict(self._settled),
            frontier=self._sequencer.frontier,
        )
        self._changed.clear()
        self._settled.clear()
        self.state = self.state.advance(message)
        return message

    def _resumed(self) -> WatchEvaluator:
        quantities, at = self.condition.quantities, self.state
        held = {quantities[place]: value for place, value in at.held.items()}
        latest = {quantities[place]: value for place, (value, _) in at.latest.items()}
        return WatchEvaluator(self.condition, held, latest, at.number)


def _check(condition: Condition, state: WatchState) -> None:
    if state.watch != condition.fingerprint:
        raise CorruptWatchLog("state of another condition", watch=state.watch, expected=condition.fingerprint)
    count = len(condition.quantities)
    strange = next((place for place in (*state.held, *state.latest) if not 0 <= place < count), None)
    if strange is not None:
        raise CorruptWatchLog("state of a quantity that is not there", place=strange, quantities=count)
