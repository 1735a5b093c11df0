"""Records of a watch's log, and the offsets at which a watch starts to read the logs of its topics.

A record is a JSON object. Under `.d` it holds the messages of one evaluation step, the notices of that step, and the
offset of each topic log up to which it was read. Under `.k` it holds the complete state, from which another evaluator
resumes and a new watcher starts.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from thinwire.brokers.protocol import Broker
from thinwire.errors import CorruptWatchLog, WatchFailed
from thinwire.filters.composite import FeedPosition, WatchInput, WatchMessage, WatchState, from_document, to_document
from thinwire.topics.log_selection import PublisherOffsets
from thinwire.topics.names import log_of
from thinwire.topics.watches.watch_documents import MAX_NOTICES, WatchNotice, WatchStart

MAX_RECORD = 65_536
"""bytes of messages in one record; a larger message is stored alone"""
MAX_MESSAGES = 4_096


class WatchStep(NamedTuple):
    """Result of one evaluation step, and content of a `.d` record.

    read: offset of each topic log up to which the last message covers all publishers
    """

    messages: Sequence[WatchMessage]
    notices: Sequence[WatchNotice]
    read: Mapping[str, int]


class WatchProgress(NamedTuple):
    """Progress of a watch, and content of a `.k` record.

    state: the evaluator's state after all stored messages
    begins: last offset of each topic log before the watch began
    read: offset of each topic log up to which `state` covers all publishers
    """

    state: WatchState
    begins: Mapping[str, int]
    read: Mapping[str, int]


class TopicStart(NamedTuple):
    """Where to read the log of one topic.

    first: offset of the first message to read
    processed: offset up to which the messages of each publisher are processed
    truncated: retention has removed messages that were not processed
    """

    first: int
    processed: Mapping[str, int]
    truncated: bool = False


async def find_start(broker: Broker, topic: str, start: WatchStart) -> TopicStart:
    """Return where a new watch starts to read a topic."""
    span = await broker.span(log_of(topic))
    if not isinstance(start, str):
        return TopicStart(await broker.offset_at(log_of(topic), start), {})
    return TopicStart(span.first if start == "earliest" else span.last + 1, {})


async def find_resume_start(broker: Broker, topic: str, progress: WatchProgress) -> TopicStart:
    """Return where an existing watch resumes: at the first message that is not processed."""
    span = await broker.span(log_of(topic))
    newest = (await PublisherOffsets.find(broker, topic)).newest
    done = {name: find_processed_offset(progress, WatchInput(topic, name)) for name in newest}
    first = min((done[name] + 1 for name, last in newest.items() if last > done[name]), default=span.last + 1)
    return TopicStart(max(first, span.first), done, first < span.first)


def find_processed_offset(progress: WatchProgress, feed: WatchInput) -> int:
    """Return the offset up to which a publisher's messages are processed.

    >>> positions = {WatchInput("rooms", "p1"): FeedPosition(12), WatchInput("rooms", "p2"): FeedPosition()}
    >>> state = WatchState("4f", positions=positions)
    >>> progress = WatchProgress(state, begins={"rooms": 10}, read={"rooms": 20})
    >>> [find_processed_offset(progress, WatchInput("rooms", name)) for name in ("p1", "p2", "p3")]
    [12, 20, 20]
    """
    offset = progress.state.positions.get(feed, FeedPosition()).offset
    return progress.read[feed.topic] if offset is None else max(offset, progress.begins[feed.topic])


def split_records(messages: Sequence[WatchMessage], notices: Sequence[WatchNotice], limit: int) -> Iterator[list[Any]]:
    """Split messages, as plain values, into parts that fit a record each. The first part contains the notices."""
    notice_values, part, size = [notice.written() for notice in notices], list[Any](), 0
    for message in messages:
        document = to_document(message)
        length = len(json.dumps(document))
        if part and (size + length > limit or len(part) >= MAX_MESSAGES):
            yield [part, notice_values]
            notice_values, part, size = [], [], 0
        part.append(document)
        size += length
    if part or notice_values:
        yield [part, notice_values]


def encode_record(part: list[Any], read: Mapping[str, int], limit: int) -> bytes:
    messages, notices = part
    return _encode({"messages": messages, "notices": notices, "read": dict(read)}, limit)


def encode_state(progress: WatchProgress, limit: int) -> bytes:
    state = to_document(progress.state.to_message())
    return _encode({"state": state, "begins": dict(progress.begins), "read": dict(progress.read)}, limit)


def decode_record(payload: bytes) -> WatchStep:
    """Decode a `.d` record."""
    document = _object(payload)
    messages, notices = _list(document, "messages", MAX_MESSAGES), _list(document, "notices", MAX_NOTICES)
    return WatchStep(
        [from_document(one) for one in messages], [WatchNotice.read(one) for one in notices], _offsets(document, "read")
    )


def decode_state(payload: bytes, fingerprint: str) -> WatchProgress:
    """Decode a `.k` record."""
    document = _object(payload)
    message = from_document(document.get("state"))
    state = WatchState(fingerprint, number=message.number).advance(message)
    return WatchProgress(state, _offsets(document, "begins"), _offsets(document, "read"))


def _encode(document: Mapping[str, Any], limit: int) -> bytes:
    payload = json.dumps(document, separators=(",", ":")).encode()
    if len(payload) > limit:
        detail = "the state is larger than the broker's message limit: watch fewer sources, or split the watch"
        raise WatchFailed(detail, size=len(payload), limit=limit)
    return payload


def _object(payload: bytes) -> dict[str, Any]:
    try:
        document = json.loads(payload)
    except (ValueError, RecursionError):
        raise CorruptWatchLog("a record is not JSON") from None
    if not isinstance(document, dict):
        raise CorruptWatchLog("a record is not a JSON object")
    return document


def _list(document: Mapping[str, Any], name: str, limit: int) -> list[Any]:
    value = document.get(name, [])
    if not isinstance(value, list) or len(value) > limit:
        raise CorruptWatchLog(f"{name} is not a list of at most {limit} items")
    return value


def _offsets(document: Mapping[str, Any], name: str) -> dict[str, int]:
    value = document.get(name)
    if not isinstance(value, dict) or not all(type(offset) is int and offset >= 0 for offset in value.values()):
        raise CorruptWatchLog(f"{name} is not a map from topic to offset")
    return value
