"""Messages of a watch's log as plain JSON values, and back; what comes back is checked, whoever wrote it.

What an evaluator writes into the log of its watch, and the state that a successor reads from it.

A message carries a notification and all that has changed since the message before: what is held, the latest values,
how far each feed is worked off. The state is those messages, one after the other, and nothing else: an evaluator that
is gone is continued from its own output.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from thinwire.errors import CorruptWatchLog
from thinwire.filters.composite.condition import Condition, Quantity
from thinwire.filters.composite.feed_sequencer import Delivery, FeedPosition, Order, WatchInput

Source = tuple[WatchInput, str]


@dataclass(frozen=True)
class WatchMessage:
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
    positions: Mapping[WatchInput, FeedPosition] = field(default_factory=dict)
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
    """All that an evaluator must know to go on where a message ended; the fields are those of `WatchMessage`.

    >>> message = WatchMessage("4f", 1, order=Order(7), held={0: 12}, latest={0: (12, Order(7))})
    >>> state = WatchState("4f").advance(message)
    >>> state.number, state.held
    (1, {0: 12})
    >>> state.advance(WatchMessage("4f", 3, order=Order(9)))
    Traceback (most recent call last):
    ...
    thinwire.errors.CorruptWatchLog: watch log cannot be right: a notification is missing or doubled: number=3,
    expected=2. Start the watch anew: its subscriber is told where everything stands.
    """

    watch: str
    number: int = 0
    held: Mapping[int, int] = field(default_factory=dict)
    latest: Mapping[int, tuple[int, Order]] = field(default_factory=dict)
    positions: Mapping[WatchInput, FeedPosition] = field(default_factory=dict)
    settled: Mapping[Source, Order] = field(default_factory=dict)
    frontier: Order | None = None

    def advance(self, message: WatchMessage) -> WatchState:
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

    def to_message(self) -> WatchMessage:
        """The whole state as one message, for a log whose older messages are dropped."""
        return WatchMessage(
            self.watch,
            self.number,
            held=self.held,
            latest=self.latest,
            positions=self.positions,
            settled=self.settled,
            frontier=self.frontier,
        )


MAX_ITEMS = 100_000
"""values, feeds or sources in one message"""


def to_document(message: WatchMessage) -> dict[str, Any]:
    """A message as plain values; what is empty is left out.

    >>> from_document(to_document(WatchMessage("4f", 1, order=Order(7), held={0: 12}))) == WatchMessage(
    ...     "4f", 1, order=Order(7), held={0: 12})
    True
    """
    found: dict[str, Any] = {
        "watch": message.watch,
        "number": message.number,
        "order": _plain(message.order),
        "late": message.late,
        "conjuncts": list(message.conjuncts),
        "held": [[place, value] for place, value in message.held.items()],
        "latest": [[place, value, list(order)] for place, (value, order) in message.latest.items()],
        "positions": [[*feed, *at] for feed, at in message.positions.items()],
        "settled": [list(order) for order in message.settled.values()],
        "frontier": _plain(message.frontier),
    }
    return {name: value for name, value in found.items() if value or name == "number"}


def from_document(document: Any) -> WatchMessage:
    """The message again."""
    try:
        return _message(document)
    except (TypeError, ValueError, KeyError, AttributeError) as problem:
        raise CorruptWatchLog(f"not a message: {type(problem).__name__}: {problem}") from None


def _message(document: Mapping[str, Any]) -> WatchMessage:
    settled = [_order(fields) for fields in _items(document, "settled")]
    return WatchMessage(
        _text(document["watch"]),
        _whole(document["number"]),
        order=_optional(document.get("order")),
        late=bool(document.get("late")),
        conjuncts=tuple(_whole(place) for place in _items(document, "conjuncts")),
        held={_whole(place): _whole(value) for place, value in _items(document, "held")},
        latest={_whole(place): (_whole(value), _order(of)) for place, value, of in _items(document, "latest")},
        positions=dict(_position(*fields) for fields in _items(document, "positions")),
        settled={(order.feed, order.source): order for order in settled},
        frontier=_optional(document.get("frontier")),
    )


def _plain(order: Order | None) -> list[Any] | None:
    return None if order is None else list(order)


def _optional(fields: Any) -> Order | None:
    return None if fields is None else _order(fields)


def _order(fields: Any) -> Order:
    time, topic, publisher, life, ordinal, source = fields
    return Order(_whole(time), _text(topic), _text(publisher), _whole(life), _whole(ordinal), _text(source))


def _position(topic: Any, publisher: Any, offset: Any, complete: Any) -> tuple[WatchInput, FeedPosition]:
    at = FeedPosition(*(None if number is None else _whole(number) for number in (offset, complete)))
    return WatchInput(_text(topic), _text(publisher)), at


def _items(document: Mapping[str, Any], name: str) -> list[Any]:
    found = document.get(name, [])
    if not isinstance(found, list) or len(found) > MAX_ITEMS:
        raise ValueError(f"{name} is a list of at most {MAX_ITEMS} items")
    return found


def _whole(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(f"{value!r} is no whole number")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is no text")
    return value
