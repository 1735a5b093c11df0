"""A stream encoder and decoder in one process: events are encoded at their own times, and every result is checked."""

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
"""bits of the first byte of a frame with its kind"""


class CheckedLink:
    """A stream encoder connected to a decoder.

    Time is that of the events. Between two events the encoder is polled every `max_silence`, as in a live system, so
    that heartbeats without events are counted, too.

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
        self._transfer(self.publisher.start(start))

    def publish(self, event: Mapping[str, Any], now: float) -> None:
        """Publish an event. A late event is published at the present time, not at its own."""
        self._poll_until(now)
        self.checker.sent(event)
        self._transfer(self.publisher.publish(event, self._now))

    def close(self) -> None:
        """Send a heartbeat for the suppressed events."""
        self._transfer(self.publisher.heartbeat(self._now))

    @property
    def counts(self) -> Counts:
        """Counters of the encoder: all frames, including key frames, heartbeats and switches."""
        return self.publisher.counts

    @property
    def breach(self) -> str:
        """The first violation of the guarantee as text; empty if there is none."""
        if self.checker.is_guarantee_met:
            return ""
        return f"guarantee broken: {self.checker.first_breach or 'events are missing'}"

    def _poll_until(self, now: float) -> None:
        silence = self.config.max_silence
        while now - self._now > silence:
            self._now += silence
            self._transfer(self.publisher.poll(self._now))
        self._now = max(now, self._now)

    def _transfer(self, frames: list[bytes]) -> None:
        for frame in frames:
            self.switches += is_switch(frame)
            for delivery in self.subscriber.receive(frame, now=self._now):
                if isinstance(delivery, Event):
                    self.checker.delivered(delivery)


def is_switch(frame: bytes) -> bool:
    """Return whether a frame changes a predictor."""
    return frame[0] & KIND == FrameKind.SWITCH


def seconds_of(schema: Schema) -> Callable[[Mapping[str, Any]], float]:
    """Return a function from an event to its time, for schemas whose timestamp is a text or a datetime.

    >>> from thinwire.demo import building
    >>> seconds_of(building.schema())({"timestamp": "1970-01-01T00:01:00.500Z"})
    60.5
    """
    stamp = schema.time
    per_second = ticks_per_second(stamp.form) if stamp else None
    if stamp is None or stamp.form is None or per_second is None:
        raise SchemaError("the form of the timestamp has no unit", schema=schema.name)
    name, ticks = stamp.name, reader(stamp.form)
    return lambda event: (ticks(event[name]) or 0) / per_second
