"""Key frames: the full state of some sources and of the stream.

A key frame round contains the state of every source, in chunks of bounded size. A reader can start at any chunk: it
contains the incarnation, the full sequence, the schema and the configuration, resets the running check and the scales,
and ends with its CRC-32. After all chunks of a round the reader has the state of every source.
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
    """One chunk of a round: the states of `sources`, with aliases from `first` on, out of `total_sources`."""

    incarnation: int
    sequence: int
    config_version: int
    fingerprint: bytes
    rules: bytes
    scales: bytes
    total_sources: int
    first: int
    sources: tuple[SourceState, ...]

    @property
    def is_first(self) -> bool:
        return self.first == 0

    @property
    def is_last(self) -> bool:
        return self.first + len(self.sources) == self.total_sources

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
        if len(body) < 1 + _FINGERPRINT + 4:
            raise CorruptFrame("key frame cut off", length=len(body))
        if body[0] != WIRE_VERSION:
            raise UnsupportedVersion(version=body[0], supported=[WIRE_VERSION])
        if crc32(body[:-4]) != int.from_bytes(body[-4:], "big"):
            raise CorruptFrame("key frame does not match its checksum", length=len(body))
        body = body[:-4]
        head, at = read_head(body)
        sources: list[SourceState] = []
        while at < len(body):
            source, at = SourceState.decode(body, at)
            sources.append(source)
        if head.first + len(sources) > head.total_sources or head.total_sources > MAX_TOTAL_SOURCES:
            facts = {"first": head.first, "count": len(sources), "total": head.total_sources}
            raise CorruptFrame("more sources than the total", **facts)
        return head._replace(sources=tuple(sources))


def read_head(body: bytes) -> tuple[KeyFrame, int]:
    """Return a chunk without its sources, and the offset of the sources. The checksum is not verified."""
    incarnation, at = varint.read(body, 1)
    sequence, at = varint.read(body, at)
    config_version, at = varint.read(body, at)
    fingerprint, at = body[at : at + _FINGERPRINT], at + _FINGERPRINT
    rules, at = varint.read_blob(body, at, MAX_PART)
    scales, at = varint.read_blob(body, at, MAX_PART)
    total, at = varint.read(body, at)
    first, at = varint.read(body, at)
    return KeyFrame(incarnation, sequence, config_version, fingerprint, rules, scales, total, first, ()), at


def begins_round(frame: bytes) -> bool:
    """Return whether this is a key frame with the first chunk of a round. The checksum is not verified."""
    return _is_key(frame) and read_head(read(frame).body)[0].is_first


def read_key_frame(frame: bytes) -> KeyFrame | None:
    """Return a key frame, or None for another frame. Raise `CorruptFrame` for an invalid key frame."""
    return KeyFrame.decode(read(frame).body) if _is_key(frame) else None


def bindings_in(message: bytes) -> list[Binding]:
    """Return the bindings in a message; empty if the message is invalid."""
    try:
        bound = [frame for frame in split(message) if frame[:1] and frame[0] & 0x0F == FrameKind.BINDING]
        return [Binding.decode(read(frame).body) for frame in bound]
    except PeerFault:
        return []


def _is_key(frame: bytes) -> bool:
    return bool(frame) and frame[0] & 0x0F == FrameKind.KEY
