"""The bodies of heartbeats, switches and requests: small records of whole numbers."""

from __future__ import annotations

from typing import NamedTuple

from thinwire.errors import CorruptFrame
from thinwire.frames import varint

MAX_SKIP = 65_536
"""events of one source passed over in silence between two frames, at most"""

MAX_TOLD = 1 << 18
"""events passed over in silence that one heartbeat may tell of, at most"""


class Silence(NamedTuple):
    """Sources `first` to `first + sources - 1` had `skip` events each that nobody needed to be told about."""

    first: int
    sources: int
    skip: int


class Heartbeat(NamedTuple):
    """All sources are complete up to `watermark` (milliseconds); `sequence` is this frame's, in full."""

    sequence: int
    watermark: int
    silences: tuple[Silence, ...]

    def encode(self) -> bytes:
        parts = [varint.write(self.sequence), varint.write_signed(self.watermark)]
        at = 0
        for silence in self.silences:
            parts += (varint.write(silence.first - at), varint.write(silence.sources), varint.write(silence.skip))
            at = silence.first + silence.sources
        return b"".join(parts)

    @classmethod
    def decode(cls, body: bytes, sources: int) -> Heartbeat:
        """Read a heartbeat that may speak of `sources` sources."""
        sequence, at = varint.read(body, 0)
        watermark, at = varint.read_signed(body, at)
        silences: list[Silence] = []
        source = told = 0
        while at < len(body):
            gap, at = varint.read(body, at)
            count, at = varint.read(body, at)
            skip, at = varint.read(body, at)
            if not 0 < skip <= MAX_SKIP or not count or source + gap + count > sources:
                raise CorruptFrame("silence about sources or events that cannot be", count=count, skip=skip)
            silences.append(Silence(source + gap, count, skip))
            source += gap + count
            told += count * skip
            if told > MAX_TOLD:
                raise CorruptFrame("a heartbeat tells of more events than it may", events=told, limit=MAX_TOLD)
        return cls(sequence, watermark, tuple(silences))


class Change(NamedTuple):
    """A slot of a source goes over to another predictor: its mode, its coefficients, the trend to start with."""

    slot: int
    mode: int
    coefficients: int
    trend: int


class Switch(NamedTuple):
    """Some slots of one source change their predictor, after `skip` events that were passed over in silence."""

    source: int
    skip: int
    changes: tuple[Change, ...]

    def encode(self) -> bytes:
        parts = [varint.write(self.source), varint.write(self.skip)]
        for change in self.changes:
            parts += (varint.write(change.slot), varint.write(change.mode))
            parts += (varint.write(change.coefficients), varint.write_signed(change.trend))
        return b"".join(parts)

    @classmethod
    def decode(cls, body: bytes) -> Switch:
        source, at = varint.read(body, 0)
        skip, at = varint.read(body, at)
        changes: list[Change] = []
        while at < len(body):
            slot, at = varint.read(body, at)
            mode, at = varint.read(body, at)
            coefficients, at = varint.read(body, at)
            trend, at = varint.read_signed(body, at)
            changes.append(Change(slot, mode, coefficients, trend))
        return cls(source, skip, tuple(changes))


class Request(NamedTuple):
    """A subscriber of this publisher's frames cannot go on and asks for a key frame."""

    incarnation: int
    sequence: int

    def encode(self) -> bytes:
        return varint.write(self.incarnation) + varint.write(self.sequence)

    @classmethod
    def decode(cls, body: bytes) -> Request:
        incarnation, at = varint.read(body, 0)
        sequence, at = varint.read(body, at)
        if at != len(body):
            raise CorruptFrame("bytes after a request", length=len(body), read=at)
        return cls(incarnation, sequence)
