"""Where a watch reads the logs of its topics from: where it begins, and where it goes on.

The records of a watch's log: notifications as they come, and now and then the whole state.

A record is JSON. Under `.d`: the messages of a moment, what was told beside them, and how far the logs of the topics
were read by then. Under `.k`: the state, from which a successor goes on, and a newcomer learns where everything stands.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from thinwire.brokers.protocol import Broker
from thinwire.errors import CorruptWatchLog, WatchFailed
from thinwire.filters.composite import FeedPosition, WatchInput, WatchMessage, WatchState, from_document, to_document
from thinwire.topics.log_position import Publishers
from thinwire.topics.names import log_of
from thinwire.topics.watches.watch_documents import MAX_NOTICES, WatchNotice, WatchStart


class WatchProgress(NamedTuple):
    """How far a watch has come.

    state: what it has told; begins: the last offset of each topic's log before the watch began
    read: up to this offset of each log, every publisher that spoke is in the state
    """

    state: WatchState
    begins: Mapping[str, int]
    read: Mapping[str, int]


class TopicPosition(NamedTuple):
    """Where to read one topic's log on: the offset of the first message, up to where each publisher is worked off
    already, and whether messages are no longer kept that were not."""

    first: int
    worked_off: Mapping[str, int]
    is_cut: bool = False


async def first_place(broker: Broker, topic: str, start: WatchStart) -> TopicPosition:
    """Where a watch begins that is new."""
    span = await broker.span(log_of(topic))
    if not isinstance(start, str):
        return TopicPosition(await broker.offset_at(log_of(topic), start), {})
    return TopicPosition(span.first if start == "earliest" else span.last + 1, {})


async def next_place(broker: Broker, topic: str, progress: WatchProgress) -> TopicPosition:
    """Where a watch goes on: at the first message that is not worked off."""
    span = await broker.span(log_of(topic))
    newest = (await Publishers.find(broker, topic)).newest
    done = {name: find_processed_offset(progress, WatchInput(topic, name)) for name in newest}
    first = min((done[name] + 1 for name, last in newest.items() if last > done[name]), default=span.last + 1)
    return TopicPosition(max(first, span.first), done, first < span.first)


def find_processed_offset(progress: WatchProgress, feed: WatchInput) -> int:
    """The offset up to which a publisher's messages are worked off.

    >>> positions = {WatchInput("rooms", "p1"): FeedPosition(12), WatchInput("rooms", "p2"): FeedPosition()}
    >>> state = WatchState("4f", positions=positions)
    >>> progress = WatchProgress(state, begins={"rooms": 10}, read={"rooms": 20})
    >>> [find_processed_offset(progress, WatchInput("rooms", name)) for name in ("p1", "p2", "p3")]
    [12, 20, 20]
    """
    offset = progress.state.positions.get(feed, FeedPosition()).offset
    return progress.read[feed.topic] if offset is None else max(offset, progress.begins[feed.topic])


MAX_RECORD = 65_536
"""bytes of messages in one record; a larger message goes alone"""
MAX_MESSAGES = 4_096


class Record(NamedTuple):
    """Messages of a moment, notices beside them, and how far each topic's log was read."""

    messages: Sequence[WatchMessage]
    notices: Sequence[WatchNotice]
    read: Mapping[str, int]


def records(messages: Sequence[WatchMessage], notices: Sequence[WatchNotice], limit: int) -> Iterator[list[Any]]:
    """Messages, as plain values, in parts that each fit a record; what is told beside them comes with the first."""
    told, part, size = [notice.written() for notice in notices], list[Any](), 0
    for message in messages:
        document = to_document(message)
        length = len(json.dumps(document))
        if part and (size + length > limit or len(part) >= MAX_MESSAGES):
            yield [part, told]
            told, part, size = [], [], 0
        part.append(document)
        size += length
    if part or told:
        yield [part, told]


def write_record(part: list[Any], read: Mapping[str, int], limit: int) -> bytes:
    """A record as it is stored."""
    messages, notices = part
    return _written({"messages": messages, "notices": notices, "read": dict(read)}, limit)


def write_state(progress: WatchProgress, limit: int) -> bytes:
    """The whole state as it is stored."""
    state = to_document(progress.state.to_message())
    return _written({"state": state, "begins": dict(progress.begins), "read": dict(progress.read)}, limit)


def read_record(payload: bytes) -> Record:
    """A record under `.d`."""
    document = _object(payload)
    messages, notices = _list(document, "messages", MAX_MESSAGES), _list(document, "notices", MAX_NOTICES)
    return Record(
        [from_document(one) for one in messages], [WatchNotice.read(one) for one in notices], _offsets(document, "read")
    )


def read_state(payload: bytes, fingerprint: str) -> WatchProgress:
    """A record under `.k`."""
    document = _object(payload)
    message = from_document(document.get("state"))
    state = WatchState(fingerprint, number=message.number).advance(message)
    return WatchProgress(state, _offsets(document, "begins"), _offsets(document, "read"))


def _written(document: Mapping[str, Any], limit: int) -> bytes:
    payload = json.dumps(document, separators=(",", ":")).encode()
    if len(payload) > limit:
        detail = "its state is larger than a message of the broker may be: name fewer sources, or split the watch"
        raise WatchFailed(detail, size=len(payload), limit=limit)
    return payload


def _object(payload: bytes) -> dict[str, Any]:
    try:
        document = json.loads(payload)
    except (ValueError, RecursionError):
        raise CorruptWatchLog("a record that is not JSON") from None
    if not isinstance(document, dict):
        raise CorruptWatchLog("a record is a JSON object")
    return document


def _list(document: Mapping[str, Any], name: str, most: int) -> list[Any]:
    found = document.get(name, [])
    if not isinstance(found, list) or len(found) > most:
        raise CorruptWatchLog(f"{name} is a list of at most {most}")
    return found


def _offsets(document: Mapping[str, Any], name: str) -> dict[str, int]:
    found = document.get(name)
    if not isinstance(found, dict) or not all(type(offset) is int and offset >= 0 for offset in found.values()):
        raise CorruptWatchLog(f"{name} has an offset for each topic")
    return found
