"""Topics without a schema, whose events are bytes: how they are found, and how large a payload may be."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from thinwire.brokers.protocol_broker import Broker
from thinwire.codec.stream_encoder import MAX_PAYLOAD
from thinwire.errors import PayloadTooLarge, PeerFault, UnknownLog, WrongType
from thinwire.schema import Schema, is_opaque, opaque
from thinwire.schema.schema_payloads import PAYLOAD
from thinwire.topics.names import key_subject, log_of
from thinwire.wire import read
from thinwire.wire.key_frame import read_head

_SHOWN = 256
_AROUND = 1_024
"""bytes of a message that are not the payload's: the frame's header, and what the broker is told with it"""


class PayloadLimit:
    """What a publisher of bytes takes: what fits one message.

    serves: has the topic no schema?

    >>> PayloadLimit(opaque("machine.raw"), max_payload=65_536).of(bytearray(b"ok"))
    b'ok'
    """

    def __init__(self, schema: Schema, max_payload: int) -> None:
        self.topic = schema.name
        self.serves = is_opaque(schema)
        self.limit = min(max_payload - _AROUND, MAX_PAYLOAD)

    def of(self, event: Any) -> bytes | None:
        """The bytes that an event is, if they fit; None for an ordinary event, whose payload is another value."""
        if isinstance(event, Mapping) and event.keys() == {PAYLOAD}:
            event = event[PAYLOAD]
            if not isinstance(event, bytes | bytearray | memoryview):
                return None
        if not isinstance(event, bytes | bytearray | memoryview):
            told = type(event).__name__
            raise WrongType(
                "a topic without a schema takes bytes; register one for events", topic=self.topic, type=told
            )
        size = event.nbytes if isinstance(event, memoryview) else len(event)
        if size > self.limit:
            raise PayloadTooLarge(topic=self.topic, size=size, limit=self.limit)
        return bytes(event)


def shown(event: Any) -> Mapping[str, Any]:
    """An event that was refused, whatever it was, as far as people want to see it."""
    if isinstance(event, Mapping):
        return event
    return {PAYLOAD: event[:_SHOWN] if isinstance(event, bytes | bytearray | str) else event}


async def carries_payloads(broker: Broker, topic: str) -> bool:
    """Does the log of a topic that nobody has registered tell of bytes?"""
    try:
        newest = await broker.last(log_of(topic), key_subject(topic, "*"))
        if newest is None:
            return False
        return read_head(read(newest.payload).body)[0].fingerprint == opaque(topic).fingerprint
    except (UnknownLog, PeerFault):
        return False
