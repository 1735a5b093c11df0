"""Bytes nobody should send, by the million: whatever comes in, only errors of a peer come out.

Five ways in turn, all from one seed: any bytes and spoilt messages to the frame reader; spoilt bodies to the parser of
their kind; spoilt messages to a live subscriber; spoilt bodies in frames whose checksums were mended, so that they are
taken for good and everything behind the checks is reached; and spoilt checkpoints, mended likewise.

>>> run_fuzz(200, seed=1).failures
[]

Ways to spoil bytes, each seeded: what a broken disk, a hostile peer or a wrong version might send.

What is fuzzed: every parser of bytes, and a live subscriber that stands where it takes the next frame.
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

from thinwire.codec import Expander, State, StreamConfig, StreamDecoder, StreamEncoder, resolve, rules
from thinwire.codec import snapshot_sections as sealed
from thinwire.codec import stream_snapshot as checkpoints
from thinwire.codec.audit import decode_audit
from thinwire.errors import PeerFault
from thinwire.testing.worlds.world_sensors import WorldSensors, draw_demand, draw_schema
from thinwire.wire import (
    FrameKind,
    Heartbeat,
    KeyFrame,
    LinkState,
    Request,
    SourceState,
    Switch,
    join,
    read,
    seal,
    split,
)
from thinwire.wire import compact_body as compact
from thinwire.wire import exact_value as exact
from thinwire.wire import json_body as plain
from thinwire.wire.control_frames import MAX_SKIP
from thinwire.wire.frame import DEFLATE_SLOT
from thinwire.wire.stream_state import CHAIN, SEQUENCE

Mutation = Callable[[bytes, Random, bytes], bytes]
"""from the bytes to spoil, a generator and other valid bytes to the spoilt bytes"""

_VARINTS = (b"\xff" * 9 + b"\x01", b"\xff" * 10, b"\x80" * 10, b"\xff\xff\xff\xff\x0f", b"\x80\x80\x04", b"\x80\x00")
BOMBS = tuple(zlib.compress(bytes(size), 9, wbits=-15) for size in (1 << 12, 1 << 20, 1 << 23))


def flip(data: bytes, chance: Random, other: bytes) -> bytes:
    """Some bits change."""
    spoilt = bytearray(data or b"\0")
    for _ in range(chance.choice((1, 1, 1, 2, 8))):
        spoilt[chance.randrange(len(spoilt))] ^= 1 << chance.randrange(8)
    return bytes(spoilt)


def overwrite(data: bytes, chance: Random, other: bytes) -> bytes:
    """A byte takes another value: an extreme one, or any."""
    spoilt = bytearray(data or b"\0")
    spoilt[chance.randrange(len(spoilt))] = chance.choice((0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256)))
    return bytes(spoilt)


def truncate(data: bytes, chance: Random, other: bytes) -> bytes:
    """The end is missing."""
    return data[: chance.randrange(len(data) + 1)]


def splice(data: bytes, chance: Random, other: bytes) -> bytes:
    """The beginning of one, the end of another."""
    return data[: chance.randrange(len(data) + 1)] + other[chance.randrange(len(other) + 1) :]


def repeat(data: bytes, chance: Random, other: bytes) -> bytes:
    """A part comes several times."""
    start = chance.randrange(len(data) + 1)
    end = min(len(data), start + chance.choice((1, 4, 64)))
    return data[:start] + data[start:end] * chance.choice((2, 3, 100)) + data[end:]


def remove(data: bytes, chance: Random, other: bytes) -> bytes:
    """A part in the middle is missing."""
    start = chance.randrange(len(data) + 1)
    return data[:start] + data[start + chance.choice((1, 2, 16)) :]


def lie(data: bytes, chance: Random, other: bytes) -> bytes:
    """A number in the middle, a length perhaps, becomes huge, or endless."""
    place = chance.randrange(len(data) + 1)
    return data[:place] + chance.choice(_VARINTS) + data[place + chance.randrange(2) :]


def bomb(data: bytes, chance: Random, other: bytes) -> bytes:
    """A few bytes that unpack to very many."""
    place = chance.randrange(min(len(data), 8) + 1)
    return data[:place] + chance.choice(BOMBS)


def noise(data: bytes, chance: Random, other: bytes) -> bytes:
    """Any bytes, behind a beginning that is right."""
    return data[: chance.randrange(5)] + chance.randbytes(chance.choice((0, 1, 3, 10, 60, 500)))


MUTATIONS: tuple[Mutation, ...] = (flip, flip, overwrite, truncate, splice, repeat, remove, lie, bomb, noise)


def spoil(data: bytes, chance: Random, other: bytes) -> bytes:
    """One mutation, sometimes a few."""
    for _ in range(chance.choice((1, 1, 1, 2, 4))):
        data = chance.choice(MUTATIONS)(data, chance, other)
    return data


SOURCES = 4
MAX_SOURCES = 64
LIFE = 1


class Target:
    """One schema and demand with its valid frames, and a subscriber of them."""

    def __init__(self, chance: Random, *, compiled: bool) -> None:
        self.chance = chance
        self.schema = draw_schema(chance, odd=not compiled)
        config = StreamConfig(demand=draw_demand(self.schema, chance), audit_every=4)
        self.wide = chance.random() < 0.5
        self._compact = self._valid(config, "compact")
        self.frames = [read(frame) for frame in self._compact + self._valid(config, "json")]
        self.key = KeyFrame.decode(next(f.body for f in reversed(self.frames) if f.kind == FrameKind.KEY))
        self.compiled = compiled
        self.subscriber = self._subscriber()
        self._expander = Expander(resolve(self.schema, config.demand))
        self._sequence = 0

    def _valid(self, config: StreamConfig, form: Any) -> list[bytes]:
        """Frames of every kind that this link has."""
        sensors = WorldSensors(self.chance, sources=SOURCES, chatter=0.6, large=False)
        told = StreamConfig(demand=config.demand, audit_every=config.audit_every, format=form)
        publisher = StreamEncoder(self.schema, told, name="p", incarnation=LIFE, wide=self.wide, compiled=False)
        frames = publisher.start(0)
        for step in range(160):
            frames += publisher.publish(sensors.read(self.schema, step), step)
        return frames + publisher.heartbeat(200) + publisher.start(200)

    def spoilt_body(self) -> tuple[int, bytes]:
        """The kind and the body of a valid frame, spoilt."""
        frame, other = self.chance.choices(self.frames, k=2)
        return frame.kind, spoil(frame.body, self.chance, other.body)

    def spoilt_message(self) -> bytes:
        """A message of valid frames, spoilt."""
        if self.chance.random() < 0.02:
            return bytes((self.chance.randrange(1, 16) | 0x20, DEFLATE_SLOT, 0, 0)) + self.chance.choice(BOMBS)
        picked = self.chance.choices(self.frames, k=self.chance.choice((1, 1, 2, 5)))
        return spoil(join([frame.raw for frame in picked]), self.chance, picked[0].raw)

    def parse(self, kind: int, body: bytes) -> None:
        """Give a body to the parser of its kind, on a link of its own."""
        _PARSERS.get(kind, _parse_exact)(body, self)

    def receive(self, message: bytes) -> list[Any]:
        """Give a message to the live subscriber, which stands ready."""
        if self.subscriber.state is not State.READY:
            self._revive()
        return self.subscriber.receive(message, now=0.0)

    def mended(self, kind: int, body: bytes) -> bytes:
        """The body in a frame whose sequence, life and check are right, so that what is inside is read."""
        if self.subscriber.state is not State.READY:
            self._revive()
        assert self.subscriber.decoder_state is not None
        cells = self.subscriber.decoder_state.stream.cells
        if kind == FrameKind.KEY and self.chance.random() < 0.9:
            body = body[:-4] + crc32(body[:-4]).to_bytes(4, "big")
        body, slot = self._packed(body)
        chain = 0 if kind == FrameKind.KEY else cells[CHAIN]
        raw, _ = seal(
            kind & 0x0F, body, sequence=cells[SEQUENCE], chain=chain, incarnation=LIFE, wide=self.wide, slot=slot
        )
        return raw

    def spoilt_checkpoint(self) -> bytes:
        """A valid checkpoint, spoilt as it is or inside, where its hash fits all the same."""
        draw = self.chance.random()
        if draw < 0.2:
            return spoil(self.checkpoint, self.chance, self.checkpoint)
        if draw < 0.4:
            whole = spoil(self.checkpoint[:-16], self.chance, self.checkpoint)
            return whole + blake2b(whole, digest_size=16).digest()
        header, packed = sealed.unseal(self.checkpoint)
        views = sealed.unpack(packed, header.sizes, len(header.sizes), header.sizes[0])
        sections = [bytes(view) for view in views]
        place = self.chance.randrange(len(sections))
        sections[place] = spoil(sections[place], self.chance, self.chance.choice(sections))
        return sealed.seal(header, sections)

    def take_up(self, checkpoint: bytes) -> None:
        """Let a new subscriber stand where a checkpoint says; it receives whatever comes next."""
        subscriber = self._subscriber()
        checkpoints.restore_decoder(subscriber, checkpoint)
        self.subscriber = subscriber
        subscriber.present()
        subscriber.peek()

    def _packed(self, body: bytes) -> tuple[bytes, int | None]:
        """The body as it travels: mostly as it is, now and then deflated, or in its place a bomb."""
        draw = self.chance.random()
        if draw < 0.02:
            return self.chance.choice(BOMBS), DEFLATE_SLOT
        return (zlib.compress(body, 1, wbits=-15), DEFLATE_SLOT) if draw < 0.06 else (body, None)

    def fresh_link(self) -> tuple[LinkState, Expander]:
        """A link's state as a key frame leaves it."""
        link = LinkState(self.schema, incarnation=LIFE, wide=self.wide)
        link.restart(self.key.scales, SOURCES)
        return link, self._expander

    @cached_property
    def checkpoint(self) -> bytes:
        """Where a subscriber stands in the middle of the valid frames."""
        subscriber = self._subscriber()
        for frame in self._compact[: len(self._compact) // 2]:
            subscriber.receive(frame, now=0.0)
        return checkpoints.snapshot_decoder(subscriber)

    def _subscriber(self) -> StreamDecoder:
        return StreamDecoder([self.schema], publisher="p", compiled=self.compiled, max_sources=MAX_SOURCES)

    def _revive(self) -> None:
        """A good key frame, later than all that came before."""
        decoder_state = self.subscriber.decoder_state
        self._sequence = max(self._sequence, 0 if decoder_state is None else decoder_state.sequence) + 1
        if self._sequence > 1 << 62 or (self.subscriber.incarnation or LIFE) != LIFE:
            self.subscriber = self._subscriber()
            self._sequence = 1
        body = self.key._replace(sequence=self._sequence).encode()
        raw, _ = seal(FrameKind.KEY, body, sequence=self._sequence, chain=0, incarnation=LIFE, wide=self.wide)
        self.subscriber.receive(raw, now=0.0)
        assert self.subscriber.state is State.READY


def parse_message(message: bytes) -> None:
    """Take a message apart as far as its frames go."""
    for frame in split(message):
        try:
            read(frame)
        except PeerFault:
            continue


def _parse_compact(body: bytes, target: Target) -> None:
    link, _ = target.fresh_link()
    compact.decode(body, target.chance.random() < 0.5, link)


def _parse_introduction(body: bytes, target: Target) -> None:
    state, at = SourceState.decode(body, 0)
    target.fresh_link()[1].restore(0, state.dimensions, state.ordinal, state.columns)
    exact.decode(body, at)


def _parse_key(body: bytes, target: Target) -> None:
    key = KeyFrame.decode(body[:-4] + crc32(body[:-4]).to_bytes(4, "big"))
    rules.decode(key.rules, target.schema)
    target.fresh_link()[0].restart(key.scales, SOURCES)


def _parse_exact(body: bytes, target: Target) -> None:
    exact.decode(body, 0)


_PARSERS: dict[int, Callable[[bytes, Target], Any]] = {
    FrameKind.DATA: _parse_compact,
    FrameKind.EXCEPTION: _parse_compact,
    FrameKind.JSON: lambda body, target: plain.JsonFormat(target.schema).decode(body, SOURCES),
    FrameKind.KEY: _parse_key,
    FrameKind.INTRODUCTION: _parse_introduction,
    FrameKind.SWITCH: lambda body, target: Switch.decode(body),
    FrameKind.HEARTBEAT: lambda body, target: Heartbeat.decode(body, SOURCES),
    FrameKind.AUDIT: lambda body, target: decode_audit(body, target.schema),
    FrameKind.REQUEST: lambda body, target: Request.decode(body),
}


TARGETS = 6
RENEW_EVERY = 20_000
"""inputs after which other schemas and demands are taken"""

MAX_BYTES = 8 << 20
"""memory one input may take, apart from the events it brings"""
BYTES_AN_EVENT = 2_048

Progress = Callable[[int], None]


@dataclass
class FuzzSummary:
    """What a run of fuzzing found.

    refused: inputs that ended in an error, by its name; failures: inputs with any other outcome, ready to be replayed
    events: delivered from spoilt bytes; peak: the most memory one measured input took, in bytes
    """

    seed: int
    inputs: int = 0
    events: int = 0
    peak: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)


