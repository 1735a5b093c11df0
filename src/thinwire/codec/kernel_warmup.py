"""Compilation of all kernels before they are needed. The first compilation on a machine needs about a minute.

Numba compiles a kernel on its first call and stores the result on disk. A program with deadlines, such as a client that
must answer its broker, calls `warm_up` in a thread first.
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
"""enough for a predictor trial and for suppressed events"""


@cache
def warm_up() -> None:
    """Encode and decode some events, so that every kernel is compiled or loaded from disk; once per process."""
    publisher, reader = StreamEncoder(_SCHEMA, StreamConfig(), name="warm"), StreamDecoder([_SCHEMA], publisher="warm")
    changes_reader = StreamDecoder([_SCHEMA], publisher="warm", include_suppressed=False)
    frames = publisher.start(0.0)
    for n in range(_EVENTS):
        frames += publisher.publish({"time": n, "source": "a", "t": 20 + n // 4 / 10, "on": n % 8 < 4}, 0.0)
    frames += publisher.heartbeat(0.0)
    for subscriber in (reader, changes_reader):
        deliveries = subscriber.receive(join(frames), now=0.0)
    reader.peek()
    stream = StreamEncoder(_SCHEMA, StreamConfig(), name="warm", over=publisher.rules, validated=True)
    list(encode_decoded_events(stream, [item for item in deliveries if isinstance(item, Event)], 0.0))
