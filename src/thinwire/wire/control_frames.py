"""Bodies of heartbeats, predictor switches, dictionary bindings and key frame requests."""

from __future__ import annotations

from typing import NamedTuple

from thinwire.errors import CorruptFrame
from thinwire.wire import varint

MAX_SKIP = 65_536
"""suppressed events of one source between two frames, at most"""

MAX_SUPPRESSED = 1 << 18
"""suppressed events in one heartbeat, at most"""

HASH_BYTES = 16
"""bytes of the hash of a dictionary"""


class SuppressedRun(NamedTuple):
    """Sources `first` to `first + sources - 1` had `skip` suppressed events each."""

    first: int
    sources: int
    skip: int


class Heartbeat(NamedTuple):
    """Watermark of all sources in milliseconds, and the full sequence number of the frame."""

    sequence: int
    watermark: int
    suppressed: tuple[SuppressedRun, ...]

    def encode(self) -> bytes:
        parts = [varint.write(self.sequence), varint.write_signed(self.watermark)]
        at = 0
        for run in self.suppressed:
            parts += (varint.write(run.first - at), varint.write(run.sources), varint.write(run.skip))
            at = run.first + run.sources
        return b"".join(parts)

    @classmethod
    def decode(cls, body: bytes, sources: int) -> Heartbeat:
        """Decode a heartbeat of a stream with `sources` sources."""
        sequence, at = varint.read(body, 0)
        watermark, at = varint.read_signed(body, at)
        runs: list[SuppressedRun] = []
        source = events = 0
        while at < len(body):
            gap, at = varint.read(body, at)
            count, at = varint.read(body, at)
            skip, at = varint.read(body, at)
            if not 0 < skip <= MAX_SKIP or not count or source + gap + count > sources:
                raise CorruptFrame("invalid run of suppressed events", count=count, skip=skip)
            runs.append(SuppressedRun(source + gap, count, skip))
            source += gap + count
            events += count * skip
            if events > MAX_SUPPRESSED:
                raise CorruptFrame("too many suppressed events in a heartbeat", events=events, limit=MAX_SUPPRESSED)
        return cls(sequence, watermark, tuple(runs))


class PredictorChange(NamedTuple):
    """The new predictor of a slot: mode, coefficients, initial trend."""

    slot: int
    mode: int
    coefficients: int
    trend: int


class Switch(NamedTuple):
    """Slots of one source change their predictor, after `skip` suppressed events."""

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
    """Binds a slot (1 to 255) to a dictionary from this frame on.

    expires: when publishers stop using it, in seconds since 1970; 0 for never. Readers ignore it: frames packed before
        the expiry remain readable while the log retains them
    """

    slot: int
    hash: bytes
    expires: int

    def encode(self) -> bytes:
        return bytes((self.slot,)) + self.hash + varint.write(self.expires)

    @classmethod
    def read(cls, body: bytes, at: int) -> tuple[Binding, int]:
        """Return the binding at offset `at` and the offset after it."""
        if len(body) <= at + HASH_BYTES or not body[at]:
            raise CorruptFrame("a binding without a slot, or truncated", length=len(body) - at)
        expires, end = varint.read(body, at + 1 + HASH_BYTES)
        return cls(body[at], body[at + 1 : at + 1 + HASH_BYTES], expires), end

    @classmethod
    def decode(cls, body: bytes) -> Binding:
        binding, at = cls.read(body, 0)
        if at != len(body):
            raise CorruptFrame("bytes after a binding", length=len(body), read=at)
        return binding


class Request(NamedTuple):
    """A subscriber requests a key frame, for example after a gap."""

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
