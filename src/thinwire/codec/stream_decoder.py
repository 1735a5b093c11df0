"""Receiving end of a stream: frames to events and losses.

    state      key frame                next frame in order         any other frame
    WAITING    -> PARTIAL or READY      (no order yet)              ignored, counted
    PARTIAL    -> READY when complete   events of known sources     duplicate: dropped, otherwise -> WAITING
    READY      verified                 events                      duplicate: dropped, otherwise -> WAITING

WAITING ends with a key frame, which the decoder requests (resync="request") or waits for (resync="wait").
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from enum import StrEnum
from typing import Literal, NamedTuple

from thinwire.codec.decoder_state import DecoderState
from thinwire.codec.deliveries import ChangedEvents, Delivery, EventsMissed
from thinwire.codec.dictionary_bindings import FindDictionary, no_dictionaries
from thinwire.codec.frame_handlers import handle_frame, handle_json_frames
from thinwire.codec.frame_sequencer import check_key_frame
from thinwire.codec.reducer import MAX_SOURCES
from thinwire.codec.stream_config import Counts
from thinwire.codec.succession import DeliveredOrdinals, Succession
from thinwire.errors import CorruptFrame, PeerFault, UnknownDictionary, UnknownSchema
from thinwire.schema import Event, Schema
from thinwire.wire import Frame, FrameKind, KeyFrame, Request, join, read, split
from thinwire.wire.frame import PACKED, is_known, size_in_batch

REQUEST_INTERVAL = 2.0
"""seconds between two requests for key frames"""

_LONG_AGO = -1e300


class State(StrEnum):
    """How much of a publisher's state a decoder has: nothing, some sources, or all of them."""

    WAITING = "waiting"
    PARTIAL = "partial"
    READY = "ready"


class _PendingFrame(NamedTuple):
    """A frame that waits for its dictionary: its message, the byte and the index of the frame in it."""

    message: bytes
    at: int
    number: int
    is_skipped: bool = False


