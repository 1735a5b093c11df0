"""Messages of a watch's log as plain JSON values, and back; what comes back is checked, whoever wrote it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from thinwire.errors import CorruptWatchLog
from thinwire.filters.composite.feed_sequencer import Position
from thinwire.filters.composite.feed_sequencer_order import Feed, Order
from thinwire.filters.composite.watch_messages_messages import Message

MAX_ITEMS = 100_000
"""values, feeds or sources in one message"""


def to_document(message: Message) -> dict[str, Any]:
    """A message as plain values; what is empty is left out.

    >>> from_document(to_document(Message("4f", 1, order=Order(7), held={0: 12}))) == Message(
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


def from_document(document: Any) -> Message:
    """The message again."""
    try:
        return _message(document)
    except (TypeError, ValueError, KeyError, AttributeError) as problem:
        raise CorruptWatchLog(f"not a message: {type(problem).__name__}: {problem}") from None


def _message(document: Mapping[str, Any]) -> Message:
    settled = [_order(fields) for fields in _items(document, "settled")]
    return Message(
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


def _position(topic: Any, publisher: Any, offset: Any, complete: Any) -> tuple[Feed, Position]:
    at = Position(*(None if number is None else _whole(number) for number in (offset, complete)))
    return Feed(_text(topic), _text(publisher)), at


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
