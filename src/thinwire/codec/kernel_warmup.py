"""Compiling the kernels before anybody waits for them: the first time on a machine that takes up to a minute.

Numba compiles a kernel when it is first called and keeps the result on disk. A program with a deadline, such as a
client that must answer its broker, calls this first, beside its other work.
"""

from __future__ import annotations

from functools import cache

from thinwire.codec.decoded_event_encoder import encode_decoded_events
from thinwire.codec.stream_config import StreamConfig
from thinwire.codec.stream_decoder import StreamDecoder
from thinwire.codec.stream_encoder import StreamEncoder
from thinwire.schema import Event, Property, Schema
from thinwire.wire import join

_SCHEMA = Schema(
    "warming",
    [
        Property("time", "timestamp", "header", form="epoch", step=1),
        Property("source", "string", "dimension"),
        Property("t", "number", step="0.1"),
        Property("on", "boolean"),
    ],
)
_EVENTS = 80
"""enough for a trial of predictors, and for events that are passed over"""


@cache
def warm_up() -> None:
    """Send some events through a link, so that every kernel is compiled or read from disk; once per process."""
    publisher, reader = StreamEncoder(_SCHEMA, StreamConfig(), name="warm"), StreamDecoder([_SCHEMA], publisher="warm")
    teller = StreamDecoder([_SCHEMA], publisher="warm", passed_over=False)
    frames = publisher.start(0.0)
    for n in range(_EVENTS):
        frames += publisher.publish({"time": n, "source": "a", "t": 20 + n // 4 / 10, "on": n % 8 < 4}, 0.0)
    frames += publisher.heartbeat(0.0)
    for subscriber in (reader, teller):
        told = subscriber.receive(join(frames), now=0.0)
    reader.peek()
    link = StreamEncoder(_SCHEMA, StreamConfig(), name="warm", over=publisher.encoder.reducer.rules, validated=True)
    list(encode_decoded_events(link, [thing for thing in told if isinstance(thing, Event)], 0.0))
