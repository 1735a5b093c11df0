"""Key frames: the full state of some sources, and of the link, at one place of the stream.

A round of key frames tells the state of every source in chunks of bounded size. Every chunk is a place to start from:
it names the incarnation, the full sequence, schema and configuration, resets the running check and the scales, and
ends with a CRC-32 of itself. A reader is complete when it has seen every chunk of a round.
"""

from __future__ import annotations

from typing import NamedTuple
from zlib import crc32

from thinwire.errors import CorruptFrame, UnsupportedVersion
from thinwire.frames import varint
from thinwire.frames.kinds import WIRE_VERSION

CHUNK_BYTES = 65_536
MAX_PART = 1 << 20
_FINGERPRINT = 8


class SourceState(NamedTuple):
    """One source: its alias on this link, dimension values as JSON, the ordinal of its last event, its columns."""

    alias: int
    dimensions: bytes
    ordinal: int
    columns: bytes

    def encode(self) -> bytes:
        return b"".join(
            (
                varint.write(self.alias),
                varint.write_blob(self.dimensions),
                varint.write(self.ordinal),
                varint.write_blob(self.columns),
            )
        )

    @classmethod
    def decode(cls, body: bytes, at: int) -> tuple[SourceState, int]:
        alias, at = varint.read(body, at)
        dimensions, at = varint.read_blob(body, at, MAX_PART)
        ordinal, at = varint.read(body, at)
        columns, at = varint.read_blob(body, at, MAX_PART)
        return cls(alias, dimensions, ordinal, columns), at


class KeyFrame(NamedTuple):
    """One chunk of a round of key frames."""

    incarnation: int
    sequence: int
    round: int
    chunk: int
    chunks: int
    fingerprint: bytes
    config_version: int
    rules: bytes
    scales: bytes
    total_sources: int
    sources: tuple[SourceState, ...]

    def encode(self) -> bytes:
        numbers = (self.incarnation, self.sequence, self.round, self.chunk, self.chunks, self.config_version)
        body = b"".join(
            (
                bytes((WIRE_VERSION,)),
                *(varint.write(number) for number in numbers),
                self.fingerprint,
                varint.write_blob(self.rules),
                varint.write_blob(self.scales),
                varint.write(self.total_sources),
                varint.write(len(self.sources)),
                *(source.encode() for source in self.sources),
            )
        )
        return body + crc32(body).to_bytes(4, "big")

    @classmethod
    def decode(cls, body: bytes) -> KeyFrame:
        """Read a chunk; refuses another wire version by name before it looks at anything else."""
        if len(body) < 1 + _FINGERPRINT + 4:
            raise CorruptFrame("key frame cut off", length=len(body))
        if body[0] != WIRE_VERSION:
            raise UnsupportedVersion(version=body[0], supported=[WIRE_VERSION])
        if crc32(body[:-4]) != int.from_bytes(body[-4:], "big"):
            raise CorruptFrame("key frame does not match its checksum", length=len(body))
        return _decode(body[:-4])


def _decode(body: bytes) -> KeyFrame:
    at = 1
    numbers: list[int] = []
    for _ in range(6):
        number, at = varint.read(body, at)
        numbers.append(number)
    fingerprint, at = body[at : at + _FINGERPRINT], at + _FINGERPRINT
    rules, at = varint.read_blob(body, at, MAX_PART)
    scales, at = varint.read_blob(body, at, MAX_PART)
    total, at = varint.read(body, at)
    count, at = varint.read(body, at)
    sources: list[SourceState] = []
    while at < len(body):
        source, at = SourceState.decode(body, at)
        if source.alias >= total:
            raise CorruptFrame("a source beyond the number of sources", alias=source.alias, total=total)
        sources.append(source)
    incarnation, sequence, round_, chunk, chunks, version = numbers
    if count != len(sources) or chunk >= chunks or len(fingerprint) != _FINGERPRINT:
        raise CorruptFrame("key frame contradicts itself", chunk=chunk, chunks=chunks, sources=count)
    return KeyFrame(
        incarnation, sequence, round_, chunk, chunks, fingerprint, version, rules, scales, total, tuple(sources)
    )
