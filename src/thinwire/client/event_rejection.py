"""Where refused events go: a log of their own, with the reason, for people to look at.

Topics without a schema, whose events are bytes: how they are found, and how large a payload may be.

What a message of the broker can hold, known before a link takes an event that would not fit.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from typing import Any

from thinwire.brokers.protocol import Broker, Retention
from thinwire.codec.stream_encoder import MAX_PAYLOAD
from thinwire.errors import (
    BrokerRefused,
    PayloadTooLarge,
    PeerFault,
    ThinwireError,
    TransportError,
    UnknownLog,
    WrongType,
)
from thinwire.schema import Kind, Schema, is_opaque, opaque
from thinwire.schema.schema import PAYLOAD
from thinwire.topics.names import DEAD_LOG, dead_subject, key_subject, log_of
from thinwire.wire import read
from thinwire.wire.key_frame import CHUNK_BYTES, read_head

MAX_SHOWN = 16_384
"""characters of a refused event that are kept"""
MAX_KEPT = 10_000
"""letters that are kept, of all topics together"""
PATIENCE = 5.0

_log = logging.getLogger("thinwire.client")


class DeadLetters:
    """The refused events of one publisher. What is confidential stays out of them."""

    def __init__(self, broker: Broker, schema: Schema, publisher: str) -> None:
        self.kept = 0
        self._broker = broker
        self._topic = schema.name
        self._secret = frozenset(p.name for p in schema if p.confidential)
        self._publisher = publisher

    async def keep(self, event: Mapping[str, Any], problem: ThinwireError) -> None:
        """Store an event with the reason; where even that fails, say so in the log and go on."""
        try:
            if not self.kept:
                await self._broker.open_log(DEAD_LOG, ["tw.dead.>"], Retention(messages=MAX_KEPT))
            letter = self._letter(event, problem)
            await self._broker.append(DEAD_LOG, dead_subject(self._topic), letter, timeout=PATIENCE)
            self.kept += 1
        except TransportError as trouble:
            _log.warning("%s: a refused event could not be kept (%s): %s", self._topic, problem, trouble)

    def _letter(self, event: Mapping[str, Any], problem: ThinwireError) -> bytes:
        open_to_all = {str(name): value for name, value in event.items() if name not in self._secret}
        shown = json.dumps(open_to_all, default=repr)
        letter = {
            "topic": self._topic,
            "publisher": self._publisher,
            "reason": str(problem),
            "error": type(problem).__name__,
            "event": shown[:MAX_SHOWN],
        }
        return json.dumps(letter).encode()


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


_LARGE = frozenset({Kind.STRING, Kind.ENUM, Kind.ARRAY, Kind.OPAQUE})
_MARGIN = CHUNK_BYTES + 4096
"""bytes that stand beside the values of one event at most: the rest of a chunk of key frames"""


class SizeLimit:
    """How large the values of an event may be, all together.

    >>> from thinwire.schema import Property
    >>> limit = SizeLimit(Schema("notes", [Property("text", "string")]), max_payload=200_000)
    >>> limit.check({"text": "short"})
    """

    def __init__(self, schema: Schema, max_payload: int) -> None:
        if max_payload < 2 * CHUNK_BYTES:
            raise BrokerRefused("its messages are too small", max_payload=max_payload, needed=2 * CHUNK_BYTES)
        self.limit = max_payload - _MARGIN
        self._names = sorted({p.name.partition(".")[0] for p in schema if p.kind in _LARGE})

    def check(self, event: Mapping[str, Any]) -> None:
        """Refuse an event that no message could hold."""
        if not self._names or not isinstance(event, Mapping):
            return
        sizes = [_size(event.get(name)) for name in self._names]
        if sum(sizes) > self.limit:
            largest = self._names[sizes.index(max(sizes))]
            raise PayloadTooLarge(property=largest, size=sum(sizes), limit=self.limit)


def _size(value: Any) -> int:
    """Bytes of a value, at most; numbers are small."""
    if isinstance(value, str):
        return len(value) if value.isascii() else 4 * len(value)
    if isinstance(value, bytes):
        return len(value)
    if isinstance(value, Mapping):
        return sum(len(name) + _size(item) for name, item in value.items())
    if isinstance(value, list | tuple):
        return 9 * len(value) + sum(_size(item) for item in value if not isinstance(item, int | float))
    return 0
