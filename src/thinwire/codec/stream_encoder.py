"""The publishing end of a link: events in, frames out. No I/O, no clock: the caller says what time it is.

What a publisher owes its readers, and when:

    start, reconfiguration     a key frame round of the new configuration
    an event                   its frame, unless everything in it was expected
    every max_silence          a heartbeat: watermark, full sequence, and what was passed over in silence
    over key_frame_interval    the state of every source, chunk by chunk
    a request                  a whole round of key frames, at most one a second
    a dictionary               a binding, before its first use and behind every key frame
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from thinwire.codec import Expander, Reducer, RuleSet, resolve
from thinwire.codec import deliveries as audits
from thinwire.codec import frame_encoder as silence
from thinwire.codec.frame_encoder import Encoder, Packer
from thinwire.codec.source_table import Roster
from thinwire.codec.stream_config import Counts, StreamConfig
from thinwire.codec.value_conversion import converter
from thinwire.dictionaries import Dictionary
from thinwire.errors import ConfigError, EventRejected, TooLarge, WrongType
from thinwire.schema import Schema, is_opaque
from thinwire.schema.event import flatten
from thinwire.wire import FrameKind, Heartbeat, KeyFrame, LinkState, Request, SourceState
from thinwire.wire.frame import MAX_FRAME
from thinwire.wire.key_frame import CHUNK_BYTES
from thinwire.wire.stream_state import SEQUENCE, VALUES

REQUEST_PAUSE = 1.0
MAX_PAYLOAD = MAX_FRAME - 4
"""bytes of an event of a topic without a schema, at most: a frame without its header"""


class StreamEncoder:
    """One publisher's frames for one topic.

    name, incarnation: who speaks, and which life of it; a restarted publisher counts its incarnation up
    wide: 16-bit sequences, for transports that do not number their messages gaplessly
    compiled: use the compiled kernels where they apply
    over: the rules under which its events were told, where they come from a decoder; bounds add up
    sequence: the number of its first frame
    validated: its events come from a decoder. They are known to be good, may carry properties that the schema does not
        have, and a source begins with the number its first event has. Heartbeats and audits are the decoder's to pass
        on: none is made here

    >>> from thinwire.schema import Property
    >>> rooms = Schema("rooms", [Property("room", "string", "dimension"), Property("t", "number", step="0.1")])
    >>> publisher = StreamEncoder(rooms, name="p1", incarnation=1, now=0.0, compiled=False)
    >>> frames = publisher.start(now=0.0) + publisher.publish({"room": "11.1", "t": 20.5}, now=0.0)
    >>> publisher.publish({"room": "11.1", "t": 20.5}, now=1.0)
    []
    >>> [len(frame) for frame in publisher.publish({"room": "11.1", "t": 20.6}, now=2.0)]
    [4]
    """

    def __init__(
        self,
        schema: Schema,
        config: StreamConfig | None = None,
        *,
        name: str = "publisher",
        incarnation: int = 1,
        wide: bool = False,
        now: float = 0.0,
        compiled: bool = True,
        over: RuleSet | None = None,
        sequence: int = 0,
        validated: bool = False,
    ) -> None:
        self.schema = schema
        self.name = name
        self.incarnation = incarnation
        self.validated = validated
        self.counts = Counts()
        self._compiled = compiled
        self._wide = wide
        self._next_heartbeat = math.inf if validated else now
        self._next_key = now
        self._cursor = 0
        self._watermark = 0
        self._suppressed_before = 0
        self._values_before = 0
        self._last_round = -1e300
        self._audit_in = 0
        self._packer = Packer()
        config = config or StreamConfig()
        self._configure(config, resolve(schema, config.demand, over), sequence)

    def adopt(
        self,
        expander: Expander,
        chosen: Callable[[tuple[Any, ...]], bool] | None = None,
        roster: Roster | None = None,
    ) -> None:
        """Before anything is told: take over the sources an expander knows, with the values and numbers it has.

        chosen: which sources; all of them where it is not given. Properties are found by their names.
        roster: of other publishers that tell of the same sources, which is shared where they have the same rows
        """
        self._encoder.reducer.adopt(expander, chosen, roster)
        self._link.sources = self._encoder.reducer.columns.rows

    def start(self, now: float) -> list[bytes]:
        """What readers need before the first event."""
        return self._round(now)

    def publish(self, event: Mapping[str, Any], now: float) -> list[bytes]:
        """The frames of an event, and whatever else is due. Raises EventRejected, and nothing has changed then."""
        if now >= self._packer.until:
            self._drop_expired_dictionaries(now)
        try:
            frames = self._encoder.encode(event)
        except EventRejected:
            self.counts.rejected += 1
            raise
        self.counts.events += 1
        if self._audit_every:
            self._audit_in -= 1
            if self._audit_in < 0:
                self._audit_in = self._audit_every - 1
                frames.append(self._self_audit(event))
        if self.is_due(now):
            frames += self.poll(now)
        return frames

    def send(self, payload: bytes, now: float) -> list[bytes]:
        """The same for an event that is nothing but bytes, on a topic without a schema."""
        if not is_opaque(self.schema):
            raise WrongType("bytes are for topics without a schema; this one has one", topic=self.schema.name)
        if len(payload) > MAX_PAYLOAD:
            raise TooLarge("payload", size=len(payload), limit=MAX_PAYLOAD)
        if now >= self._packer.until:
            self._drop_expired_dictionaries(now)
        frames = self.heartbeat(now) if self.has_unsent_suppressed else []
        frames.append(self._encoder.payload(payload))
        self.counts.events += 1
        if self.is_due(now):
            frames += self.poll(now)
        return frames

    def use(self, dictionary: Dictionary, slot: int, expires: float = 0) -> list[bytes]:
        """Pack with a dictionary from here on, if its expiry lies farther ahead than that of the others.

        slot: its name in frames, 1 to 255; what it named before is forgotten
        expires: the time (seconds since 1970) from which on it is not used; 0 for never. Once more with the same slot
            and a later time prolongs it
        """
        binding = self._packer.use(dictionary, slot, expires)
        self._link.whole_texts = self._packer.ready
        return [self._encoder.frame(FrameKind.BINDING, binding.encode())]

    def await_dictionaries(self, awaited: bool = True) -> None:
        """Pack bodies as a whole from here on, although there is no dictionary: those who look for one see in the log
        what would be packed with it."""
        self._packer.awaited = awaited
        self._link.whole_texts = self._packer.ready

    def drop(self, slot: int) -> None:
        """Pack no more with the dictionary of this slot; it is still known to readers until the next key frame."""
        self._packer.drop(slot)
        self._link.whole_texts = self._packer.ready

    @property
    def due(self) -> float:
        """When the next heartbeat or key frame is due."""
        return min(self._next_heartbeat, self._next_key)

    def is_due(self, now: float) -> bool:
        """Is a heartbeat or a key frame due?"""
        return now >= self._next_heartbeat or now >= self._next_key

    def poll(self, now: float) -> list[bytes]:
        """What is due at this time although nothing happened."""
        frames: list[bytes] = []
        if now >= self._next_heartbeat:
            frames += self.heartbeat(now)
        if now >= self._next_key:
            frames += self._next_chunk(now)
        return frames

    def heartbeat(self, now: float, watermark: float | None = None) -> list[bytes]:
        """All events up to now are told: what was passed over in silence, and that nothing else happened.

        watermark: the time (seconds) up to which sources are complete, where that is not now. A trusting publisher
            knows of none but those it is given
        """
        if not self.validated:
            self._next_heartbeat = now + self.config.max_silence
        if now >= self._packer.until:
            self._drop_expired_dictionaries(now)
        reached = self._reached(now, watermark)
        parts = silence.parts(silence.take_suppressed_runs(self._encoder.reducer.columns))
        frames = []
        for number, part in enumerate(parts, start=1):
            if number == len(parts):
                self._watermark = reached
            body = Heartbeat(self._link.cells[SEQUENCE], self._watermark, part).encode()
            frames.append(self._encoder.frame(FrameKind.HEARTBEAT, body, packed=True))
        return frames

    def audit(self, source: tuple[Any, ...], exacts: Mapping[str, Any]) -> list[bytes]:
        """The truth about a source's last event, by property and as it travels; nothing where the source is unknown."""
        row = self._encoder.reducer.row_of(source)
        return [] if row is None else [self._audit(row, tuple(exacts.get(p.name) for p in self.schema.wire))]

    def reconfigure(self, config: StreamConfig, now: float, over: RuleSet | None = None) -> list[bytes]:
        """Go over to another configuration without a gap: tell what is untold, then start from the same state."""
        if config.version <= self.config.version:
            raise ConfigError(
                "a new configuration needs a higher version", version=config.version, present=self.config.version
            )
        rules = resolve(self.schema, config.demand, over)
        frames = self.heartbeat(now)
        old = self._encoder.reducer
        self._suppressed_before += old.suppressed
        self._values_before += self._link.cells[VALUES]
        self._configure(config, rules, self.sequence, old.roster)
        self._encoder.reducer.take_over(old)
        self._link.sources = old.columns.rows
        return frames + self._round(now)

    def answer(self, request: Request, now: float) -> list[bytes]:
        """Key frames for a reader that lost its way; readers that ask within a second share a round."""
        if now - self._last_round < REQUEST_PAUSE:
            return []
        return self._round(now)

    @property
    def sequence(self) -> int:
        """The number of the next frame."""
        return self._link.cells[SEQUENCE]

    @property
    def has_unsent_suppressed(self) -> bool:
        """Were events passed over in silence that no frame has told of yet?"""
        return silence.has_unsent_suppressed(self._encoder.reducer.columns)

    @property
    def suppressed_events(self) -> int:
        """Events that needed no frame of their own."""
        return self._suppressed_before + self._encoder.reducer.suppressed

    @property
    def suppressed_values(self) -> int:
        """Values that did not travel because they were expected."""
        told = self._values_before + self._link.cells[VALUES]
        return self.counts.events * len(self.schema.wire) - told

    @property
    def encoder(self) -> Encoder:
        """The part that turns events into frames, for batches."""
        return self._encoder

    def _configure(self, config: StreamConfig, rules: RuleSet, sequence: int, roster: Roster | None = None) -> None:
        self.config = config
        self._audit_every = 0 if self.validated else config.audit_every
        reducer = Reducer(
            rules,
            late_policy="accept" if self.validated else config.late_policy,
            max_sources=config.max_sources,
            validated=self.validated,
            roster=roster,
        )
        self._link = LinkState(self.schema, incarnation=self.incarnation, wide=self._wide)
        self._link.cells[SEQUENCE] = sequence
        self._link.whole_texts = self._packer.ready
        spell_out = config.format == "json"
        self._encoder = Encoder(
            reducer, self._link, self.counts, self._packer, spell_out=spell_out, compiled=self._compiled
        )
        self._converters = [converter(p) for p in self.schema.wire]

    def _drop_expired_dictionaries(self, now: float) -> None:
        """Do without the dictionaries that have expired."""
        self._packer.expire(now)
        self._link.whole_texts = self._packer.ready

    def _round(self, now: float) -> list[bytes]:
        self._last_round = now
        self._cursor = 0
        frames = self._next_chunk(now)
        while self._cursor:
            frames += self._next_chunk(now)
        return frames

    def _next_chunk(self, now: float) -> list[bytes]:
        """One chunk of the round under way, and what slots name; the next is due in proportion, so that a round takes
        one interval."""
        total = self._encoder.reducer.columns.rows
        first, states, size = self._cursor, [], 0
        while self._cursor < total and size < CHUNK_BYTES:
            state = self._encoder.source_state(self._cursor)
            states.append(state)
            size += len(state.dimensions) + len(state.columns) + 12
            self._cursor += 1
        share = (self._cursor - first) / total if total else 1.0
        self._next_key = now + self.config.key_frame_interval * share
        if self._cursor >= total:
            self._cursor = 0
        self._drop_expired_dictionaries(now)
        key = self._key_frame(first, tuple(states), total)
        return [key, *(self._encoder.frame(FrameKind.BINDING, b.encode()) for b in self._packer.in_force())]

    def _key_frame(self, first: int, states: tuple[SourceState, ...], total: int) -> bytes:
        link, encoder = self._link, self._encoder
        levels = link.level_bytes()
        key = KeyFrame(
            self.incarnation,
            link.cells[SEQUENCE],
            self.config.version,
            self.schema.fingerprint,
            encoder.reducer.rules.encode(),
            levels,
            total,
            first,
            states,
        )
        raw = encoder.frame(FrameKind.KEY, key.encode(), chain=0, packed=True)
        link.restart(levels, total)
        return raw

    def _reached(self, now: float, watermark: float | None) -> int:
        """The watermark of the next heartbeat, in milliseconds."""
        if watermark is not None:
            return round(watermark * 1000)
        return self._watermark if self.validated else int(now * 1000)

    def _self_audit(self, event: Mapping[str, Any]) -> bytes:
        reducer = self._encoder.reducer
        flat = flatten(event, self.schema) if self.schema.nested else event
        row = reducer.roster.rows[tuple(flat[p.name] for p in self.schema.dimensions)]
        return self._audit(row, audits.exacts_of(flat, reducer.rules.rules, self._converters))

    def _audit(self, row: int, exacts: audits.Exacts) -> bytes:
        reducer = self._encoder.reducer
        return self._encoder.frame(FrameKind.AUDIT, audits.encode(row, reducer.skipped(row), exacts), packed=True)
