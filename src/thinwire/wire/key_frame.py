"""Key frames: the full state of some sources and of the stream.

A key frame round contains the state of every source in chunks of bounded size. A reader can start at any chunk: it
contains the incarnation, the full sequence, schema and configuration, resets the running check and the scales, and ends
with a CRC-32 of itself. A reader is complete after all chunks of a round.
"""

from __future__ import annotations

from typing import NamedTuple
from zlib import crc32

from thinwire.errors import CorruptFrame, PeerFault, UnsupportedVersion
from thinwire.wire import varint
from thinwire.wire.control_frames import Binding
from thinwire.wire.frame import WIRE_VERSION, FrameKind, read, split

CHUNK_BYTES = 60_000
"""bytes of source states in a chunk, at most; with the stream state a chunk stays below 64 kB"""
MAX_PART = 1 << 20
MAX_TOTAL_SOURCES = 1 << 24
_FINGERPRINT = 8


class SourceState(NamedTuple):
    """State of a source: dimension values as JSON, ordinal of its last event, its columns."""

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
            raise CorruptFrame("a source without events")
        return cls(dimensions, ordinal, columns), at


class KeyFrame(NamedTuple):
    """One chunk of a round: the sources with aliases from `first` on, out of `total_sources`."""

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
        """Decode a chunk; the wire version is checked first."""
        body = _checked(body)
        head, at = read_head(body)
        sources: list[SourceState] = []
        while at < len(body):
            source, at = SourceState.decode(body, at)
            sources.append(source)
        if head.first + len(sources) > head.total_sources or head.total_sources > MAX_TOTAL_SOURCES:
            facts = {"first": head.first, "count": len(sources), "total": head.total_sources}
            raise CorruptFrame("more sources than the total", **facts)
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
    """Return the fields before the sources of a chunk, and the offset of the sources."""
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
    """Verify the checksum and return the body without it."""
    if len(body) < 1 + _FINGERPRINT + 4:
        raise CorruptFrame("key frame cut off", length=len(body))
    if body[0] != WIRE_VERSION:
        raise UnsupportedVersion(version=body[0], supported=[WIRE_VERSION])
    if crc32(body[:-4]) != int.from_bytes(body[-4:], "big"):
        raise CorruptFrame("key frame does not match its checksum", length=len(body))
    return body[:-4]


class RoundPlace(NamedTuple):
    """Sources covered by one chunk of a round: `sources` from `first` on, out of `total`."""

    incarnation: int
    config_version: int
    first: int
    sources: int
    total: int

    @property
    def begins(self) -> bool:
        """Whether this is the first chunk of its round."""
        return self.first == 0

    @property
    def ends(self) -> bool:
        """Whether this is the last chunk of its round."""
        return self.first + self.sources == self.total


def begins_round(frame: bytes) -> bool:
    """Return whether this is a key frame with the first chunk of a round, without verifying the frame."""
    if not _is_key(frame):
        return False
    head, _ = read_head(read(frame).body)
    return head.first == 0


def place_in_round(frame: bytes) -> RoundPlace | None:
    """Return the coverage of a key frame; None for other frames. Raises `CorruptFrame` for invalid key frames."""
    if not _is_key(frame):
        return None
    key = KeyFrame.decode(read(frame).body)
    return RoundPlace(key.incarnation, key.config_version, key.first, len(key.sources), key.total_sources)


def bindings_in(message: bytes) -> list[Binding]:
    """Return the bindings in a message; empty if the message is invalid."""
    try:
        bound = [frame for frame in split(message) if frame[:1] and frame[0] & 0x0F == FrameKind.BINDING]
        return [Binding.decode(read(frame).body) for frame in bound]
    except PeerFault:
        return []


def _is_key(frame: bytes) -> bool:
    return bool(frame) and frame[0] & 0x0F == FrameKind.KEY
