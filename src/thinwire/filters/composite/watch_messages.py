"""Messages of the log of a watch, the state that they define, and their JSON form.

A message contains a notification and all changes since the previous message: values held by the subscriber, latest
values, feed positions. The state of an evaluator is the sum of its messages, so a successor resumes from the log alone.
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
class WatchState:
    """State of an evaluator after a message. Quantities and conjuncts are given by their indexes in the condition.

    watch: fingerprint of the condition
    number: of the last notification
    held: delivered values, which the subscriber holds
    latest: latest values, with the event of each
    positions: of the feeds
    settled: the last processed event of each source, late ones included
    frontier: the last event in the order that was processed; events before it are late

    >>> message = WatchMessage("4f", 1, order=Order(7), held={0: 12}, latest={0: (12, Order(7))})
    >>> state = WatchState("4f").advance(message)
    >>> state.number, state.held
    (1, {0: 12})
    >>> state.advance(WatchMessage("4f", 3, order=Order(9)))
    Traceback (most recent call last):
    ...
    thinwire.errors.CorruptWatchLog: corrupt watch log: a notification is missing or repeated: number=3, expected=2.
    Restart the watch: its subscriber receives the current values.
    """

    watch: str
    number: int = 0
    held: Mapping[int, int] = field(default_factory=dict)
    latest: Mapping[int, tuple[int, Order]] = field(default_factory=dict)
    positions: Mapping[WatchInput, FeedPosition] = field(default_factory=dict)
    settled: Mapping[Source, Order] = field(default_factory=dict)
    frontier: Order | None = None

    def advance(self, message: WatchMessage) -> WatchState:
        """Return the state after the next message."""
        if message.watch != self.watch:
            raise CorruptWatchLog("a message of another condition", watch=message.watch, expected=self.watch)
        expected = self.number + (message.order is not None)
        if message.number != expected:
            raise CorruptWatchLog("a notification is missing or repeated", number=message.number, expected=expected)
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
        """Return the complete state as one message, for a log whose older messages are removed."""
        return WatchMessage(**vars(self))


@dataclass(frozen=True)
class WatchMessage(WatchState):
    """One message of the log of a watch: a notification, if there is one, and the changed parts of the state.

    order, late, conjuncts: as in `Delivery`; order is None in a message without a notification
    """

    order: Order | None = None
    late: bool = False
    conjuncts: tuple[int, ...] = ()

    def delivery(self, condition: Condition) -> Delivery | None:
        """Return the notification, if the message contains one."""
        if self.order is None:
            return None
        values: dict[Quantity, int] = {condition.quantities[index]: value for index, value in self.held.items()}
        return Delivery(self.number, self.order, values, self.late, self.conjuncts)


MAX_ITEMS = 100_000
"""values, feeds or sources in one message"""


def to_document(message: WatchMessage) -> dict[str, Any]:
    """Return a message as JSON values; empty fields are omitted.

    >>> from_document(to_document(WatchMessage("4f", 1, order=Order(7), held={0: 12}))) == WatchMessage(
    ...     "4f", 1, order=Order(7), held={0: 12})
    True
    """
    document: dict[str, Any] = {
        "watch": message.watch,
        "number": message.number,
        "order": _order_fields(message.order),
        "late": message.late,
        "conjuncts": list(message.conjuncts),
        "held": [[index, value] for index, value in message.held.items()],
        "latest": [[index, value, list(order)] for index, (value, order) in message.latest.items()],
        "positions": [[*feed, *position] for feed, position in message.positions.items()],
        "settled": [list(order) for order in message.settled.values()],
        "frontier": _order_fields(message.frontier),
    }
    return {name: value for name, value in document.items() if value or name == "number"}


def from_document(document: Any) -> WatchMessage:
    """Return the message of a document; raise `CorruptWatchLog` if it is not one."""
    try:
        return _message(document)
    except (TypeError, ValueError, KeyError, AttributeError) as problem:
        raise CorruptWatchLog(f"not a message: {type(problem).__name__}: {problem}") from None


def _message(document: Mapping[str, Any]) -> WatchMessage:
    settled = [_order(fields) for fields in _items(document, "settled")]
    return WatchMessage(
        _text(document["watch"]),
        _whole(document["number"]),
        order=_optional_order(document.get("order")),
        late=bool(document.get("late")),
        conjuncts=tuple(_whole(index) for index in _items(document, "conjuncts")),
        held={_whole(index): _whole(value) for index, value in _items(document, "held")},
        latest={_whole(index): (_whole(value), _order(order)) for index, value, order in _items(document, "latest")},
        positions=dict(_position(*fields) for fields in _items(document, "positions")),
        settled={(order.feed, order.source): order for order in settled},
        frontier=_optional_order(document.get("frontier")),
    )


def _order_fields(order: Order | None) -> list[Any] | None:
    return None if order is None else list(order)


def _optional_order(fields: Any) -> Order | None:
    return None if fields is None else _order(fields)


def _order(fields: Any) -> Order:
    time, topic, publisher, incarnation, ordinal, source = fields
    return Order(_whole(time), _text(topic), _text(publisher), _whole(incarnation), _whole(ordinal), _text(source))


def _position(topic: Any, publisher: Any, offset: Any, watermark: Any) -> tuple[WatchInput, FeedPosition]:
    position = FeedPosition(*(None if number is None else _whole(number) for number in (offset, watermark)))
    return WatchInput(_text(topic), _text(publisher)), position


def _items(document: Mapping[str, Any], name: str) -> list[Any]:
    found = document.get(name, [])
    if not isinstance(found, list) or len(found) > MAX_ITEMS:
        raise ValueError(f"{name} must be a list of at most {MAX_ITEMS} items")
    return found


def _whole(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(f"{value!r} is not an integer")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is not a text")
    return value
