"""Key frames: the full state of some sources, and of the link, at one place of the stream.

A round of key frames tells the state of every source in chunks of bounded size. Every chunk is a place to start from:
it names the incarnation, the full sequence, schema and configuration, restarts the running check and the scales, and
ends with a CRC-32 of itself. A reader is complete when it has seen every chunk of a round.

Where a key frame stands in its round, and what a message binds, for those who store frames and must find their way.

A reader that joins at a frame which begins a round, and reads on to the one that ends it, knows every source.
"""

from __future__ import annotations

from typing import NamedTuple
from zlib import crc32

from thinwire.errors import CorruptFrame, PeerFault, UnsupportedVersion
from thinwire.wire import varint
from thinwire.wire.control_frames import Binding
from thinwire.wire.frame import WIRE_VERSION, FrameKind, read, split

CHUNK_BYTES = 60_000
"""source states of a chunk, at most; with the link's own state it stays below 64 kB"""
MAX_PART = 1 << 20
MAX_TOTAL_SOURCES = 1 << 24
_FINGERPRINT = 8


class SourceState(NamedTuple):
    """One source: dimension values as JSON, the ordinal of its last event, its columns."""

    dimensions: bytes
    ordinal: int
    columns: bytes

    def encode(self) -> bytes:
        return b"".join(
            (varint.write_blob(self.dimensions), varint.write(self.ordinal), varint.write_blob(self.columns))
        )

    @classmethod
    def decode(cls, body: bytes, at: int) -> tuple[SourceState, int]:
        dimensions, at = varint.read_blob(body, at, MAX_PART)
        ordinal, at = varint.read(body, at)
        columns, at = varint.read_blob(body, at, MAX_PART)
        if ordinal == 0:
            raise CorruptFrame("a source without any event")
        return cls(dimensions, ordinal, columns), at


class KeyFrame(NamedTuple):
    """One chunk: the sources with aliases `first`, `first + 1`, ... out of `total_sources`."""

    incarnation: int
    sequence: int
    config_version: int
    fingerprint: bytes
    rules: bytes
    scales: bytes
    total_sources: int
    first: int
    sources: tuple[SourceState, ...]

    def encode(self) -> bytes:
        body = b"".join(
            (
                bytes((WIRE_VERSION,)),
                varint.write(self.incarnation),
                varint.write(self.sequence),
                varint.write(self.config_version),
                self.fingerprint,
                varint.write_blob(self.rules),
                varint.write_blob(self.scales),
                varint.write(self.total_sources),
                varint.write(self.first),
                *(source.encode() for source in self.sources),
            )
        )
        return body + crc32(body).to_bytes(4, "big")

    @classmethod
    def decode(cls, body: bytes) -> KeyFrame:
        """Read a chunk; refuses another wire version by name before it looks at anything else."""
        body = _checked(body)
        head, at = read_head(body)
        sources: list[SourceState] = []
        while at < len(body):
            source, at = SourceState.decode(body, at)
            sources.append(source)
        if head.first + len(sources) > head.total_sources or head.total_sources > MAX_TOTAL_SOURCES:
            facts = {"first": head.first, "count": len(sources), "total": head.total_sources}
            raise CorruptFrame("sources beyond the number of sources", **facts)
        return cls(*head, tuple(sources))


class KeyHead(NamedTuple):
    """A chunk without its sources."""

    incarnation: int
    sequence: int
    config_version: int
    fingerprint: bytes
    rules: bytes
    scales: bytes
    total_sources: int
    first: int


def read_head(body: bytes) -> tuple[KeyHead, int]:
    """What stands before the sources of a chunk, and where they begin."""
    incarnation, at = varint.read(body, 1)
    sequence, at = varint.read(body, at)
    config_version, at = varint.read(body, at)
    fingerprint, at = body[at : at + _FINGERPRINT], at + _FINGERPRINT
    rules, at = varint.read_blob(body, at, MAX_PART)
    scales, at = varint.read_blob(body, at, MAX_PART)
    total, at = varint.read(body, at)
    first, at = varint.read(body, at)
    return KeyHead(incarnation, sequence, config_version, fingerprint, rules, scales, total, first), at


def _checked(body: bytes) -> bytes:
    """The body of a chunk before its checksum, once that fits."""
    if len(body) < 1 + _FINGERPRINT + 4:
        raise CorruptFrame("key frame cut off", length=len(body))
    if body[0] != WIRE_VERSION:
        raise UnsupportedVersion(version=body[0], supported=[WIRE_VERSION])
    if crc32(body[:-4]) != int.from_bytes(body[-4:], "big"):
        raise CorruptFrame("key frame does not match its checksum", length=len(body))
    return body[:-4]


class RoundPlace(NamedTuple):
    """One chunk of a round: so many sources from `first` on, out of the `total` that there are when it is written."""

    incarnation: int
    config_version: int
    first: int
    sources: int
    total: int

    @property
    def begins(self) -> bool:
        """Is this the first chunk of its round?"""
        return self.first == 0

    @property
    def ends(self) -> bool:
        """Is this the last chunk of its round?"""
        return self.first + self.sources == self.total


def begins_round(frame: bytes) -> bool:
    """Is this a key frame with the first chunk of a round? Looks at no source, and trusts the frame."""
    if not _is_key(frame):
        return False
    head, _ = read_head(read(frame).body)
    return head.first == 0


def place_in_round(frame: bytes) -> RoundPlace | None:
    """Where a key frame stands; None for other frames. Raises CorruptFrame where it cannot be one."""
    if not _is_key(frame):
        return None
    key = KeyFrame.decode(read(frame).body)
    return RoundPlace(key.incarnation, key.config_version, key.first, len(key.sources), key.total_sources)


def bindings_in(message: bytes) -> list[Binding]:
    """What the frames of a message bind to slots, without a look at anything else; nothing where it is broken."""
    try:
        bound = [frame for frame in split(message) if frame[:1] and frame[0] & 0x0F == FrameKind.BINDING]
        return [Binding.decode(read(frame).body) for frame in bound]
    except PeerFault:
        return []


def _is_key(frame: bytes) -> bool:
    return bool(frame) and frame[0] & 0x0F == FrameKind.KEY
