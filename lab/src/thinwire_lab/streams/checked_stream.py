"""A link from end to end in one process: events go in at their own times, everything that comes out is checked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from thinwire.codec import Counts, StreamConfig, StreamDecoder, StreamEncoder
from thinwire.errors import SchemaError
from thinwire.schema import Event, Schema
from thinwire.schema.timestamps import reader, ticks_per_second
from thinwire.testing.guarantee_checker import GuaranteeChecker
from thinwire.wire import FrameKind

KIND = 0x0F
"""the bits of a frame's first byte that name its kind"""


class CheckedLink:
    """A publisher and a subscriber back to back.

    Time is the events' own. Between two events the publisher is asked at every `max_silence` what is due, as a live
    one would be, so that heartbeats of a quiet hour are counted like those of a busy one.

    >>> from thinwire.schema import Property
    >>> rooms = Schema("rooms", [Property("room", "string", "dimension"), Property("t", "number", step="0.1")])
    >>> link = CheckedLink(rooms, StreamConfig(), start=0.0)
    >>> for second, heat in enumerate([20.5, 20.5, 20.6]):
    ...     link.publish({"room": "11.1", "t": heat}, now=float(second))
    >>> link.close()
    >>> link.checker.checked, link.checker.is_guarantee_met, link.counts.events
    (3, True, 3)
    """

    def __init__(self, schema: Schema, config: StreamConfig, *, start: float) -> None:
        self.config = config
        self.checker = GuaranteeChecker(schema, config.demand)
        self.publisher = StreamEncoder(schema, config, now=start)
        self.subscriber = StreamDecoder([schema])
        self.switches = 0
        self._now = start
        self._carry(self.publisher.start(start))

    def publish(self, event: Mapping[str, Any], now: float) -> None:
        """An event happens. Late ones are published when they come, not when they were made."""
        self._wait_until(now)
        self.checker.sent(event)
        self._carry(self.publisher.publish(event, self._now))

    def close(self) -> None:
        """Tell what is still untold."""
        self._carry(self.publisher.heartbeat(self._now))

    @property
    def counts(self) -> Counts:
        """What the publisher sent: every frame, key frames, heartbeats and switches included."""
        return self.publisher.counts

    def _wait_until(self, now: float) -> None:
        silence = self.config.max_silence
        while now - self._now > silence:
            self._now += silence
            self._carry(self.publisher.poll(self._now))
        self._now = max(now, self._now)

    def _carry(self, frames: list[bytes]) -> None:
        for frame in frames:
            self.switches += is_switch(frame)
            for delivery in self.subscriber.receive(frame, now=self._now):
                if isinstance(delivery, Event):
                    self.checker.delivered(delivery)


def is_switch(frame: bytes) -> bool:
    """Does this frame change a predictor? Without any, `auto` was the predictor it began with."""
    return frame[0] & KIND == FrameKind.SWITCH


def seconds_of(schema: Schema) -> Callable[[Mapping[str, Any]], float]:
    """The function from an event to its time, for schemas whose timestamp is a text or a datetime.

    >>> from thinwire.demo import building
    >>> seconds_of(building.schema())({"timestamp": "1970-01-01T00:01:00.500Z"})
    60.5
    """
    stamp = schema.time
    per_second = ticks_per_second(stamp.form) if stamp else None
    if stamp is None or stamp.form is None or per_second is None:
        raise SchemaError("the form of the timestamp does not tell its unit", schema=schema.name)
    name, ticks = stamp.name, reader(stamp.form)
    return lambda event: (ticks(event[name]) or 0) / per_second
