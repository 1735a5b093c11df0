"""An encoder connected to a decoder, so that a test is a list of events and a list of deliveries.

>>> from thinwire.schema import Property, Schema
>>> rooms = Schema("rooms", [Property("room", "string", "dimension"), Property("t", "number", step="0.1")])
>>> loop = Loop(rooms, StreamConfig(demand=Demand(tolerance={"t": 0.5}, predictor="last")), compiled=False)
>>> [dict(event) for event in loop.run([{"room": "11.1", "t": t} for t in (20.0, 20.4, 21.2)])]
[{'room': '11.1', 't': 20.0}, {'room': '11.1', 't': 20.0}, {'room': '11.1', 't': 21.1}]
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from thinwire.codec import Delivery, Demand, StreamConfig, StreamDecoder, StreamEncoder
from thinwire.codec.row_snapshot import snapshot_row
from thinwire.schema import Event, Schema

__all__ = ["Demand", "Loop"]


class Loop:
    """One stream without a transport: every frame is decoded at once and in order.

    compiled: use compiled kernels at both ends; or a pair, for the publisher and for the subscriber
    """

    def __init__(
        self,
        schema: Schema,
        config: StreamConfig | None = None,
        *,
        compiled: bool | tuple[bool, bool] = True,
        wide: bool = False,
    ) -> None:
        ends = compiled if isinstance(compiled, tuple) else (compiled, compiled)
        self.schema = schema
        self.publisher = StreamEncoder(schema, config, name="p", wide=wide, compiled=ends[0])
        self.subscriber = StreamDecoder([schema], publisher="p", compiled=ends[1])
        self.frames: list[bytes] = []
        self.deliveries: list[Delivery] = []
        self.now = 0.0
        self.pass_on(self.publisher.start(self.now))

    @property
    def events(self) -> list[Event]:
        """The events delivered so far."""
        return [item for item in self.deliveries if isinstance(item, Event)]

    def run(self, events: Iterable[Mapping[str, Any]]) -> list[Event]:
        """Publish events and a heartbeat, which reports suppressed events. Return the delivered events."""
        before = len(self.deliveries)
        for event in events:
            self.publish(event)
        self.pass_on(self.publisher.heartbeat(self.now))
        return [item for item in self.deliveries[before:] if isinstance(item, Event)]

    def publish(self, event: Mapping[str, Any]) -> list[bytes]:
        """Publish one event and decode its frames. Return the frames."""
        frames = self.publisher.publish(event, self.now)
        self.pass_on(frames)
        return frames

    def pass_on(self, frames: Iterable[bytes]) -> list[Delivery]:
        """Decode frames and return the deliveries."""
        delivered: list[Delivery] = []
        for frame in frames:
            self.frames.append(frame)
            delivered += self.subscriber.receive(frame, now=self.now)
        self.deliveries += delivered
        return delivered

    def differences(self) -> list[tuple[Any, ...]]:
        """Return the sources whose state differs between both ends after a heartbeat."""
        self.pass_on(self.publisher.heartbeat(self.now))
        reducer, decoder_state = self.publisher.frame_encoder.reducer, self.subscriber.decoder_state
        assert decoder_state is not None
        here, there = reducer.table, decoder_state.expander.table
        return [key for row, key in enumerate(reducer.keys) if snapshot_row(here, row) != snapshot_row(there, row)]
