"""Fuzzing of the decoding end: altered input may raise only errors of a peer, and may not take much memory.

There are five kinds of input, all drawn from one seed: random bytes and altered messages for the frame reader; altered
bodies for the parser of their kind; altered messages for a decoder that is ready; altered bodies in frames with valid
checksums, which reach the code behind the checks; and altered snapshots, with and without valid checksums.

>>> run_fuzz(200, seed=1).failures
[]
"""

from __future__ import annotations

import traceback
import tracemalloc
import zlib
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from random import Random
from typing import Any
from zlib import crc32

from fuzz_mutations import BOMBS, alter
from random_events import RandomSensors, draw_demand, draw_schema

from thinwire.codec import Expander, State, StreamConfig, StreamDecoder, StreamEncoder, resolve, rules
from thinwire.codec import snapshot_sections as sections_codec
from thinwire.codec.audit import decode_audit
from thinwire.codec.stream_snapshot import restore_decoder, snapshot_decoder
from thinwire.errors import PeerFault
from thinwire.wire import (
    FrameKind,
    Heartbeat,
    KeyFrame,
    Request,
    SourceState,
    StreamState,
    Switch,
    compact_body,
    exact_value,
    join,
    json_body,
    read,
    seal,
    split,
)
from thinwire.wire.control_frames import MAX_SKIP
from thinwire.wire.frame import DEFLATE_SLOT
from thinwire.wire.stream_state import CHAIN, SEQUENCE

SOURCES = 4
MAX_SOURCES = 64
INCARNATION = 1


