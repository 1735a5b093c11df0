"""Publishing end of a stream: events to frames. No I/O and no clock; the caller passes the time.

start, reconfigure         a key frame round of the new configuration
each event                 its frame, unless every value was predicted
every max_silence          a heartbeat: watermark, full sequence and suppressed runs
key_frame_interval         the state of every source once per interval, in chunks
request                    a key frame round, at most one per second
dictionary                 a binding before its first use and after every key frame
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from thinwire.codec import Reducer, RuleSet, resolve
from thinwire.codec.audit import encode_audit, exact_values_of
from thinwire.codec.decoder_state import DecoderState
from thinwire.codec.dictionary_bindings import Packer
from thinwire.codec.frame_encoder import FrameEncoder
from thinwire.codec.row_map import RowMap
from thinwire.codec.stream_config import Counts, StreamConfig
from thinwire.codec.suppressed_runs import has_unsent_suppressed, split_runs, take_suppressed_runs
from thinwire.dictionaries import Dictionary
from thinwire.errors import ConfigError, EventRejected, TooLarge, WrongType
from thinwire.schema import Schema, is_opaque
from thinwire.schema.event import flatten
from thinwire.wire import FrameKind, Heartbeat, KeyFrame, Request, SourceState, StreamState
from thinwire.wire.frame import MAX_FRAME
from thinwire.wire.key_frame import CHUNK_BYTES
from thinwire.wire.stream_state import SEQUENCE, VALUES

REQUEST_PAUSE = 1.0
MAX_PAYLOAD = MAX_FRAME - 4
"""maximum size of a payload event: a frame without its header"""


class StreamEncoder:
    """Encodes the events of one publisher for one topic to frames.

    It owns the reducer state, the frame sequence, and the schedule of heartbeats and key frames.

    name, incarnation: identity of the publisher; each restart increments the incarnation
    wide: 16-bit sequences, for transports without gapless message numbers
    compiled: use compiled kernels if they are available
    over: the rules under which the events were decoded, if they come from a decoder; their bounds add up
    sequence: the sequence of the first frame
    rules, reducer, frame_encoder: those of the present configuration; `reconfigure` replaces them
    validated: events come from a decoder and need no validation. They may have properties that the schema does not
        have, and a source starts with the ordinal of its first event. The encoder sends no heartbeats or audits of its
        own

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
        self._last_round = -1e300
        self._audit_in = 0
        self._packer = Packer()
        config = config or StreamConfig()
        self._configure(config, resolve(schema, config.demand, over), sequence)

    def adopt(
        self,
        decoder_state: DecoderState,
        chosen: Callable[[tuple[Any, ...]], bool] | None = None,
        row_map: RowMap | None = None,
    ) -> None:
        """Start with the sources of a decoder, at its values and ordinals. Only before the first frame.

        chosen: selects sources; None for all. Properties are matched by name
        row_map: row map of other encoders for the same sources; shared if the rows agree
        """
        self.reducer.adopt(decoder_state.expander, chosen, row_map)
        self._stream.sources = self.reducer.table.rows

    def start(self, now: float) -> list[bytes]:
        """Return the frames that decoders need before the first event."""
        return self._round(now)

    def publish(self, event: Mapping[str, Any], now: float) -> list[bytes]:
        """Return the frames of an event and all frames that are due. Raises EventRejected without any effect."""
        if now >= self._packer.until:
            self._packer.expire(now)
        try:
            frames = self.frame_encoder.encode(event)
        except EventRejected:
            self.counts.rejected += 1
            raise
        self.counts.events += 1
        if self._audit_every:
            self._audit_in -= 1
            if self._audit_in < 0:
                self._audit_in = self._audit_every - 1
                frames += self._self_audit(event)
        if self.is_due(now):
            frames += self.poll(now)
        return frames

    def send(self, payload: bytes, now: float) -> list[bytes]:
        """Return the frames of a payload event, on a topic without a schema."""
        if not is_opaque(self.schema):
            raise WrongType("payloads need a topic without a schema", topic=self.schema.name)
        if len(payload) > MAX_PAYLOAD:
            raise TooLarge("payload", size=len(payload), limit=MAX_PAYLOAD)
        if now >= self._packer.until:
            self._packer.expire(now)
        frames = self.heartbeat(now) if self.has_unsent_suppressed else []
        frames.append(self.frame_encoder.payload(payload))
        self.counts.events += 1
        if self.is_due(now):
            frames += self.poll(now)
        return frames

    def use(self, dictionary: Dictionary, slot: int, expires: float = 0) -> list[bytes]:
        """Bind a dictionary and pack with it if it expires later than the others.

        slot: its number in frames, 1 to 255; a previous binding of the slot is replaced
        expires: expiry in seconds since 1970, 0 for never. The same slot with a later expiry prolongs it
        """
        return [self.frame_encoder.frame(FrameKind.BINDING, self._packer.use(dictionary, slot, expires).encode())]

    def await_dictionaries(self, awaited: bool = True) -> None:
        """Pack complete bodies before there is a dictionary, so that the trainer samples bodies in their final form."""
        self._packer.awaited = awaited

    def drop(self, slot: int) -> None:
        """Stop packing with the dictionary of a slot. Decoders keep it until the next key frame."""
        self._packer.drop(slot)

    @property
    def due(self) -> float:
        """The time of the next heartbeat or key frame."""
        return min(self._next_heartbeat, self._next_key)

    def is_due(self, now: float) -> bool:
        return now >= self._next_heartbeat or now >= self._next_key

    def poll(self, now: float) -> list[bytes]:
        """Return the frames that are due without an event."""
        frames: list[bytes] = []
        if now >= self._next_heartbeat:
            frames += self.heartbeat(now)
        if now >= self._next_key:
            frames += self._next_chunk(now)
        return frames

    def heartbeat(self, now: float, watermark: float | None = None) -> list[bytes]:
        """Return heartbeat frames with all unsent suppressed runs.

        watermark: the time in seconds up to which all sources are complete, if it is not `now`. A validated encoder has
            no watermark of its own
        """
        if not self.validated:
            self._next_heartbeat = now + self.config.max_silence
        if now >= self._packer.until:
            self._packer.expire(now)
        if watermark is None:
            reached = self._watermark if self.validated else int(now * 1000)
        else:
            reached = round(watermark * 1000)
        parts = split_runs(take_suppressed_runs(self.reducer.table))
        frames = []
        for number, part in enumerate(parts, start=1):
            if number == len(parts):
                self._watermark = reached
            body = Heartbeat(self._stream.cells[SEQUENCE], self._watermark, part).encode()
            frames.append(self.frame_encoder.frame(FrameKind.HEARTBEAT, body, packed=True))
        return frames

    def audit(self, source: tuple[Any, ...], exacts: Mapping[str, Any]) -> list[bytes]:
        """Return an audit frame with exact values of a source's last event; nothing for an unknown source."""
        row = self.reducer.row_of(source)
        if row is None:
            return []
        values = tuple(exacts.get(p.name) for p in self.schema.wire)
        body = encode_audit(row, self.reducer.take_suppressed(row), values)
        return [self.frame_encoder.frame(FrameKind.AUDIT, body, packed=True)]

    def reconfigure(self, config: StreamConfig, now: float, over: RuleSet | None = None) -> list[bytes]:
        """Change the configuration without a gap: send suppressed runs, then continue from the same state."""
        if config.version <= self.config.version:
            raise ConfigError(
                "a new configuration needs a higher version", version=config.version, present=self.config.version
            )
        rules = resolve(self.schema, config.demand, over)
        frames = self.heartbeat(now)
        old = self.reducer
        values = self._stream.cells[VALUES]
        self._configure(config, rules, self.sequence, old.row_map)
        self.reducer.continue_from(old)
        self._stream.sources = old.table.rows
        self._stream.cells[VALUES] = values
        return frames + self._round(now)

    def answer(self, request: Request, now: float) -> list[bytes]:
        """Return key frames for a request. Requests within one second share a round."""
        if now - self._last_round < REQUEST_PAUSE:
            return []
        return self._round(now)

    @property
    def sequence(self) -> int:
        """The sequence of the next frame."""
        return self._stream.cells[SEQUENCE]

    @property
    def has_unsent_suppressed(self) -> bool:
        """Whether there are suppressed events that no frame has reported."""
        return has_unsent_suppressed(self.reducer.table)

    @property
    def suppressed_events(self) -> int:
        """Number of events that needed no frame."""
        return self.reducer.suppressed

    @property
    def suppressed_values(self) -> int:
        """Number of values that were not sent because they were predicted."""
        return self.counts.events * len(self.schema.wire) - self._stream.cells[VALUES]

    def count_suppressed(self, events: int) -> None:
        """Count events of the stream that were suppressed without being published, see `Reducer.advance_to`."""
        self.reducer.suppressed += events
        self.counts.events += events

    def _configure(self, config: StreamConfig, rules: RuleSet, sequence: int, row_map: RowMap | None = None) -> None:
        self.config = config
        self._audit_every = 0 if self.validated else config.audit_every
        self.rules = rules
        self.reducer = Reducer(
            rules,
            late_policy="accept" if self.validated else config.late_policy,
            max_sources=config.max_sources,
            validated=self.validated,
            row_map=row_map,
        )
        self._stream = StreamState(self.schema, incarnation=self.incarnation, wide=self._wide)
        self._stream.cells[SEQUENCE] = sequence
        json = config.format == "json"
        self.frame_encoder = FrameEncoder(
            self.reducer, self._stream, self.counts, self._packer, json=json, compiled=self._compiled
        )

    def _round(self, now: float) -> list[bytes]:
        self._last_round = now
        self._cursor = 0
        frames = self._next_chunk(now)
        while self._cursor:
            frames += self._next_chunk(now)
        return frames

    def _next_chunk(self, now: float) -> list[bytes]:
        """Return the next chunk of the key frame round and the current bindings. The next chunk is due after a
        proportional share of the interval, so that a round takes one interval."""
        total = self.reducer.table.rows
        first, states, size = self._cursor, [], 0
        while self._cursor < total and size < CHUNK_BYTES:
            self.reducer.take_suppressed(self._cursor)
            state = self.reducer.source_state(self._cursor)
            states.append(state)
            size += len(state.dimensions) + len(state.columns) + 12
            self._cursor += 1
        share = (self._cursor - first) / total if total else 1.0
        self._next_key = now + self.config.key_frame_interval * share
        if self._cursor >= total:
            self._cursor = 0
        self._packer.expire(now)
        key = self._key_frame(first, tuple(states), total)
        return [key, *(self.frame_encoder.frame(FrameKind.BINDING, b.encode()) for b in self._packer.active())]

    def _key_frame(self, first: int, states: tuple[SourceState, ...], total: int) -> bytes:
        stream, encoder = self._stream, self.frame_encoder
        levels = stream.level_bytes()
        key = KeyFrame(
            self.incarnation,
            stream.cells[SEQUENCE],
            self.config.version,
            self.schema.fingerprint,
            self.rules.encode(),
            levels,
            total,
            first,
            states,
        )
        raw = encoder.frame(FrameKind.KEY, key.encode(), chain=0, packed=True)
        stream.restart(levels, total)
        return raw

    def _self_audit(self, event: Mapping[str, Any]) -> list[bytes]:
        flat = flatten(event, self.schema) if self.schema.nested else event
        return self.audit(tuple(flat[p.name] for p in self.schema.dimensions), exact_values_of(flat, self.rules))