def run_fuzz(count: int, seed: int, progress: Progress | None = None, *, compiled: bool = True) -> FuzzSummary:
    """Try so many inputs. One in a few hundred is measured for memory: measuring costs more than parsing."""
    summary = FuzzSummary(seed)
    for start in range(0, count, RENEW_EVERY):
        chance = Random(f"{seed}:{start}")
        targets = [Target(chance, compiled=compiled and number % 2 == 0) for number in range(TARGETS)]
        for number in range(start, min(count, start + RENEW_EVERY)):
            target = chance.choice(targets)
            _try(_WAYS[number % len(_WAYS)], target, summary, measured=number % 401 == 0)
            summary.inputs += 1
        if progress is not None:
            progress(summary.inputs)
    return summary


def _try(way: Callable[[Target], int], target: Target, summary: FuzzSummary, *, measured: bool) -> None:
    if measured:
        tracemalloc.start()
    events = 0
    try:
        events = way(target)
    except PeerFault as fault:
        summary.refused[type(fault).__name__] += 1
    except Exception as problem:
        place = traceback.extract_tb(problem.__traceback__)[-1]
        where = f"{Path(place.filename).name}:{place.lineno}"
        summary.failures.append(f"{way.__name__} of input {summary.inputs}: {problem!r} at {where}")
    summary.events += events
    if events > MAX_SOURCES * MAX_SKIP:
        summary.failures.append(f"{way.__name__} of input {summary.inputs}: {events} events out of one message")
    if measured:
        _weigh(way.__name__, events, summary)


