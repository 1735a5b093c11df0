"""Simulation of a publisher's batching: from frames to broker messages and socket bytes, with event times as the clock.

Frames are collected for `linger` seconds or up to `max_batch` bytes, and while a message is being stored, as in a
publisher's `Outbox`. The first frame of a key frame round is a message of its own. One message is stored at a time.

>>> batcher = MessageBatcher(linger=0.5, round_trip=0.25)
>>> batcher.put([0.0, 0.25, 2.0], [10, 20, 30])
>>> batcher.advance(1.0)
[BatchedMessage(time=0.5, frames=2, size=33, starts_round=False, idle=inf)]
>>> batcher.close()
[BatchedMessage(time=2.5, frames=1, size=30, starts_round=False, idle=1.75)]

`SocketBytes` counts the message to the broker, its acknowledgement, its delivery, the acknowledgements of the
subscriber (one for many messages), the headers of the first message after a pause, which fence the publisher, and the
idle heartbeats of the broker. Connecting, subscribing, pings, TLS, TCP, IP and requests to services are not counted.

>>> frames, text = SocketBytes.of_topic("building.rooms"), SocketBytes.of_json("building.rooms")
>>> frames.count_message(12), text.count_message(12)
(274, 266)
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from typing import NamedTuple

from thinwire.analysis.publisher_run import EncodedRun
from thinwire.analysis.strategies import ByteCounts, Strategy
from thinwire.brokers.nats.jetstream_api import EXPECT, EXPECT_WITHIN
from thinwire.brokers.protocol_overhead import JetStream
from thinwire.errors import ConfigError
from thinwire.topics.names import data_subject, key_subject, log_of, publisher_subjects

ROUND_TRIP = 0.001
"""seconds until the broker has acknowledged a message"""
MAX_BATCH = 65_536
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

    time: when it is sent; frames: number of frames in it; size: bytes
    starts_round: it is the first key frame of a round
    idle: seconds since the broker acknowledged the message before
    """

    time: float
    frames: int
    size: int
    starts_round: bool
    idle: float