class StreamDecoder:
    """Decodes the frames of one publisher to events and reports losses.

    It owns the decoder state of the publisher, the requests for key frames, and the recovery after a gap.

    schemas: known schemas, or a function from a fingerprint to a schema (None if it is unknown)
    resync: "request" asks the publisher for key frames after a loss, "wait" waits for the next ones
    max_sources: limit on the sources of a key frame
    include_suppressed: deliver suppressed events; they are rebuilt from the predictors. Without them, only their
        ordinals are counted. It may change at any time
    dictionaries: a function from a hash to a dictionary (None if it is not available yet)

    >>> from thinwire.schema import Property
    >>> from thinwire.codec import StreamEncoder
    >>> rooms = Schema("rooms", [Property("room", "string", "dimension"), Property("t", "number", step="0.1")])
    >>> encoder = StreamEncoder(rooms, name="p1", compiled=False)
    >>> decoder = StreamDecoder([rooms], publisher="p1", compiled=False)
    >>> frames = encoder.start(now=0) + encoder.publish({"room": "11.1", "t": 20.5}, now=0)
    >>> [dict(event) for frame in frames for event in decoder.receive(frame, now=0) if isinstance(event, Event)]
    [{'room': '11.1', 't': 20.5}]
    """

    def __init__(
        self,
        schemas: list[Schema] | Callable[[bytes], Schema | None],
        *,
        publisher: str = "",
        resync: Literal["request", "wait"] = "request",
        compiled: bool = True,
        max_sources: int = MAX_SOURCES,
        include_suppressed: bool = True,
        dictionaries: FindDictionary = no_dictionaries,
    ) -> None:
        self.publisher = publisher
        self.resync = resync
        self.max_sources = max_sources
        self.counts = Counts()
        self.state = State.WAITING
        self.decoder_state: DecoderState | None = None
        self.position: int | None = None
        """the transport's number of the last message, if it has one"""
        self.changed_events: ChangedEvents | None = None
        """the events of the last message, if it contains only events that are verified changes"""
        self._schemas = schemas if callable(schemas) else {schema.fingerprint: schema for schema in schemas}.get
        self._compiled = compiled
        self._include_suppressed = include_suppressed
        self._dictionaries = dictionaries
        self.delivered = DeliveredOrdinals()
        self._succession = Succession(publisher, self.counts, self.delivered)
        self._expects_successor = False
        self._pending: _PendingFrame | None = None
        self._undelivered: list[Delivery] = []
        self._next_request = _LONG_AGO

    @property
    def include_suppressed(self) -> bool:
        return self._include_suppressed

    @include_suppressed.setter
    def include_suppressed(self, wanted: bool) -> None:
        self._include_suppressed = wanted
        if self.decoder_state is not None:
            self.decoder_state.include_suppressed = wanted

    @property
    def bound(self) -> Mapping[str, float | None]:
        """The current bound of every property; empty before the first key frame."""
        return self.decoder_state.expander.bounds if self.decoder_state is not None else {}

    @property
    def incarnation(self) -> int | None:
        """The publisher's incarnation; None before the first key frame."""
        return self.decoder_state.incarnation if self.decoder_state is not None else None

    @property
    def config_version(self) -> int | None:
        """The version of the publisher's configuration; None before the first key frame."""
        return self.decoder_state.config_version if self.decoder_state is not None else None

    def receive(self, message: bytes, *, now: float, position: int | None = None) -> list[Delivery]:
        """Decode a broker message. `position` is the transport's gapless message number, if it has one.

        Raises UnknownDictionary with a `hash` if a frame needs a dictionary that is not available. Pass the same
        message again when it is available, or after `skip_pending_frame`; decoding resumes at that frame.
        """
        out, self._undelivered = self._undelivered, []
        self.changed_events = None
        pending, self._pending = self._pending, None
        if pending is not None and pending.message != message:
            pending = None
            self._lose("unknown dictionary", out)
        if pending is None and position is not None and not self._accept_position(position, out):
            return out
        try:
            if pending is not None:
                self._resume_message(pending, out)
            else:
                self._decode_message(message, out)
        except PeerFault:
            self._undelivered = out  # delivered with the next message
            raise
        return out

    def watch(self, names: Collection[str]) -> None:
        """Leave out events that verifiably change none of these properties; () delivers all of them.

        It ends with a key frame that starts a new state. See `changed_events`.
        """
        if self.decoder_state is not None:
            self.decoder_state.watch(names)

    def poll(self, now: float) -> list[bytes]:
        """Return the requests for key frames that are due while the state is incomplete."""
        if self.resync != "request" or self.state is State.READY or now < self._next_request:
            return []
        self._next_request = now + REQUEST_INTERVAL
        sequence = self.decoder_state.sequence if self.decoder_state is not None else 0
        body = Request(self.incarnation or 0, sequence).encode()
        return [bytes((FrameKind.REQUEST, 0, 0)) + body]

    def current_events(self) -> list[Event]:
        """Return the last event of every known source."""
        return [state.expander.current(row) for state, row in self._rows_with_state()]

    def peek(self) -> list[Event]:
        """Return the predicted next event of every known source, provisional and without bounds."""
        return [state.expander.predict_next(row) for state, row in self._rows_with_state()]

    def _rows_with_state(self) -> Iterator[tuple[DecoderState, int]]:
        state = self.decoder_state
        if state is not None:
            yield from ((state, row) for row in state.expander.known() if state.has_state(row))

    def mark_lost(self, reason: str) -> list[Delivery]:
        """Drop the state because messages are missing. Decoding continues with the next key frame."""
        out, self._undelivered = self._undelivered, []
        self._pending = None
        self._lose(reason, out)
        return out

    def skip_pending_frame(self) -> None:
        """Treat the frame that waits for a dictionary as lost when its message is received again."""
        if self._pending is not None:
            self._pending = self._pending._replace(is_skipped=True)

    def expect_successor(self) -> None:
        """Treat the next round of key frames as those of a process that continues the stream, not as a gap.

        The events that the former process suppressed are delivered within its bounds. Then the new state replaces the
        former one without an event. A decoder that is WAITING ignores the call.
        """
        self._expects_successor = self.state is not State.WAITING

    def new_state(self, key: KeyFrame, *, wide: bool) -> DecoderState:
        """Return an empty state for the stream that a key frame describes. Raises UnknownSchema."""
        schema = self._schemas(key.fingerprint)
        if schema is None:
            raise UnknownSchema(fingerprint=key.fingerprint.hex(), publisher=self.publisher)
        state = DecoderState(key, schema, self.publisher, wide=wide, compiled=self._compiled, find=self._dictionaries)
        state.include_suppressed = self._include_suppressed
        return state

    def restore(self, decoder_state: DecoderState, delivered: DeliveredOrdinals, position: int | None) -> None:
        """Continue from a complete state, such as that of a snapshot. Only before the first key frame."""
        if self.decoder_state is not None:
            raise ValueError("this decoder already has a state; create a new one")
        self.decoder_state, self.position = decoder_state, position
        self.delivered.update(delivered)
        self.state = State.READY

    def _decode_message(self, message: bytes, out: list[Delivery]) -> None:
        """Decode runs of data frames with the compiled decoder, and the frames between them one at a time."""
        is_first = not out
        at, number = self._decode_data_frames(message, 0, out)
        if number and at == len(message):
            if is_first and self.decoder_state is not None:
                self.changed_events = self.decoder_state.changed_events
            return
        try:
            frames = split(message)
        except CorruptFrame:
            self._lose("corrupt", out)
            return
        self._decode_frames(message, frames, at or 1, number, out)

    def _resume_message(self, pending: _PendingFrame, out: list[Delivery]) -> None:
        """Continue a message at the frame that waited for a dictionary."""
        message, at, number, is_skipped = pending
        frames = split(message)
        if is_skipped:
            self.counts.add(frames[number])
            self._lose("unknown dictionary", out)
            at, number = at + size_in_batch(frames[number]), number + 1
        self._decode_frames(message, frames, at, number, out)

    def _check_dictionary(self, pending: _PendingFrame, raw: bytes) -> None:
        """Stop before a frame whose dictionary is not available."""
        binding = self.decoder_state.missing_dictionary(raw) if self.decoder_state is not None else None
        if binding is not None and self.state is not State.WAITING:
            self._pending = pending
            raise UnknownDictionary(slot=binding.slot, hash=binding.hash.hex(), publisher=self.publisher)

    def _decode_frames(self, message: bytes, frames: list[bytes], at: int, number: int, out: list[Delivery]) -> None:
        """Decode the frames of a message from index `number`, which begins at byte `at`."""
        while number < len(frames):
            head = frames[number][0] if frames[number] else 0
            if head & 0x0F == FrameKind.JSON and (decoded := self._decode_json_frames(frames, number, out)):
                at += sum(map(size_in_batch, decoded))
                number += len(decoded)
                continue
            if head & PACKED:
                self._check_dictionary(_PendingFrame(message, at, number), frames[number])
            self._decode_frame(frames[number], out)
            at += size_in_batch(frames[number])
            number += 1
            if number < len(frames) and frames[number][0] & 0x0F == FrameKind.DATA:
                at, count = self._decode_data_frames(message, at, out)
                number += count

    def _decode_data_frames(self, message: bytes, at: int, out: list[Delivery]) -> tuple[int, int]:
        """Decode data frames from byte `at` with the compiled decoder. Return the byte after them and their number."""
        if self.state is not State.READY or self.decoder_state is None:
            return at, 0
        before = len(out)
        at, frames, size = self.decoder_state.decode_data_frames(message, at, out)
        self.counts.frames += frames
        self.counts.data_bytes += size
        self.counts.events += len(out) - before
        return at, frames

    def _decode_json_frames(self, frames: list[bytes], number: int, out: list[Delivery]) -> list[bytes]:
        """Decode the run of JSON frames from index `number` and return the frames decoded."""
        decoder_state = self.decoder_state
        if self.state is not State.READY or decoder_state is None:
            return []
        before, sequence = len(out), decoder_state.sequence
        is_corrupt = False
        try:
            handle_json_frames(decoder_state, frames, number, out)
        except CorruptFrame:
            is_corrupt = True
        decoded = frames[number : number + decoder_state.sequence - sequence]
        if decoded:
            decoder_state.sequencer.dedup.add(sequence, join(decoded), len(decoded))
            self.counts.add_all_data(decoded)
            self.counts.events += len(out) - before
        if is_corrupt:
            self._lose("corrupt", out)
        return decoded

    def _decode_frame(self, raw: bytes, out: list[Delivery]) -> None:
        self.counts.add(raw)
        try:
            self._dispatch(read(raw), out)
        except UnknownSchema:
            self._lose("unknown schema", out)
            raise
        except CorruptFrame:
            self._lose("corrupt", out)
        except PeerFault:
            self._lose("refused", out)
            raise

    def _dispatch(self, frame: Frame, out: list[Delivery]) -> None:
        decoder_state = self.decoder_state
        if frame.kind == FrameKind.KEY:
            self._apply_key_frame(frame, out)
        elif frame.kind == FrameKind.REQUEST or decoder_state is None or self.state is State.WAITING:
            self.counts.unknown_frames += 1
        elif decoder_state.sequencer.accept(frame):
            self.counts.unknown_frames += not is_known(frame.kind)
            self._succession.drop_predecessors()
            before = len(out)
            try:
                handle_frame(decoder_state, frame, self.max_sources, out)
            finally:
                self.counts.events += sum(isinstance(item, Event) for item in out[before:])
        elif decoder_state.sequencer.is_duplicate(frame):
            self.counts.duplicates += 1
        else:
            self._lose("gap" if decoder_state.sequencer.is_same_incarnation(frame) else "restart", out)

    def _apply_key_frame(self, frame: Frame, out: list[Delivery]) -> None:
        key, check = check_key_frame(frame, self.max_sources)
        decoder_state = self.decoder_state
        if decoder_state is not None and decoder_state.sequencer.is_outdated(key, decoder_state.incarnation):
            self.counts.duplicates += 1
            return
        if decoder_state is not None and key.incarnation != decoder_state.incarnation:
            self._lose("restart", out)
        elif decoder_state is not None and self._expects_successor and not key.first:
            self._succession.add_predecessor(decoder_state)
            decoder_state = None
        elif decoder_state is not None and key.sequence != decoder_state.sequence:
            self._lose("gap", out)
        if decoder_state is None or not decoder_state.continues_with(key):
            decoder_state = self._replace_state(key, frame.wide)
        decoder_state.restart(key, frame, check)
        before = len(out)
        for row, state in enumerate(key.sources, start=key.first):
            self._succession.merge(decoder_state, row, state, out)
        self.counts.events += sum(isinstance(item, Event) for item in out[before:])
        self.state = State.READY if decoder_state.is_complete else State.PARTIAL
        if self.state is State.READY:
            self._succession.drop_predecessors()

    def _replace_state(self, key: KeyFrame, wide: bool) -> DecoderState:
        """Start a new state: the incarnation, schema, configuration or sending process changed."""
        decoder_state = self.new_state(key, wide=wide)
        if self.decoder_state is not None:
            self.delivered.add_all(self.decoder_state)
        self.decoder_state = decoder_state
        self._expects_successor = False
        return decoder_state

    def _lose(self, reason: str, out: list[Delivery]) -> None:
        """Drop the state until the next key frame and report the loss once."""
        if self.state is State.WAITING:
            return
        self.state = State.WAITING
        self.counts.resyncs += 1
        self._next_request = _LONG_AGO
        self._succession.drop_predecessors()
        self._expects_successor = False
        if self.decoder_state is not None:
            self.delivered.add_all(self.decoder_state)
            self.decoder_state.expander.forget()
        out.append(EventsMissed(self.publisher, None, None, None, reason))

    def _accept_position(self, position: int, out: list[Delivery]) -> bool:
        """Check the transport's message number. Return False for a redelivery; a jump is a gap."""
        if self.position is not None and position <= self.position:
            self.counts.duplicates += 1
            return False
        if self.position is not None and position > self.position + 1:
            self._lose("gap", out)
        self.position = position
        return True
