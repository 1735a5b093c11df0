"""Where a watch reads the logs of its topics from: where it begins, and where it goes on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from thinwire.brokers.protocol_broker import Broker
from thinwire.filters.composite import Feed, Position, WatchState
from thinwire.topics.log_position import Publishers
from thinwire.topics.names import log_of
from thinwire.topics.watches.watch_documents import WatchStart


class Progress(NamedTuple):
    """How far a watch has come.

    state: what it has told; begins: the last offset of each topic's log before the watch began
    read: up to this offset of each log, every publisher that spoke is in the state
    """

    state: WatchState
    begins: Mapping[str, int]
    read: Mapping[str, int]


class Place(NamedTuple):
    """Where to read one topic's log on: the offset of the first message, up to where each publisher is worked off
    already, and whether messages are no longer kept that were not."""

    first: int
    worked_off: Mapping[str, int]
    is_cut: bool = False


async def first_place(broker: Broker, topic: str, start: WatchStart) -> Place:
    """Where a watch begins that is new."""
    span = await broker.span(log_of(topic))
    if not isinstance(start, str):
        return Place(await broker.offset_at(log_of(topic), start), {})
    return Place(span.first if start == "earliest" else span.last + 1, {})


async def next_place(broker: Broker, topic: str, progress: Progress) -> Place:
    """Where a watch goes on: at the first message that is not worked off."""
    span = await broker.span(log_of(topic))
    newest = (await Publishers.find(broker, topic)).newest
    done = {name: worked_off(progress, Feed(topic, name)) for name in newest}
    first = min((done[name] + 1 for name, last in newest.items() if last > done[name]), default=span.last + 1)
    return Place(max(first, span.first), done, first < span.first)


def worked_off(progress: Progress, feed: Feed) -> int:
    """The offset up to which a publisher's messages are worked off.

    >>> state = WatchState("4f", positions={Feed("rooms", "p1"): Position(12), Feed("rooms", "p2"): Position()})
    >>> progress = Progress(state, begins={"rooms": 10}, read={"rooms": 20})
    >>> [worked_off(progress, Feed("rooms", name)) for name in ("p1", "p2", "p3")]
    [12, 20, 20]
    """
    offset = progress.state.positions.get(feed, Position()).offset
    return progress.read[feed.topic] if offset is None else max(offset, progress.begins[feed.topic])