class MessageBatcher:
    """Collects frames and returns messages.

    frame_overhead: bytes per frame in a message of several; None for the length prefixes of a frame batch
    """

    def __init__(
        self,
        linger: float,
        max_batch: int = MAX_BATCH,
        *,
        round_trip: float = ROUND_TRIP,
        frame_overhead: int | None = None,
    ) -> None:
        for name, value in (("linger", linger), ("round_trip", round_trip)):
            if not 0 <= value < math.inf:
                raise ConfigError(f"{name} must be a number of seconds, zero or more", given=value)
        self.linger = linger
        self.max_batch = max_batch
        self.round_trip = round_trip
        self.frame_overhead = frame_overhead
        self._times: list[float] = []
        self._sizes: list[int] = []
        self._round_starts: list[int] = []
        self._removed = 0
        """frames that were already sent; `_round_starts` are indexes from the first frame of the stream"""
        self._acknowledged = -math.inf

    def put(self, times: Iterable[float], sizes: Iterable[int], round_starts: Iterable[int] = ()) -> None:
        """Add frames in their order. `round_starts` are the indexes of those that begin a key frame round."""
        before = self._removed + len(self._times)
        self._round_starts += (before + index for index in round_starts)
        self._times += times
        self._sizes += sizes

    def close(self) -> list[BatchedMessage]:
        """Return the messages of all pending frames."""
        return self.advance(math.inf)

    def advance(self, now: float) -> list[BatchedMessage]:
        """Return the messages sent at or before `now`."""
        times, sizes = self._times, self._sizes
        if not times:
            return []
        total = list(accumulate(sizes, initial=0))
        padded = list(accumulate(map(self._padded_size, sizes), initial=0))
        messages: list[BatchedMessage] = []
        first, starts = 0, iter([*(index - self._removed for index in self._round_starts), len(times)])
        start = next(starts)
        while first < len(times):
            sent = self._sending_time(first, total)
            if sent > now:
                break
            end = self._end(first, sent, padded, start)
            header = _BATCH_HEADER if self.frame_overhead is None else 0
            size = sizes[first] if end == first + 1 else header + padded[end] - padded[first]
            messages.append(BatchedMessage(sent, end - first, size, first == start, sent - self._acknowledged))
            self._acknowledged = sent + self.round_trip
            if first == start:
                start = next(starts)
            first = end
        self._remove(first)
        return messages

    def _sending_time(self, first: int, total: Sequence[int]) -> float:
        """Return when the message that begins with frame `first` is sent: after the linger, or when it is full."""
        begin = max(self._acknowledged, self._times[first])
        last = bisect_left(total, total[first] + self.max_batch, lo=first) - 1
        full = self._times[last] if last < len(self._times) else math.inf
        return max(begin, min(begin + self.linger, full))

    def _end(self, first: int, sent: float, padded: Sequence[int], start: int) -> int:
        """Return the index after the last frame of the message."""
        if first == start:
            return first + 1
        present = bisect_right(self._times, sent, lo=first)
        limit = self.max_batch - _BATCH_HEADER
        end = first + 1
        if padded[present] - padded[first] <= limit - _MAX_LENGTH_PREFIX * (present - first):  # the usual case
            end = present
        else:
            used = self._sizes[first] + _MAX_LENGTH_PREFIX
            while end < present and used + self._sizes[end] + _MAX_LENGTH_PREFIX <= limit:
                used += self._sizes[end] + _MAX_LENGTH_PREFIX
                end += 1
        return max(first + 1, min(end, start))

    def _remove(self, count: int) -> None:
        del self._times[:count], self._sizes[:count]
        self._removed += count
        self._round_starts = [index for index in self._round_starts if index >= self._removed]

    def _padded_size(self, size: int) -> int:
        if self.frame_overhead is not None:
            return size + self.frame_overhead
        return size + max(1, (size.bit_length() + 6) // 7)


@dataclass
class SocketBytes:
    """The socket bytes of one publisher and one subscriber.

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
    def of_topic(cls, topic: str, publisher: str = PUBLISHER) -> SocketBytes:
        """Count the messages of a topic log."""
        data, key = data_subject(topic, publisher), key_subject(topic, publisher)
        return cls(log_of(topic), data, key, FRAME_PREFETCH // 4, publisher_subjects(topic, publisher))

    @classmethod
    def of_json(cls, topic: str, publisher: str = PUBLISHER) -> SocketBytes:
        """Count the messages of a plain JSON stream through the same client."""
        subject = f"json.{topic}.{publisher}.0"
        return cls("json_" + topic.replace(".", "~"), subject, subject, JSON_PREFETCH // 4)

    def count_message(self, size: int, *, idle: float = 0.0, is_key: bool = False) -> int:
        """Count the next message and return its bytes. `idle`: seconds since the last acknowledgement."""
        self.messages += 1
        fence = self.fence if idle >= FENCE_AFTER else ""
        digits = len(str(self.messages))
        total = _message_overhead(self.log, self.key_subject if is_key else self.subject, fence, digits, len(str(size)))
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
    headers = {EXPECT: str(number), EXPECT_WITHIN: fence} if fence else {}
    traffic = JetStream(log, _CONSUMER, number, _INBOX).traffic(subject, size, headers)
    return traffic.published + traffic.stored + traffic.delivered - 2 * size


@lru_cache(maxsize=32)
def _heartbeat_size(digits: int) -> int:
    block = _HEARTBEAT.format("1" * digits)
    return len(f"HMSG {_DELIVERED_TO} 2 {len(block)} {len(block)}\r\n{block}\r\n")


class StrategyMessages:
    """The messages of one strategy."""

    def __init__(self, strategy: Strategy, topic: str) -> None:
        self.strategy = strategy
        self._batcher = MessageBatcher(strategy.linger, strategy.max_batch)
        self._sockets = SocketBytes.of_topic(topic)
        self._counts = ByteCounts()

    def add(self, run: EncodedRun, round_starts: Sequence[int]) -> None:
        """Add frames of the publisher. `round_starts` are the indexes of those that begin a key frame round."""
        times = run.times.tolist()
        self._batcher.put(times, map(len, run.frames), round_starts)
        self._count(self._batcher.advance(times[-1]))

    def take_counts(self) -> ByteCounts:
        """Send the pending frames and return the bytes since the last call."""
        self._count(self._batcher.close())
        counts, self._counts = self._counts, ByteCounts()
        return counts

    def _count(self, messages: Sequence[BatchedMessage]) -> None:
        payload = sum(message.size for message in messages)
        link = sum(
            self._sockets.count_message(message.size, idle=message.idle, is_key=message.starts_round)
            for message in messages
        )
        self._counts += ByteCounts(message=payload, link=link, messages=len(messages))
