"""Simulation of a publisher's batching: from frames to broker messages and socket bytes, with event times as the clock.

Frames are collected for `linger` seconds or up to `max_batch` bytes, and while a message is being stored, as in a
publisher's `Outbox`. The frame that starts a key frame round is a message of its own. One message is stored at a time.

>>> batcher = MessageBatcher(linger=0.5)
>>> batcher.put([0.0, 0.25, 2.0], [10, 20, 30])
>>> batcher.advance(1.0)
[BatchedMessage(time=0.5, frames=2, size=33, starts_round=False, idle=inf)]
>>> batcher.advance()
[BatchedMessage(time=2.5, frames=1, size=30, starts_round=False, idle=1.999)]

`SocketByteCounter` counts the message to the broker, the broker's acknowledgement, the delivery, the subscriber's
acknowledgements (one for many messages), the fencing headers of the first message after a pause, and the broker's idle
heartbeats. It does not count connecting, subscribing, pings, TLS, TCP, IP and requests to services.

>>> frames, text = SocketByteCounter.for_topic("building.rooms"), SocketByteCounter.for_json("building.rooms")
>>> frames.count_message(12), text.count_message(12)
(274, 266)
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate, takewhile
from typing import NamedTuple

from thinwire.analysis.publisher_run import EncodedRun
from thinwire.analysis.strategies import ByteCounts, Strategy
from thinwire.brokers.nats.jetstream_api import LAST_OFFSET_HEADER, LAST_PATTERN_HEADER
from thinwire.brokers.protocol_overhead import JetStream
from thinwire.errors import ConfigError
from thinwire.topics.names import data_subject, key_subject, log_of, publisher_subjects

ROUND_TRIP = 0.001
"""seconds until the broker has acknowledged a message"""
MAX_BATCH = 65_536
"""largest number of bytes of a message with several frames"""
_BATCH_HEADER = 1
_MAX_LENGTH_PREFIX = 5
"""bytes that an outbox reserves for the length of a frame in a batch"""

PUBLISHER = "publisher"
"""a publisher name of typical length"""
FENCE_AFTER = 1.0
"""seconds without an acknowledgement after which a message of the publisher has fencing headers"""
IDLE_HEARTBEAT = 5.0
"""seconds between heartbeats of an idle broker"""
FRAME_PREFETCH, JSON_PREFETCH = 256, 1024
"""messages in flight to a subscriber, which acknowledges after a quarter of them"""

_CONSUMER, _INBOX = "x" * 5, "_INBOX." + "x" * 8 + "." + "x" * 4
_DELIVERED_TO = "_INBOX." + "x" * 8 + ".d.xx"
_HEARTBEAT = "NATS/1.0 100 Idle Heartbeat\r\nNats-Last-Consumer: {0}\r\nNats-Last-Stream: {0}\r\n\r\n"


class BatchedMessage(NamedTuple):
    """A message to the broker.

    time: time at which the message is sent; frames: number of its frames; size: bytes of its payload
    starts_round: whether the message is the first key frame of a round
    idle: seconds since the broker acknowledged the previous message
    """

    time: float
    frames: int
    size: int
    starts_round: bool
    idle: float


class MessageBatcher:
    """Collects frames and returns messages.

    linger: seconds to collect frames; max_batch: largest number of bytes of a message with several frames
    frame_overhead: bytes added per frame in a message with several frames; None for length prefixes
    """

    def __init__(self, linger: float, max_batch: int = MAX_BATCH, *, frame_overhead: int | None = None) -> None:
        if not 0 <= linger < math.inf:
            raise ConfigError("linger must be a number of seconds, zero or more", linger=linger)
        self.linger = linger
        self.max_batch = max_batch
        self.frame_overhead = frame_overhead
        self._times: list[float] = []
        self._sizes: list[int] = []
        self._round_starts: list[int] = []
        """frames that start a key frame round, as indexes from the first frame of the stream"""
        self._removed = 0
        """number of frames that were already sent"""
        self._acknowledged = -math.inf

    def put(self, times: Iterable[float], sizes: Iterable[int], round_starts: Iterable[int] = ()) -> None:
        """Add frames in their order. `round_starts`: indexes of the frames that start a key frame round."""
        earlier = self._removed + len(self._times)
        self._round_starts += (earlier + index for index in round_starts)
        self._times += times
        self._sizes += sizes

    def advance(self, now: float = math.inf) -> list[BatchedMessage]:
        """Return the messages sent at or before `now`, by default those of all pending frames."""
        times, sizes = self._times, self._sizes
        if not times:
            return []
        frame_ends = list(accumulate(sizes, initial=0))
        batch_ends = list(accumulate(map(self._size_in_batch, sizes), initial=0))
        messages: list[BatchedMessage] = []
        first, round_starts = 0, iter([*(index - self._removed for index in self._round_starts), len(times)])
        round_start = next(round_starts)
        while first < len(times):
            sent = self._sending_time(first, frame_ends)
            if sent > now:
                break
            end = self._message_end(first, sent, batch_ends, round_start)
            header = _BATCH_HEADER if self.frame_overhead is None else 0
            size = sizes[first] if end == first + 1 else header + batch_ends[end] - batch_ends[first]
            messages.append(BatchedMessage(sent, end - first, size, first == round_start, sent - self._acknowledged))
            self._acknowledged = sent + ROUND_TRIP
            if first == round_start:
                round_start = next(round_starts)
            first = end
        del times[:first], sizes[:first]
        self._removed += first
        self._round_starts = [index for index in self._round_starts if index >= self._removed]
        return messages

    def _sending_time(self, first: int, frame_ends: Sequence[int]) -> float:
        """Return the time at which the message from frame `first` on is sent: after the linger, or when it is full."""
        begin = max(self._acknowledged, self._times[first])
        last = bisect_left(frame_ends, frame_ends[first] + self.max_batch, lo=first) - 1
        full = self._times[last] if last < len(self._times) else math.inf
        return max(begin, min(begin + self.linger, full))

    def _message_end(self, first: int, sent: float, batch_ends: Sequence[int], round_start: int) -> int:
        """Return the index after the last frame of the message that has frame `first` and is sent at `sent`.

        round_start: index of the next frame that starts a key frame round
        """
        if first == round_start:
            return first + 1
        end = bisect_right(self._times, sent, lo=first)
        limit = self.max_batch - _BATCH_HEADER
        # Usually all present frames fit.
        if batch_ends[end] - batch_ends[first] > limit - _MAX_LENGTH_PREFIX * (end - first):
            reserved = accumulate(size + _MAX_LENGTH_PREFIX for size in self._sizes[first:end])
            end = first + sum(1 for _ in takewhile(limit.__ge__, reserved))
        return max(first + 1, min(end, round_start))

    def _size_in_batch(self, size: int) -> int:
        if self.frame_overhead is not None:
            return size + self.frame_overhead
        return size + max(1, (size.bit_length() + 6) // 7)


@dataclass
class SocketByteCounter:
    """Counts the bytes on the sockets of one publisher and one subscriber.

    key_subject: subject of the messages that start a key frame round; subject: subject of the other messages
    acknowledge_every: messages per acknowledgement of the subscriber
    fence: the subjects in the fencing headers after a pause; "" without fencing
    messages: number of messages so far, because the protocol contains message numbers
    """

    log: str
    subject: str
    key_subject: str
    acknowledge_every: int
    fence: str = ""
    messages: int = 0

    @classmethod
    def for_topic(cls, topic: str) -> SocketByteCounter:
        """Return a counter of the messages of a topic log."""
        data, key = data_subject(topic, PUBLISHER), key_subject(topic, PUBLISHER)
        return cls(log_of(topic), data, key, FRAME_PREFETCH // 4, publisher_subjects(topic, PUBLISHER))

    @classmethod
    def for_json(cls, topic: str) -> SocketByteCounter:
        """Return a counter of messages of plain JSON that use the same client and broker."""
        subject = f"json.{topic}.{PUBLISHER}.0"
        return cls("json_" + topic.replace(".", "~"), subject, subject, JSON_PREFETCH // 4)

    def count_message(self, size: int, *, idle: float = 0.0, starts_round: bool = False) -> int:
        """Count the next message, with a payload of `size` bytes, and return its bytes on both sockets.

        idle, starts_round: as in `BatchedMessage`
        """
        self.messages += 1
        fence = self.fence if idle >= FENCE_AFTER else ""
        digits = len(str(self.messages))
        total = _message_overhead(
            self.log, self.key_subject if starts_round else self.subject, fence, digits, len(str(size))
        )
        if not self.messages % self.acknowledge_every:
            number = self.messages
            total += len(f"PUB $JS.ACK.{self.log}.{_CONSUMER}.1.{number}.{number}.0.0 0\r\n\r\n")
        if idle >= IDLE_HEARTBEAT and math.isfinite(idle):
            total += int(idle // IDLE_HEARTBEAT) * _heartbeat_size(digits)
        return total + 2 * size


@lru_cache(maxsize=4096)
def _message_overhead(log: str, subject: str, fence: str, digits: int, size_digits: int) -> int:
    """Return the bytes of a message without its payload, which is sent twice."""
    number = 10 ** (digits - 1)
    size = 10 ** (size_digits - 1) if size_digits > 1 else 0
    headers = {LAST_OFFSET_HEADER: str(number), LAST_PATTERN_HEADER: fence} if fence else {}
    traffic = JetStream(log, _CONSUMER, number, _INBOX).traffic(subject, size, headers)
    return traffic.published + traffic.stored + traffic.delivered - 2 * size


@lru_cache(maxsize=32)
def _heartbeat_size(digits: int) -> int:
    block = _HEARTBEAT.format("1" * digits)
    return len(f"HMSG {_DELIVERED_TO} 2 {len(block)} {len(block)}\r\n{block}\r\n")


class StrategyMessages:
    """Counts the messages and bytes of one strategy."""

    def __init__(self, strategy: Strategy, topic: str) -> None:
        self.strategy = strategy
        self._batcher = MessageBatcher(strategy.linger, strategy.max_batch)
        self._sockets = SocketByteCounter.for_topic(topic)
        self._counts = ByteCounts()

    def add(self, run: EncodedRun, round_starts: Sequence[int]) -> None:
        """Add frames of the publisher. `round_starts`: indexes of the frames that start a key frame round."""
        times = run.times.tolist()
        self._batcher.put(times, map(len, run.frames), round_starts)
        self._count(self._batcher.advance(times[-1]))

    def flush(self) -> ByteCounts:
        """Send the pending frames and return the bytes since the last call."""
        self._count(self._batcher.advance())
        counts, self._counts = self._counts, ByteCounts()
        return counts

    def _count(self, messages: Sequence[BatchedMessage]) -> None:
        payload = sum(message.size for message in messages)
        link = sum(
            self._sockets.count_message(message.size, idle=message.idle, starts_round=message.starts_round)
            for message in messages
        )
        self._counts += ByteCounts(message=payload, link=link, messages=len(messages))