def _weigh(way: str, events: int, summary: FuzzSummary) -> None:
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    summary.peak = max(summary.peak, peak)
    if peak > MAX_BYTES + events * BYTES_AN_EVENT:
        summary.failures.append(f"{way} of input {summary.inputs}: {peak} bytes of memory for {events} events")


def _frames(target: Target) -> int:
    """Any bytes, or a spoilt message, to the reader of frames."""
    message = target.chance.randbytes(target.chance.randrange(64)) if target.chance.random() < 0.3 else None
    parse_message(target.spoilt_message() if message is None else message)
    return 0


def _bodies(target: Target) -> int:
    """A spoilt body to the parser of its kind."""
    target.parse(*target.spoilt_body())
    return 0


def _messages(target: Target) -> int:
    """A spoilt message to a live subscriber."""
    return len(target.receive(target.spoilt_message()))


def _hostile(target: Target) -> int:
    """A spoilt body in a frame whose checks are right, to a live subscriber."""
    return len(target.receive(target.mended(*target.spoilt_body())))


def _checkpoints(target: Target) -> int:
    """A spoilt checkpoint to a new subscriber, which takes what comes next if it can."""
    target.take_up(target.spoilt_checkpoint())
    return 0


_FRAMES = (_frames, _bodies, _messages, _hostile, _hostile)
_WAYS = (*_FRAMES, *_FRAMES, _checkpoints)
