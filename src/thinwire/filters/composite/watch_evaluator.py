"""Evaluation of a composite subscription after every event.

`WatchEvaluator` keeps two values of each quantity: the latest, and the one that the subscriber holds. A predicate is
true while their distance exceeds its radius; a quantity without a held value has moved as soon as it has a value. When
the condition is true, the quantities of the true conjuncts are delivered together and held afterwards, so the condition
is false again after every event.

`Evaluator` reads the logs of several feeds and returns messages for the log of the watch. If these messages are written
in order and a successor starts from the state that they define, every notification is sent exactly once.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from operator import index as as_integer

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
    """A condition with the latest and the held values of its quantities.

    held: values that the subscriber holds
    latest: known values; `held` where not given
    number: of the last delivery

    >>> from thinwire.filters.composite.condition import Predicate
    >>> from thinwire.filters.composite.expression import And
    >>> a, b = Quantity("a", (), "x"), Quantity("b", (), "x")
    >>> watch = WatchEvaluator(Condition.of(And((Predicate(a, Radius(1)), Predicate(b, Radius(1))))))
    >>> watch.offer(a, 10, Order(1))                          # b has no value yet
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

    @property
    def held(self) -> dict[Quantity, int]:
        """The values that the subscriber holds."""
        return self._present(self._held)

    @property
    def latest(self) -> dict[Quantity, int]:
        """The latest value of each quantity."""
        return self._present(self._latest)

    def offer(self, quantity: Quantity, value: int, order: Order) -> Delivery | None:
        """Apply an event of one quantity."""
        return self.offer_all({quantity: value}, order)

    def offer_all(self, values: Mapping[Quantity, int], order: Order, late: bool = False) -> Delivery | None:
        """Apply an event of several quantities, or all events of one time, and evaluate the condition once.

        Quantities that are not in the condition are ignored.
        """
        indexes = self.condition.indexes
        changed = {indexes[quantity]: as_integer(value) for quantity, value in values.items() if quantity in indexes}
        for index, value in changed.items():
            self._latest[index] = value
        true = self._true_conjuncts(changed)
        return self._deliver(true, order, late) if true else None

    def is_outside(self, index: int, radius: Radius) -> bool:
        """Return whether a quantity has moved further than `radius` from its held value."""
        latest, held = self._latest[index], self._held[index]
        if latest is None or held is None:
            return latest is not None
        return abs(latest - held) > radius.around(held)

    def _deliver(self, conjuncts: tuple[int, ...], order: Order, late: bool) -> Delivery:
        """Deliver the quantities of these conjuncts; the subscriber holds the values afterwards."""
        indexes = sorted({index for number in conjuncts for index, _ in self.condition.conjuncts[number]})
        for index in indexes:
            self._held[index] = self._latest[index]
        self.number += 1
        delivered = {self.condition.quantities[index]: self._held[index] for index in indexes}
        values = {quantity: value for quantity, value in delivered.items() if value is not None}
        return Delivery(self.number, order, values, late, conjuncts)

    def _true_conjuncts(self, changed: Iterable[int]) -> tuple[int, ...]:
        """Before the event no conjunct was true, so only those with a changed quantity can be."""
        candidates = sorted({number for index in changed for number in self.condition.conjuncts_of[index]})
        conjuncts = self.condition.conjuncts
        return tuple(n for n in candidates if all(self.is_outside(index, radius) for index, radius in conjuncts[n]))

    def _present(self, values: Sequence[int | None]) -> dict[Quantity, int]:
        pairs = zip(self.condition.quantities, values, strict=True)
        return {quantity: value for quantity, value in pairs if value is not None}


