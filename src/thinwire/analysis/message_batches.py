"""Frames into messages, as a publisher's outbox does it, in the time of the events.

Frames gather for `linger` seconds or until there are `max_batch` bytes, and while a message is on its way; the first
frame of a round of key frames stands alone. One message is on its way at a time.

>>> joiner = Joiner(linger=0.5, round_trip=0.25)
>>> joiner.put([0.0, 0.25, 2.0], [10, 20, 30])
>>> joiner.advance(1.0)
[BatchedMessage(time=0.5, frames=2, size=33, alone=False, idle=inf)]
>>> joiner.close()
[BatchedMessage(time=2.5, frames=1, size=30, alone=False, idle=1.75)]

From frames to messages and bytes: one way for every strategy that shares a publisher's frames.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from itertools import accumulate
from typing import NamedTuple

from thinwire.analysis.publisher_run import EncodedRun, TimedPublisher
from thinwire.analysis.socket_bytes import Sockets
from thinwire.analysis.strategies import Bytes, Strategy
from thinwire.errors import ConfigError

ROUND_TRIP = 0.001
"""seconds until the broker has acknowledged a message, where nobody says otherwise"""
_HEAD = 1
_LENGTH = 5
"""bytes that an outbox allows for a frame's length in a batch"""
MAX_BATCH = 65_536


class BatchedMessage(NamedTuple):
    """When it leaves, the frames in it, its bytes, whether it is the start of a round of key frames, and how many
    seconds before it the broker acknowledged the one before."""

    time: float
    frames: int
    size: int
    alone: bool
    idle: float


class Joiner:
    """Frames that wait.

    each: bytes that a frame costs beside its own when it shares a message; None: those that tell its length
    """

    def __init__(
        self,
        linger: float,
        max_batch: int = MAX_BATCH,
        *,
        round_trip: float = ROUND_TRIP,
        each: int | None = None,
    ) -> None:
        for name, value in (("linger", linger), ("round_trip", round_trip)):
            if not 0 <= value < math.inf:
                raise ConfigError(f"{name} must be a number of seconds, zero or more", given=value)
        self.linger = linger
        self.max_batch = max_batch
        self.round_trip = round_trip
        self._each = each
        self._times: list[float] = []
        self._sizes: list[int] = []
        self._alone: list[int] = []
        self._taken = 0
        """frames before the first that waits; `_alone` counts from the very first frame"""
        self._free = -math.inf

    def put(self, times: Iterable[float], sizes: Iterable[int], alone: Iterable[int] = ()) -> None:
        """Take frames in their order; `alone` are the places, among these, of those that share no message."""
        before = self._taken + len(self._times)
        self._alone += (before + place for place in alone)
        self._times += times
        self._sizes += sizes

    def advance(self, now: float) -> list[BatchedMessage]:
        """The messages that have left by now."""
        return self._leave(now)

    def close(self) -> list[BatchedMessage]:
        """All that is left."""
        return self._leave(math.inf)

    def _leave(self, now: float) -> list[BatchedMessage]:
        times, sizes = self._times, self._sizes
        if not times:
            return []
        total = list(accumulate(sizes, initial=0))
        room = list(accumulate(map(self._room, sizes), initial=0))
        messages: list[BatchedMessage] = []
        at, alone = 0, iter([*(place - self._taken for place in self._alone), len(times)])
        single = next(alone)
        while at < len(times):
            sent = self._sending(at, total)
            if sent > now:
                break
            end = self._end(at, sent, room, single)
            size = sizes[at] if end == at + 1 else (self._each is None) + room[end] - room[at]
            messages.append(BatchedMessage(sent, end - at, size, at == single, sent - self._free))
            self._free = sent + self.round_trip
            if at == single:
                single = next(alone)
            at = end
        self._forget(at)
        return messages

    def _sending(self, at: int, total: Sequence[int]) -> float:
        """When the frames that begin here leave: after the linger, or as soon as there are enough."""
        begin = max(self._free, self._times[at])
        enough = bisect_left(total, total[at] + self.max_batch, lo=at) - 1
        full = self._times[enough] if enough < len(self._times) else math.inf
        return max(begin, min(begin + self.linger, full))

    def _end(self, at: int, sent: float, room: Sequence[int], single: int) -> int:
        """The first frame that is not in this message."""
        if at == single:
            return at + 1
        come = bisect_right(self._times, sent, lo=at)
        allowed = self.max_batch - _HEAD
        end = at + 1
        if room[come] - room[at] <= allowed - _LENGTH * (come - at):  # nearly always: then nothing is counted
            end = come
        else:
            used = self._sizes[at] + _LENGTH
            while end < come and used + self._sizes[end] + _LENGTH <= allowed:
                used += self._sizes[end] + _LENGTH
                end += 1
        return max(at + 1, min(end, single))

    def _forget(self, count: int) -> None:
        del self._times[:count], self._sizes[:count]
        self._taken += count
        self._alone = [place for place in self._alone if place >= self._taken]

    def _room(self, size: int) -> int:
        if self._each is not None:
            return size + self._each
        return size + max(1, (size.bit_length() + 6) // 7)


class StrategyMessages:
    """The messages of one strategy; `sums` are payloads and socket bytes since the last `mark`."""

    def __init__(self, strategy: Strategy, topic: str, round_trip: float) -> None:
        self.strategy = strategy
        self._joiner = Joiner(strategy.linger, strategy.max_batch, round_trip=round_trip)
        self._sockets = Sockets.of_topic(topic)
        self._payload = self._link = self._messages = 0

    def take(self, told: EncodedRun, alone: list[int]) -> None:
        """Frames that a publisher made; those at the places `alone` share no message."""
        times = told.times.tolist()
        self._joiner.put(times, map(len, told.frames), alone)
        self._count(self._joiner.advance(times[-1]))

    def mark(self) -> Bytes:
        """Everything since the last mark; what still waits leaves now."""
        self._count(self._joiner.close())
        found = Bytes(message=self._payload, link=self._link, messages=self._messages)
        self._payload = self._link = self._messages = 0
        return found

    def _count(self, messages: list[BatchedMessage]) -> None:
        for message in messages:
            self._payload += message.size
            self._link += self._sockets.message(message.size, idle=message.idle, key=message.alone)
        self._messages += len(messages)


@dataclass(frozen=True)
class PublisherTotals:
    """What a publisher has done so far."""

    events: int = 0
    rejected: int = 0
    suppressed_events: int = 0
    suppressed_values: int = 0
    data: int = 0
    key: int = 0
    control: int = 0
    frames: int = 0

    @classmethod
    def of(cls, pace: TimedPublisher) -> PublisherTotals:
        """The counts of a publisher at work."""
        publisher, counts = pace.publisher, pace.publisher.counts
        return cls(
            events=counts.events,
            rejected=counts.rejected,
            suppressed_events=publisher.suppressed_events,
            suppressed_values=publisher.suppressed_values,
            data=counts.data_bytes,
            key=counts.key_bytes,
            control=counts.control_bytes,
            frames=counts.frames,
        )

    def less(self, before: PublisherTotals) -> PublisherTotals:
        """What was done since."""
        return PublisherTotals(**{f.name: getattr(self, f.name) - getattr(before, f.name) for f in fields(self)})

    @property
    def bytes(self) -> Bytes:
        """The part of it that is frames."""
        return Bytes(data=self.data, key=self.key, control=self.control, frames=self.frames)