class Target:
    """A schema and a demand with valid frames, and a decoder of these frames."""

    def __init__(self, random: Random, *, compiled: bool) -> None:
        self.random = random
        self.schema = draw_schema(random, all_kinds=not compiled)
        config = StreamConfig(demand=draw_demand(self.schema, random), audit_every=4)
        self.wide = random.random() < 0.5
        self._compact_frames = self._encode(config, "compact")
        self.frames = [read(frame) for frame in self._compact_frames + self._encode(config, "json")]
        self.key = KeyFrame.decode(next(f.body for f in reversed(self.frames) if f.kind == FrameKind.KEY))
        self.compiled = compiled
        self.decoder = self._create_decoder()
        self._expander = Expander(resolve(self.schema, config.demand))
        self._sequence = 0

    def _encode(self, config: StreamConfig, form: Any) -> list[bytes]:
        """Return valid frames of every kind that the stream has."""
        sensors = RandomSensors(self.random, sources=SOURCES, change_rate=0.6)
        config = StreamConfig(demand=config.demand, audit_every=config.audit_every, format=form)
        encoder = StreamEncoder(self.schema, config, name="p", incarnation=INCARNATION, wide=self.wide, compiled=False)
        frames = encoder.start(0)
        for step in range(160):
            frames += encoder.publish(sensors.read(self.schema, step), step)
        return frames + encoder.heartbeat(200) + encoder.start(200)

    def alter_body(self) -> tuple[int, bytes]:
        """Return the kind and the altered body of a valid frame."""
        frame, other = self.random.choices(self.frames, k=2)
        return frame.kind, alter(frame.body, self.random, other.body)

    def alter_message(self) -> bytes:
        """Return an altered message of valid frames."""
        if self.random.random() < 0.02:
            return bytes((self.random.randrange(1, 16) | 0x20, DEFLATE_SLOT, 0, 0)) + self.random.choice(BOMBS)
        chosen = self.random.choices(self.frames, k=self.random.choice((1, 1, 2, 5)))
        return alter(join([frame.raw for frame in chosen]), self.random, chosen[0].raw)

    def alter_snapshot(self) -> bytes:
        """Return an altered snapshot: as a whole, as a whole with a valid hash, or one section with a valid hash."""
        draw = self.random.random()
        if draw < 0.2:
            return alter(self.snapshot, self.random, self.snapshot)
        if draw < 0.4:
            content = alter(self.snapshot[:-16], self.random, self.snapshot)
            return content + blake2b(content, digest_size=16).digest()
        header, packed = sections_codec.unseal(self.snapshot)
        views = sections_codec.unpack(packed, header.sizes, len(header.sizes), header.sizes[0])
        sections = [bytes(view) for view in views]
        index = self.random.randrange(len(sections))
        sections[index] = alter(sections[index], self.random, self.random.choice(sections))
        return sections_codec.seal(header, sections)

    def parse(self, kind: int, body: bytes) -> None:
        """Parse a body with the parser of its kind."""
        _PARSERS.get(kind, _parse_exact)(body, self)

    def receive(self, message: bytes) -> list[Any]:
        """Decode a message with the decoder, which is ready before."""
        if self.decoder.state is not State.READY:
            self._reset_decoder()
        return self.decoder.receive(message, now=0.0)

    def frame_with_valid_checksums(self, kind: int, body: bytes) -> bytes:
        """Return a frame with the sequence, incarnation and checksums that the decoder expects."""
        if self.decoder.state is not State.READY:
            self._reset_decoder()
        assert self.decoder.decoder_state is not None
        cells = self.decoder.decoder_state.stream.cells
        if kind == FrameKind.KEY and self.random.random() < 0.9:
            body = _with_crc(body)
        body, slot = self._pack(body)
        chain = 0 if kind == FrameKind.KEY else cells[CHAIN]
        return self._seal(kind & 0x0F, body, cells[SEQUENCE], chain, slot)

    def restore(self, snapshot: bytes) -> None:
        """Restore a new decoder from a snapshot. It receives the next messages."""
        decoder = self._create_decoder()
        restore_decoder(decoder, snapshot)
        self.decoder = decoder
        decoder.current_events()
        decoder.peek()

    def create_state(self) -> tuple[StreamState, Expander]:
        """Return the state of a stream after its key frames."""
        state = StreamState(self.schema, incarnation=INCARNATION, wide=self.wide)
        state.restart(self.key.scales, SOURCES)
        return state, self._expander

    @cached_property
    def snapshot(self) -> bytes:
        """The snapshot of a decoder after half of the valid frames."""
        decoder = self._create_decoder()
        for frame in self._compact_frames[: len(self._compact_frames) // 2]:
            decoder.receive(frame, now=0.0)
        return snapshot_decoder(decoder)

    def _pack(self, body: bytes) -> tuple[bytes, int | None]:
        """Return the body and its slot: in most cases unpacked, in some deflated or replaced by a bomb."""
        draw = self.random.random()
        if draw < 0.02:
            return self.random.choice(BOMBS), DEFLATE_SLOT
        return (zlib.compress(body, 1, wbits=-15), DEFLATE_SLOT) if draw < 0.06 else (body, None)

    def _create_decoder(self) -> StreamDecoder:
        return StreamDecoder([self.schema], publisher="p", compiled=self.compiled, max_sources=MAX_SOURCES)

    def _reset_decoder(self) -> None:
        """Make the decoder ready with a valid key frame that is newer than all frames before."""
        state = self.decoder.decoder_state
        self._sequence = max(self._sequence, 0 if state is None else state.sequence) + 1
        if self._sequence > 1 << 62 or (self.decoder.incarnation or INCARNATION) != INCARNATION:
            self.decoder = self._create_decoder()
            self._sequence = 1
        body = self.key._replace(sequence=self._sequence).encode()
        self.decoder.receive(self._seal(FrameKind.KEY, body, self._sequence, 0, None), now=0.0)
        assert self.decoder.state is State.READY

    def _seal(self, kind: int, body: bytes, sequence: int, chain: int, slot: int | None) -> bytes:
        raw, _ = seal(kind, body, sequence=sequence, chain=chain, incarnation=INCARNATION, wide=self.wide, slot=slot)
        return raw


def _with_crc(key_body: bytes) -> bytes:
    """Return the body of a key frame with a valid CRC-32."""
    return key_body[:-4] + crc32(key_body[:-4]).to_bytes(4, "big")


def parse_message(message: bytes) -> None:
    """Split a message and parse the headers of its frames."""
    for frame in split(message):
        try:
            read(frame)
        except PeerFault:
            continue


def _parse_compact(body: bytes, target: Target) -> None:
    state, _ = target.create_state()
    compact_body.decode(body, target.random.random() < 0.5, state)


def _parse_introduction(body: bytes, target: Target) -> None:
    source, at = SourceState.decode(body, 0)
    target.create_state()[1].restore(0, source.dimensions, source.ordinal, source.columns)
    exact_value.decode(body, at)


def _parse_key(body: bytes, target: Target) -> None:
    key = KeyFrame.decode(_with_crc(body))
    rules.decode(key.rules, target.schema)
    target.create_state()[0].restart(key.scales, SOURCES)


def _parse_exact(body: bytes, target: Target) -> None:
    exact_value.decode(body, 0)


_PARSERS: dict[int, Callable[[bytes, Target], Any]] = {
    FrameKind.DATA: _parse_compact,
    FrameKind.EXCEPTION: _parse_compact,
    FrameKind.JSON: lambda body, target: json_body.JsonFormat(target.schema).decode(body, SOURCES),
    FrameKind.KEY: _parse_key,
    FrameKind.INTRODUCTION: _parse_introduction,
    FrameKind.SWITCH: lambda body, target: Switch.decode(body),
    FrameKind.HEARTBEAT: lambda body, target: Heartbeat.decode(body, SOURCES),
    FrameKind.AUDIT: lambda body, target: decode_audit(body, target.schema),
    FrameKind.REQUEST: lambda body, target: Request.decode(body),
}


TARGETS = 6
RENEWAL_INTERVAL = 20_000
"""number of inputs after which the targets are replaced"""

MAX_BYTES = 8 << 20
"""memory that one input may take, without the memory of its events"""
BYTES_PER_EVENT = 2_048

Progress = Callable[[int], None]
"""receives the number of inputs that are done"""


@dataclass
class FuzzReport:
    """What a run of fuzzing found.

    events: number of events decoded from altered bytes; peak: largest memory of a measured input in bytes
    refused: number of inputs that raised an error of a peer, by its name; failures: inputs with any other outcome
    """

    seed: int
    inputs: int = 0
    events: int = 0
    peak: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)