class Evaluator:
    """A condition evaluated after every event of its feeds, in one order.

    state: from the log of the watch; the feeds are then read from `state.positions`
    max_delay, late_policy, group_by_time: as in `Sequencer`; the condition is evaluated once for each released group
    """

    def __init__(
        self,
        condition: Condition,
        state: WatchState | None = None,
        *,
        max_delay: float = math.inf,
        late_policy: LatePolicy = "apply",
        group_by_time: bool = False,
    ) -> None:
        self.condition = condition
        self.state = state or WatchState(condition.fingerprint)
        _check(condition, self.state)
        frontier, positions, settled = self.state.frontier, self.state.positions, self.state.settled.values()
        self._sequencer = Sequencer(max_delay, late_policy, group_by_time, frontier, positions, settled)
        self._watch = self._restored()
        self._orders = {index: order for index, (_, order) in self.state.latest.items()}
        self._changed: set[int] = set()
        self._settled: dict[Source, Order] = {}

    @property
    def deadline(self) -> float | None:
        """Time of the next release by `advance` if no message arrives; None if no reading waits."""
        return self._sequencer.deadline

    def add_feeds(self, feeds: Iterable[WatchInput]) -> None:
        """Wait for the watermarks of these feeds."""
        self._sequencer.add_feeds(feeds)

    def end_feed(self, feed: WatchInput) -> None:
        """Stop waiting for a feed until its next message."""
        self._sequencer.end_feed(feed)

    def read(self, entry: LogEntry, now: float) -> list[WatchMessage]:
        """Process a log message; in order within a feed, in any order between feeds."""
        self._sequencer.offer(entry, now)
        return self.advance(now)

    def advance(self, now: float) -> list[WatchMessage]:
        """Return the messages due at `now`, to be written in this order."""
        found = (self._evaluate(released) for released in self._sequencer.released(now))
        return [message for message in found if message is not None]

    def position_message(self) -> WatchMessage:
        """Return a message without a notification; it stores the positions, so that a successor reads less."""
        return self._message(None)

    def _evaluate(self, released: Released) -> WatchMessage | None:
        values: dict[Quantity, int] = {}
        for reading in released.readings:
            self._settled[reading.order.feed, reading.order.source] = reading.order
            values.update(self._newer(reading) if released.late else reading.values)
            self._record_orders(reading, values)
        delivery = self._watch.offer_all(values, released.readings[-1].order, released.late)
        return self._message(delivery) if delivery is not None else None

    def _newer(self, reading: EventReadings) -> dict[Quantity, int]:
        """Values of a late reading that are newer than the latest of any publisher."""
        indexes, orders = self.condition.indexes, self._orders
        return {
            quantity: value
            for quantity, value in reading.values.items()
            if quantity in indexes and orders.get(indexes[quantity], reading.order) <= reading.order
        }

    def _record_orders(self, reading: EventReadings, values: Iterable[Quantity]) -> None:
        indexes = self.condition.indexes
        for quantity in reading.values:
            if quantity in values and quantity in indexes:
                self._orders[indexes[quantity]] = reading.order
                self._changed.add(indexes[quantity])

    def _message(self, delivery: Delivery | None) -> WatchMessage:
        """Return a message with all changes since the previous one."""
        indexes, latest = self.condition.indexes, self._watch.latest
        quantities = self.condition.quantities
        positions = self._sequencer.positions()
        message = WatchMessage(
            self.state.watch,
            self._watch.number,
            order=delivery.order if delivery else None,
            late=delivery.late if delivery else False,
            conjuncts=delivery.conjuncts if delivery else (),
            held={indexes[quantity]: value for quantity, value in delivery.values.items()} if delivery else {},
            latest={index: (latest[quantities[index]], self._orders[index]) for index in sorted(self._changed)},
            positions={feed: new for feed, new in positions.items() if self.state.positions.get(feed) != new},
            settled=dict(self._settled),
            frontier=self._sequencer.frontier,
        )
        self._changed.clear()
        self._settled.clear()
        self.state = self.state.advance(message)
        return message

    def _restored(self) -> WatchEvaluator:
        quantities, state = self.condition.quantities, self.state
        held = {quantities[index]: value for index, value in state.held.items()}
        latest = {quantities[index]: value for index, (value, _) in state.latest.items()}
        return WatchEvaluator(self.condition, held, latest, state.number)


def _check(condition: Condition, state: WatchState) -> None:
    if state.watch != condition.fingerprint:
        raise CorruptWatchLog("state of another condition", watch=state.watch, expected=condition.fingerprint)
    count = len(condition.quantities)
    unknown = next((index for index in (*state.held, *state.latest) if not 0 <= index < count), None)
    if unknown is not None:
        raise CorruptWatchLog("state of an unknown quantity", index=unknown, quantities=count)
