"""The state of a topic's links behind a range, as bytes: the next range goes on with it and reads nothing twice.

It is a help and never the truth: whatever does not fit is left aside, and the links are brought there by reading.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b
from typing import NamedTuple

from thinwire.codec import State, Subscriber
from thinwire.codec.stream_snapshot import of_subscriber
from thinwire.errors import CorruptCheckpoint, CorruptFrame
from thinwire.topics.log_tables.range_seek import Seeker, restored
from thinwire.topics.log_tables.table_layout import TopicSchemas
from thinwire.wire import varint

MAGIC = b"twl1"
MAX_STATE = 1 << 30
MAX_PUBLISHERS = 1 << 20
_DIGEST = 16


class Kept(NamedTuple):
    """Where the links stood: after the message at `offset`, which was stored at `time` (microseconds)."""

    offset: int
    time: int
    links: Mapping[str, bytes]

    def encode(self) -> bytes:
        parts = [varint.write(self.offset), varint.write(self.time), varint.write(len(self.links))]
        for name, state in self.links.items():
            parts += [varint.write_blob(name.encode()), varint.write_blob(state)]
        body = b"".join(parts)
        return MAGIC + _digest(body) + body

    @classmethod
    def decode(cls, data: bytes) -> Kept:
        """The state as it was kept; `CorruptCheckpoint` where it is not."""
        body = data[len(MAGIC) + _DIGEST :]
        if not data.startswith(MAGIC) or data[len(MAGIC) : len(MAGIC) + _DIGEST] != _digest(body):
            raise CorruptCheckpoint("not the state of a range, or not as it was kept", size=len(data))
        try:
            return cls._read(body)
        except CorruptFrame as problem:
            raise CorruptCheckpoint(problem.detail, **problem.facts) from None

    @classmethod
    def _read(cls, body: bytes) -> Kept:
        offset, at = varint.read(body, 0)
        time, at = varint.read(body, at)
        count, at = varint.read(body, at)
        links: dict[str, bytes] = {}
        for _ in range(min(count, MAX_PUBLISHERS)):
            name, at = varint.read_blob(body, at, 256)
            links[name.decode()], at = varint.read_blob(body, at, MAX_STATE)
        return cls(offset, time, links)


def keep(offset: int, time: float, links: Mapping[str, Subscriber]) -> bytes:
    """The state of those links that know where they are; the others are brought to their place again."""
    ready = {name: of_subscriber(link) for name, link in links.items() if link.state is State.READY}
    return Kept(offset, round(time * 1e6), ready).encode()


def take_up(kept: Kept, seeker: Seeker, schemas: TopicSchemas) -> dict[str, Subscriber]:
    """The links as they were kept; raises `CorruptCheckpoint` or `UnknownSchema`."""
    return {name: restored(seeker.fresh, name, state, schemas) for name, state in kept.links.items()}


def _digest(body: bytes) -> bytes:
    return blake2b(body, digest_size=_DIGEST).digest()
