"""What is fuzzed: every parser of bytes, and a live subscriber that stands where it takes the next frame."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from functools import cached_property
from hashlib import blake2b
from random import Random
from typing import Any
from zlib import crc32

from thinwire.codec import Expander, LinkConfig, Publisher, State, Subscriber, resolve, rules
from thinwire.codec import deliveries_audits as audits
from thinwire.codec import snapshot_sections as sealed
from thinwire.codec import stream_snapshot as checkpoints
from thinwire.errors import PeerFault
from thinwire.testing.fuzz_fuzz_mutations import BOMBS, spoil
from thinwire.testing.worlds.world_sensors_world_readings import Sensors, draw_demand, draw_schema
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
from thinwire.wire.frame_packing import DEFLATE_SLOT
from thinwire.wire.stream_state import CHAIN, SEQUENCE

SOURCES = 4
MAX_SOURCES = 64
LIFE = 1


class Target:
    """One schema and demand with its valid frames, and a subscriber of them."""

    def __init__(self, chance: Random, *, compiled: bool) -> None:
        self.chance = chance
        self.schema = draw_schema(chance, odd=not compiled)
        config = LinkConfig(demand=draw_demand(self.schema, chance), audit_every=4)
        self.wide = chance.random() < 0.5
        self._compact = self._valid(config, "compact")
        self.frames = [read(frame) for frame in self._compact + self._valid(config, "json")]
        self.key = KeyFrame.decode(next(f.body for f in reversed(self.frames) if f.kind == FrameKind.KEY))
        self.compiled = compiled
        self.subscriber = self._subscriber()
        self._expander = Expander(resolve(self.schema, config.demand))
        self._sequence = 0

    def _valid(self, config: LinkConfig, form: Any) -> list[bytes]:
        """Frames of every kind that this link has."""
        sensors = Sensors(self.chance, sources=SOURCES, chatter=0.6, large=False)
        told = LinkConfig(demand=config.demand, audit_every=config.audit_every, format=form)
        publisher = Publisher(self.schema, told, name="p", incarnation=LIFE, wide=self.wide, compiled=False)
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
        assert self.subscriber.replica is not None
        cells = self.subscriber.replica.link.cells
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
        checkpoints.into_subscriber(subscriber, checkpoint)
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
        return checkpoints.of_subscriber(subscriber)

    def _subscriber(self) -> Subscriber:
        return Subscriber([self.schema], publisher="p", compiled=self.compiled, max_sources=MAX_SOURCES)

    def _revive(self) -> None:
        """A good key frame, later than all that came before."""
        replica = self.subscriber.replica
        self._sequence = max(self._sequence, 0 if replica is None else replica.sequence) + 1
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
    FrameKind.JSON: lambda body, target: plain.Spelling(target.schema).decode(body, SOURCES),
    FrameKind.KEY: _parse_key,
    FrameKind.INTRODUCTION: _parse_introduction,
    FrameKind.SWITCH: lambda body, target: Switch.decode(body),
    FrameKind.HEARTBEAT: lambda body, target: Heartbeat.decode(body, SOURCES),
    FrameKind.AUDIT: lambda body, target: audits.decode(body, target.schema),
    FrameKind.REQUEST: lambda body, target: Request.decode(body),
}
