"""The bodies of heartbeats, switches, bindings and requests: small records, mostly of whole numbers."""

from __future__ import annotations

from typing import NamedTuple

from thinwire.errors import CorruptFrame
from thinwire.wire import varint

MAX_SKIP = 65_536
"""events of one source passed over in silence between two frames, at most"""

MAX_TOLD = 1 << 18
"""events passed over in silence that one heartbeat may tell of, at most"""

HASH_BYTES = 16
"""of a dictionary's name"""


class SuppressedRun(NamedTuple):
    """Sources `first` to `first + sources - 1` had `skip` events each that nobody needed to be told about."""

    first: int
    sources: int
    skip: int


class Heartbeat(NamedTuple):
    """All sources are complete up to `watermark` (milliseconds); `sequence` is this frame's, in full."""

    sequence: int
    watermark: int
    silences: tuple[SuppressedRun, ...]

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
        silences: list[SuppressedRun] = []
        source = told = 0
        while at < len(body):
            gap, at = varint.read(body, at)
            count, at = varint.read(body, at)
            skip, at = varint.read(body, at)
            if not 0 < skip <= MAX_SKIP or not count or source + gap + count > sources:
                raise CorruptFrame("silence about sources or events that cannot be", count=count, skip=skip)
            silences.append(SuppressedRun(source + gap, count, skip))
            source += gap + count
            told += count * skip
            if told > MAX_TOLD:
                raise CorruptFrame("a heartbeat tells of more events than it may", events=told, limit=MAX_TOLD)
        return cls(sequence, watermark, tuple(silences))


class PredictorChange(NamedTuple):
    """A slot of a source goes over to another predictor: its mode, its coefficients, the trend to start with."""

    slot: int
    mode: int
    coefficients: int
    trend: int


class Switch(NamedTuple):
    """Some slots of one source change their predictor, after `skip` events that were passed over in silence."""

    source: int
    skip: int
    changes: tuple[PredictorChange, ...]

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
        changes: list[PredictorChange] = []
        while at < len(body):
            slot, at = varint.read(body, at)
            mode, at = varint.read(body, at)
            coefficients, at = varint.read(body, at)
            trend, at = varint.read_signed(body, at)
            changes.append(PredictorChange(slot, mode, coefficients, trend))
        return cls(source, skip, tuple(changes))


class Binding(NamedTuple):
    """From here on a slot (1 to 255) names the dictionary with this hash.

    expires: when publishers stop using it, in seconds since 1970; 0 for never. Readers go by the binding alone: what
        was packed before it expired can be read for as long as the log keeps it
    """

    slot: int
    hash: bytes
    expires: int

    def encode(self) -> bytes:
        return bytes((self.slot,)) + self.hash + varint.write(self.expires)

    @classmethod
    def read(cls, body: bytes, at: int) -> tuple[Binding, int]:
        """The binding at this place, and the place after it."""
        if len(body) <= at + HASH_BYTES or not body[at]:
            raise CorruptFrame("a binding of no slot, or cut off", length=len(body) - at)
        expires, end = varint.read(body, at + 1 + HASH_BYTES)
        return cls(body[at], body[at + 1 : at + 1 + HASH_BYTES], expires), end

    @classmethod
    def decode(cls, body: bytes) -> Binding:
        binding, at = cls.read(body, 0)
        if at != len(body):
            raise CorruptFrame("bytes after a binding", length=len(body), read=at)
        return binding


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