def run_fuzz(count: int, seed: int, progress: Progress | None = None, *, compiled: bool = True) -> FuzzReport:
    """Try `count` inputs. The memory of one in 401 is measured, because measuring takes longer than parsing."""
    report = FuzzReport(seed)
    for start in range(0, count, RENEWAL_INTERVAL):
        random = Random(f"{seed}:{start}")
        targets = [Target(random, compiled=compiled and number % 2 == 0) for number in range(TARGETS)]
        for number in range(start, min(count, start + RENEWAL_INTERVAL)):
            target = random.choice(targets)
            _try_input(_INPUTS[number % len(_INPUTS)], target, report, is_measured=number % 401 == 0)
            report.inputs += 1
        if progress is not None:
            progress(report.inputs)
    return report


def _try_input(process: Callable[[Target], int], target: Target, report: FuzzReport, *, is_measured: bool) -> None:
    if is_measured:
        tracemalloc.start()
    events = 0
    name = f"{process.__name__} of input {report.inputs}"
    try:
        events = process(target)
    except PeerFault as fault:
        report.refused[type(fault).__name__] += 1
    except Exception as error:
        line = traceback.extract_tb(error.__traceback__)[-1]
        report.failures.append(f"{name}: {error!r} at {Path(line.filename).name}:{line.lineno}")
    report.events += events
    if events > MAX_SOURCES * MAX_SKIP:
        report.failures.append(f"{name}: {events} events from one message")
    if is_measured:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        report.peak = max(report.peak, peak)
        if peak > MAX_BYTES + events * BYTES_PER_EVENT:
            report.failures.append(f"{name}: {peak} bytes of memory for {events} events")


def _read_frames(target: Target) -> int:
    """Read random bytes or an altered message as frames."""
    message = target.random.randbytes(target.random.randrange(64)) if target.random.random() < 0.3 else None
    parse_message(target.alter_message() if message is None else message)
    return 0


def _parse_body(target: Target) -> int:
    """Parse an altered body with the parser of its kind."""
    target.parse(*target.alter_body())
    return 0


def _decode_message(target: Target) -> int:
    """Decode an altered message. Return the number of deliveries."""
    return len(target.receive(target.alter_message()))


def _decode_sealed_body(target: Target) -> int:
    """Decode an altered body in a frame with valid checksums. Return the number of deliveries."""
    return len(target.receive(target.frame_with_valid_checksums(*target.alter_body())))


def _restore_snapshot(target: Target) -> int:
    """Restore a decoder from an altered snapshot. If that succeeds, it decodes the next inputs."""
    target.restore(target.alter_snapshot())
    return 0


_FRAME_INPUTS = (_read_frames, _parse_body, _decode_message, _decode_sealed_body, _decode_sealed_body)
_INPUTS = (*_FRAME_INPUTS, *_FRAME_INPUTS, _restore_snapshot)
