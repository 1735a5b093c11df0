"""What an evaluator writes into the log of its watch, and the state that a successor reads from it.

A message carries a notification and all that has changed since the message before: what is held, the latest values,
how far each feed is worked off. The state is those messages, one after the other, and nothing else: an evaluator that
is gone is continued from its own output.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from thinwire.errors import CorruptWatchLog
from thinwire.filters.composite.condition import Condition
from thinwire.filters.composite.condition_predicates import Quantity
from thinwire.filters.composite.feed_sequencer import Position
from thinwire.filters.composite.feed_sequencer_order import Delivery, Feed, Order

Source = tuple[Feed, str]


@dataclass(frozen=True)
class Message:
    """One message of a watch's log.

    watch: fingerprint of the condition; number: of the last notification, this one included
    order, late: of the notification; order is None where there is none, and the message only keeps the place
    conjuncts: of the condition those that were true, by their places
    held: by place of the quantity, what is delivered, and held from now on
    latest: the latest values that changed, and of which event
    positions: feeds that went on; settled: the last event looked at of each source that went on
    frontier: the last event looked at in order
    """

    watch: str
    number: int
    order: Order | None = None
    late: bool = False
    conjuncts: tuple[int, ...] = ()
    held: Mapping[int, int] = field(default_factory=dict)
    latest: Mapping[int, tuple[int, Order]] = field(default_factory=dict)
    positions: Mapping[Feed, Position] = field(default_factory=dict)
    settled: Mapping[Source, Order] = field(default_factory=dict)
    frontier: Order | None = None

    def delivery(self, condition: Condition) -> Delivery | None:
        """The notification, for the subscriber."""
        if self.order is None:
            return None
        values: dict[Quantity, int] = {condition.quantities[place]: value for place, value in self.held.items()}
        return Delivery(self.number, self.order, values, self.late, self.conjuncts)


@dataclass(frozen=True)
class WatchState:
    """All that an evaluator must know to go on where a message ended; the fields are those of `Message`.

    >>> state = WatchState("4f").advance(Message("4f", 1, order=Order(7), held={0: 12}, latest={0: (12, Order(7))}))
    >>> state.number, state.held
    (1, {0: 12})
    >>> state.advance(Message("4f", 3, order=Order(9)))
    Traceback (most recent call last):
    ...
    thinwire.errors.CorruptWatchLog: watch log cannot be right: a notification is missing or doubled: number=3,
    expected=2. Start the watch anew: its subscriber is told where everything stands.
    """

    watch: str
    number: int = 0
    held: Mapping[int, int] = field(default_factory=dict)
    latest: Mapping[int, tuple[int, Order]] = field(default_factory=dict)
    positions: Mapping[Feed, Position] = field(default_factory=dict)
    settled: Mapping[Source, Order] = field(default_factory=dict)
    frontier: Order | None = None

    def advance(self, message: Message) -> WatchState:
        """The state behind the next message."""
        if message.watch != self.watch:
            raise CorruptWatchLog("a message of another condition", watch=message.watch, expected=self.watch)
        expected = self.number + (message.order is not None)
        if message.number != expected:
            raise CorruptWatchLog("a notification is missing or doubled", number=message.number, expected=expected)
        return replace(
            self,
            number=message.number,
            held={**self.held, **message.held},
            latest={**self.latest, **message.latest},
            positions={**self.positions, **message.positions},
            settled={**self.settled, **message.settled},
            frontier=message.frontier or self.frontier,
        )

    def to_message(self) -> Message:
        """The whole state as one message, for a log whose older messages are dropped."""
        return Message(
            self.watch,
            self.number,
            held=self.held,
            latest=self.latest,
            positions=self.positions,
            settled=self.settled,
            frontier=self.frontier,
        )
