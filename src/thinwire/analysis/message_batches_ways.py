"""From frames to messages and bytes: one way for every strategy that shares a publisher's frames."""

from __future__ import annotations

from dataclasses import dataclass, fields

from thinwire.analysis.message_batches import Joiner, Message
from thinwire.analysis.publisher_run_running import Pace, Told
from thinwire.analysis.socket_bytes import Sockets
from thinwire.analysis.strategies import Bytes
from thinwire.analysis.strategies_strategy import Strategy


class Way:
    """The messages of one strategy; `sums` are payloads and socket bytes since the last `mark`."""

    def __init__(self, strategy: Strategy, topic: str, round_trip: float) -> None:
        self.strategy = strategy
        self._joiner = Joiner(strategy.linger, strategy.max_batch, round_trip=round_trip)
        self._sockets = Sockets.of_topic(topic)
        self._payload = self._link = self._messages = 0

    def take(self, told: Told, alone: list[int]) -> None:
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

    def _count(self, messages: list[Message]) -> None:
        for message in messages:
            self._payload += message.size
            self._link += self._sockets.message(message.size, idle=message.idle, key=message.alone)
        self._messages += len(messages)


@dataclass(frozen=True)
class Sums:
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
    def of(cls, pace: Pace) -> Sums:
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

    def less(self, before: Sums) -> Sums:
        """What was done since."""
        return Sums(**{f.name: getattr(self, f.name) - getattr(before, f.name) for f in fields(self)})

    @property
    def bytes(self) -> Bytes:
        """The part of it that is frames."""
        return Bytes(data=self.data, key=self.key, control=self.control, frames=self.frames)
