"""A watch over logs: entries of several feeds in, messages of the watch's own log out.

It may die at any place. Whoever writes its messages, each behind the one before or not at all, and begins anew with the
state that they come to, notifies exactly as if nothing had happened: nothing is missed, nothing comes twice.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from thinwire.errors import CorruptWatchLog
from thinwire.filters.composite.condition import Condition
from thinwire.filters.composite.condition_predicates import Quantity
from thinwire.filters.composite.feed_sequencer_order import Delivery, Entry, Feed, Order, Reading
from thinwire.filters.composite.feed_sequencer_sequencing import LatePolicy, Released, Sequencer
from thinwire.filters.composite.watch_evaluator_watch import Watch
from thinwire.filters.composite.watch_messages_messages import Message, Source, WatchState


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

    def expect(self, feeds: Iterable[Feed]) -> None:
        """Wait for the watermarks of these feeds too."""
        self._sequencer.expect(feeds)

    def forget(self, feed: Feed) -> None:
        """A feed has ended, and is no longer waited for."""
        self._sequencer.forget(feed)

    def read(self, entry: Entry, now: float) -> list[Message]:
        """The next message of a feed's log; in order within the feed, in any order between feeds."""
        self._sequencer.offer(entry, now)
        return self.advance(now)

    def advance(self, now: float) -> list[Message]:
        """What is to be told now, each message to be written behind the one before."""
        found = (self._look(released) for released in self._sequencer.released(now))
        return [message for message in found if message is not None]

    def bookmark(self) -> Message:
        """A message without a notification: a successor need not read again what was quiet."""
        return self._message(None)

    def _look(self, released: Released) -> Message | None:
        values: dict[Quantity, int] = {}
        for reading in released.readings:
            self._settled[reading.order.feed, reading.order.source] = reading.order
            values.update(self._newer(reading) if released.late else reading.values)
            self._note(reading, values)
        delivery = self._watch.offer_all(values, released.readings[-1].order, released.late)
        return self._message(delivery) if delivery is not None else None

    def _newer(self, reading: Reading) -> dict[Quantity, int]:
        """Of a late reading what another publisher of the same source has not overtaken."""
        places, orders = self.condition.places, self._orders
        return {
            quantity: value
            for quantity, value in reading.values.items()
            if quantity in places and orders.get(places[quantity], reading.order) <= reading.order
        }

    def _note(self, reading: Reading, values: Iterable[Quantity]) -> None:
        places = self.condition.places
        for quantity in reading.values:
            if quantity in values and quantity in places:
                self._orders[places[quantity]] = reading.order
                self._changed.add(places[quantity])

    def _message(self, delivery: Delivery | None) -> Message:
        """All that has changed since the last one; told is told."""
        places, latest = self.condition.places, self._watch.latest
        quantities = self.condition.quantities
        positions = self._sequencer.positions()
        message = Message(
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

    def _resumed(self) -> Watch:
        quantities, at = self.condition.quantities, self.state
        held = {quantities[place]: value for place, value in at.held.items()}
        latest = {quantities[place]: value for place, (value, _) in at.latest.items()}
        return Watch(self.condition, held, latest, at.number)


def _check(condition: Condition, state: WatchState) -> None:
    if state.watch != condition.fingerprint:
        raise CorruptWatchLog("state of another condition", watch=state.watch, expected=condition.fingerprint)
    count = len(condition.quantities)
    strange = next((place for place in (*state.held, *state.latest) if not 0 <= place < count), None)
    if strange is not None:
        raise CorruptWatchLog("state of a quantity that is not there", place=strange, quantities=count)
