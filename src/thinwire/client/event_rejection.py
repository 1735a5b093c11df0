"""Size limits of events and payloads, and the text of a rejected event in its dead letter."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from thinwire.codec.stream_encoder import MAX_PAYLOAD
from thinwire.errors import BrokerRefused, PayloadTooLarge, WrongType
from thinwire.schema import Kind, Schema, is_opaque
from thinwire.schema.schema import PAYLOAD
from thinwire.wire.key_frame import CHUNK_BYTES

MAX_PAYLOAD_TEXT = 256
"""bytes of a rejected payload in its dead letter"""
MESSAGE_OVERHEAD = 1_024
"""bytes of a message in addition to its payload: the frame header and the headers of the broker"""
KEY_FRAME_OVERHEAD = CHUNK_BYTES + 4096
"""bytes of a key frame message in addition to the values of one event: other sources of the chunk, and headers"""


def event_text(event: Any, schema: Schema) -> str:
    """Return a rejected event of any type as JSON, without confidential properties."""
    if not isinstance(event, Mapping):
        event = {PAYLOAD: event[:MAX_PAYLOAD_TEXT] if isinstance(event, bytes | bytearray | str) else event}
    confidential = {p.name for p in schema if p.confidential}
    public = {str(name): value for name, value in event.items() if name not in confidential}
    return json.dumps(public, default=repr)


class PayloadLimit:
    """The limit of payloads, for topics without a schema.

    applies: the topic has no schema

    >>> from thinwire.schema import opaque
    >>> PayloadLimit(opaque("machine.raw"), max_payload=65_536).payload_of(bytearray(b"ok"))
    b'ok'
    """

    def __init__(self, schema: Schema, max_payload: int) -> None:
        self.topic = schema.name
        self.applies = is_opaque(schema)
        self.limit = min(max_payload - MESSAGE_OVERHEAD, MAX_PAYLOAD)

    def payload_of(self, event: Any) -> bytes | None:
        """Return the payload of an event; None for a mapping with a JSON value as payload, which is encoded."""
        if isinstance(event, Mapping) and event.keys() == {PAYLOAD}:
            event = event[PAYLOAD]
            if not isinstance(event, bytes | bytearray | memoryview):
                return None
        if not isinstance(event, bytes | bytearray | memoryview):
            detail = "a topic without a schema takes bytes; register a schema for events"
            raise WrongType(detail, topic=self.topic, type=type(event).__name__)
        size = event.nbytes if isinstance(event, memoryview) else len(event)
        if size > self.limit:
            raise PayloadTooLarge(topic=self.topic, size=size, limit=self.limit)
        return bytes(event)


_LARGE_KINDS = frozenset({Kind.STRING, Kind.ENUM, Kind.ARRAY, Kind.OPAQUE})


class SizeLimit:
    """The limit of the values of one event together.

    is_needed: the schema has properties of unlimited size

    >>> from thinwire.schema import Property
    >>> limit = SizeLimit(Schema("notes", [Property("text", "string")]), max_payload=200_000)
    >>> limit.check({"text": "short"})
    """

    def __init__(self, schema: Schema, max_payload: int) -> None:
        if max_payload < 2 * CHUNK_BYTES:
            detail = "the maximum message size is too small"
            raise BrokerRefused(detail, max_payload=max_payload, needed=2 * CHUNK_BYTES)
        self.limit = max_payload - KEY_FRAME_OVERHEAD
        self._names = sorted({p.name.partition(".")[0] for p in schema if p.kind in _LARGE_KINDS})
        self.is_needed = bool(self._names)

    def check(self, event: Mapping[str, Any]) -> None:
        """Raise PayloadTooLarge for an event that exceeds the limit."""
        if not self.is_needed or not isinstance(event, Mapping):
            return
        total = 0
        for name in self._names:
            value = event.get(name)
            # short ASCII texts are the usual case
            total += len(value) if type(value) is str and value.isascii() else _size(value)
        if total > self.limit:
            largest = max(self._names, key=lambda name: _size(event.get(name)))
            raise PayloadTooLarge(property=largest, size=total, limit=self.limit)


def _size(value: Any) -> int:
    """Return an upper bound of the encoded size of a value; 0 for numbers."""
    if isinstance(value, str):
        return len(value) if value.isascii() else 4 * len(value)
    if isinstance(value, bytes):
        return len(value)
    if isinstance(value, Mapping):
        return sum(len(name) + _size(item) for name, item in value.items())
    if isinstance(value, list | tuple):
        return 9 * len(value) + sum(_size(item) for item in value if not isinstance(item, int | float))
    return 0
