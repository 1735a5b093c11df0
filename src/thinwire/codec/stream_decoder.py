"""The subscribing end of a link: frames in, events out, and word of everything that could not be had.

    state      a key frame         the frame expected next     any other frame
    WAITING    -> PARTIAL, READY   (none is expected)          stays, counted
    PARTIAL    -> READY when the   events of known sources     duplicate: dropped
               last source is told                             else -> WAITING
    READY      checked             events                      duplicate: dropped, else -> WAITING

WAITING ends with a key frame, which the subscriber asks for (resync="request") or waits for (resync="wait").

When somebody else goes on telling a publisher's events, the caller says so (`succeed`). The key frames that follow are
the successor's: they tell how far the silence went that the former one left behind, and its events are handed out
before the successor's state counts.

A frame that is packed with a dictionary nobody has shown yet stops the subscriber before it: UnknownDictionary names
it. The same message once more goes on there, or behind it where the caller gives the frame up.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from enum import StrEnum
from typing import Literal, NamedTuple

from thinwire.codec import frame_handlers as reading
from thinwire.codec import frame_handlers as spelled
from thinwire.codec import row_snapshot as snapshots
from thinwire.codec.changed_events import ChangedEvents
from thinwire.codec.decoder_state import DecoderState, Find, knows_none
from thinwire.codec.deliveries import Delivery, EventsMissed
from thinwire.codec.frame_handlers import DeliveredOrdinals, PredecessorState
from thinwire.codec.reducer import MAX_SOURCES
from thinwire.codec.stream_config import Counts
from thinwire.errors import CorruptFrame, PeerFault, UnknownDictionary, UnknownSchema
from thinwire.schema import Event, Schema
from thinwire.wire import Frame, FrameKind, KeyFrame, Request, SourceState, join, read, split
from thinwire.wire.control_frames import MAX_SKIP
from thinwire.wire.frame import PACKED, is_known, room_for

RETRY = 2.0
_LONG_AGO = -1e300


class State(StrEnum):
    """Where a subscriber's end stands."""

    WAITING = "waiting"
    PARTIAL = "partial"
    READY = "ready"


class _Stopped(NamedTuple):
    """A message whose frame of this number, at this byte, waits for a dictionary, or does no more."""

    message: bytes
    at: int
    number: int
    given_up: bool = False


class StreamDecoder:
    """One publisher's frames, expanded.

    schemas: known schemas, or a function that looks one up by fingerprint (None where it is not known)
    resync: "request" asks for a key frame when lost, "wait" waits for the next one
    max_sources: a key frame that tells of more is refused
    passed_over: hand out the events that were passed over in silence as well. Without them only what was told comes:
        the numbers of events and the state move on all the same, at hardly any cost. It may change at any time
    dictionaries: looks a dictionary up by its hash; None where it is not known (yet)

    >>> from thinwire.schema import Property
    >>> from thinwire.codec import StreamEncoder
    >>> rooms = Schema("rooms", [Property("room", "string", "dimension"), Property("t", "number", step="0.1")])
    >>> publisher = StreamEncoder(rooms, name="p1", compiled=False)
    >>> subscriber = StreamDecoder([rooms], publisher="p1", compiled=False)
    >>> frames = publisher.start(now=0) + publisher.publish({"room": "11.1", "t": 20.5}, now=0)
    >>> [dict(event) for frame in frames for event in subscriber.receive(frame, now=0) if isinstance(event, Event)]
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
        passed_over: bool = True,
        dictionaries: Find = knows_none,
    ) -> None:
        self.publisher = publisher
        self._find = dictionaries
        self._stopped: _Stopped | None = None
        self.resync = resync
        self.max_sources = max_sources
        self._passed_over = passed_over
        self.counts = Counts()
        self.state = State.WAITING
        self._schemas = _by_fingerprint(schemas)
        self._compiled = compiled
        self.decoder_state: DecoderState | None = None
        self.memory = DeliveredOrdinals()
        self.position: int | None = None
        """the transport's number of the last message, where it has one"""
        self.changed_events: ChangedEvents | None = None
        """of the last message, where it brought nothing but events each of which is known to show a change"""
        self._predecessor = PredecessorState()
        self._succeeded = False
        self._held_back: list[Delivery] = []
        self._next_request = _LONG_AGO

    @property
    def include_suppressed(self) -> bool:
        """Are events that were passed over in silence handed out?"""
        return self._passed_over

    @include_suppressed.setter
    def include_suppressed(self, wanted: bool) -> None:
        self._passed_over = wanted
        if self.decoder_state is not None:
            self.decoder_state.passed_over = wanted

    @property
    def bound(self) -> Mapping[str, float | None]:
        """The bounds in force; empty before the first key frame."""
        return self.decoder_state.expander.bounds if self.decoder_state is not None else {}

    @property
    def incarnation(self) -> int | None:
        """The publisher's life, as far as it is known."""
        return self.decoder_state.incarnation if self.decoder_state is not None else None

    @property
    def config_version(self) -> int | None:
        """The publisher's configuration, as far as it is known."""
        return self.decoder_state.config_version if self.decoder_state is not None else None

    def receive(self, message: bytes, *, now: float, position: int | None = None) -> list[Delivery]:
        """What a broker message brings. `position` is the transport's own gapless number, where it has one.

        Raises UnknownDictionary with a `hash`: receive it again when the dictionary is known, or after `give_up`.
        """
        out, self._held_back = self._held_back, []
        self.changed_events = None
        stopped, self._stopped = self._stopped, None
        if stopped is not None and stopped.message != message:
            stopped = None
            self._lose("unknown dictionary", out)
        if stopped is None and position is not None and not self._in_place(position, out):
            return out
        try:
            if stopped is not None:
                self._resume_message(stopped, out)
            else:
                self._take_message(message, out)
        except PeerFault:
            self._held_back = out  # an error takes nothing with it: what was found before comes with the next message
            raise
        return out

    def watch(self, names: Collection[str]) -> None:
        """Leave out events that are known to change none of these properties; () to have them all.

        It counts for the state as it is: a key frame that begins another one ends it. See `changed_events`.
        """
        if self.decoder_state is not None:
            self.decoder_state.watch(names)

    def poll(self, now: float) -> list[bytes]:
        """Requests to send to the publisher, while the state of anything is unknown."""
        if self.resync != "request" or self.state is State.READY or now < self._next_request:
            return []
        self._next_request = now + RETRY
        sequence = self.decoder_state.sequence if self.decoder_state is not None else 0
        body = Request(self.incarnation or 0, sequence).encode()
        return [bytes((FrameKind.REQUEST, 0, 0)) + body]

    def present(self) -> list[Event]:
        """Where every known source stands: its last event."""
        if self.decoder_state is None:
            return []
        expander, shows = self.decoder_state.expander, self.decoder_state.shows
        return [expander.current(alias) for alias in expander.known() if shows(alias)]

    def peek(self) -> list[Event]:
        """The event expected next of every known source, provisional and without bounds; nothing is taken from it."""
        if self.decoder_state is None:
            return []
        expander, shows = self.decoder_state.expander, self.decoder_state.shows
        return [expander.next(alias) for alias in expander.known() if shows(alias)]

    def lose(self, reason: str) -> list[Delivery]:
        """The caller knows that messages are missing: nothing counts until the next key frame, and a request is due."""
        out, self._held_back = self._held_back, []
        self._stopped = None
        self._lose(reason, out)
        return out

    def give_up(self) -> None:
        """The dictionary that a message waits for cannot be had: the frame is lost when the message comes again."""
        if self._stopped is not None:
            self._stopped = self._stopped._replace(given_up=True)

    def succeed(self) -> None:
        """The caller knows that somebody else goes on from here: the next round of key frames is theirs, and no loss.

        What was passed over in silence before is handed out within the bounds it was passed over under; then the
        successor's state counts, and is no event in itself. A subscriber that is lost waits for a key frame anyway.
        """
        self._succeeded = self.state is not State.WAITING

    def begin(self, key: KeyFrame, *, wide: bool) -> DecoderState:
        """A replica that starts with this key frame and holds nothing yet. Raises UnknownSchema."""
        schema = self._schemas(key.fingerprint)
        if schema is None:
            raise UnknownSchema(fingerprint=key.fingerprint.hex(), publisher=self.publisher)
        return DecoderState(
            key,
            schema,
            publisher=self.publisher,
            wide=wide,
            compiled=self._compiled,
            passed_over=self._passed_over,
            find=self._find,
        )

    def stand_at(self, decoder_state: DecoderState, memory: DeliveredOrdinals, position: int | None) -> None:
        """Go on from a complete state that came some other way than by frames. Only before the first key frame."""
        if self.decoder_state is not None:
            raise ValueError("this subscriber stands somewhere already: make a new one")
        self.decoder_state, self.memory, self.position = decoder_state, memory, position
        self.state = State.READY

    def _take_message(self, message: bytes, out: list[Delivery]) -> None:
        """Ordinary frames in runs, and whatever stands between them one by one."""
        alone = not out
        at, number = self._take_ordinary(message, 0, out)
        if number and at == len(message):
            if alone and self.decoder_state is not None:
                self.changed_events = self.decoder_state.changed_events
            return
        try:
            frames = split(message)
        except CorruptFrame:
            self._lose("corrupt", out)
            return
        self._take_frames(message, frames, at or 1, number, out)

    def _resume_message(self, stopped: _Stopped, out: list[Delivery]) -> None:
        """A message once more, from the frame that waited for a dictionary."""
        message, at, number, given_up = stopped
        frames = split(message)
        if given_up:
            self.counts.add(frames[number])
            self._lose("unknown dictionary", out)
            at, number = at + room_for(frames[number]), number + 1
        self._take_frames(message, frames, at, number, out)

    def _wait_for(self, stopped: _Stopped, raw: bytes) -> None:
        """Stop before a frame that cannot be read yet."""
        binding = self.decoder_state.awaits(raw) if self.decoder_state is not None else None
        if binding is not None and self.state is not State.WAITING:
            self._stopped = stopped
            raise UnknownDictionary(slot=binding.slot, hash=binding.hash.hex(), publisher=self.publisher)

    def _take_frames(self, message: bytes, frames: list[bytes], at: int, number: int, out: list[Delivery]) -> None:
        """The frames of a message from one of them on, which begins at byte `at`."""
        while number < len(frames):
            head = frames[number][0] if frames[number] else 0
            if head & 0x0F == FrameKind.JSON and (spelled_out := self._take_spelled(frames, number, out)):
                at += sum(map(room_for, spelled_out))
                number += len(spelled_out)
                continue
            if head & PACKED:
                self._wait_for(_Stopped(message, at, number), frames[number])
            self._take(frames[number], out)
            at += room_for(frames[number])
            number += 1
            if number < len(frames) and frames[number][0] & 0x0F == FrameKind.DATA:
                at, taken = self._take_ordinary(message, at, out)
                number += taken

    def _take_ordinary(self, message: bytes, at: int, out: list[Delivery]) -> tuple[int, int]:
        """As many frames as the compiled way takes from byte `at` on; where it stopped, and how many they were."""
        if self.state is not State.READY or self.decoder_state is None:
            return at, 0
        before = len(out)
        at, frames, size = self.decoder_state.take_ordinary(message, at, out)
        self.counts.frames += frames
        self.counts.data_bytes += size
        self.counts.events += len(out) - before
        return at, frames

    def _take_spelled(self, frames: list[bytes], number: int, out: list[Delivery]) -> list[bytes]:
        """The frames of JSON from this one on that were taken in the short way."""
        decoder_state = self.decoder_state
        if self.state is not State.READY or decoder_state is None:
            return []
        before, sequence = len(out), decoder_state.sequence
        corrupt = False
        try:
            spelled.take_json_frames(decoder_state, frames, number, out)
        except CorruptFrame:
            corrupt = True
        taken = frames[number : number + decoder_state.sequence - sequence]
        if taken:
            decoder_state.recent.add(sequence, join(taken), len(taken))
            self.counts.add_all_data(taken)
            self.counts.events += len(out) - before
        if corrupt:
            self._lose("corrupt", out)
        return taken

    def _take(self, raw: bytes, out: list[Delivery]) -> None:
        self.counts.add(raw)
        try:
            self._take_any(read(raw), out)
        except UnknownSchema:
            self._lose("unknown schema", out)
            raise
        except CorruptFrame:
            self._lose("corrupt", out)
        except PeerFault:
            self._lose("refused", out)
            raise

    def _take_any(self, frame: Frame, out: list[Delivery]) -> None:
        decoder_state = self.decoder_state
        if frame.kind == FrameKind.KEY:
            self._key_frame(frame, out)
        elif frame.kind == FrameKind.REQUEST or decoder_state is None or self.state is State.WAITING:
            self.counts.unknown_frames += 1
        elif decoder_state.accept_next(frame):
            self.counts.unknown_frames += not is_known(frame.kind)
            self._predecessor.clear()  # the successor has gone on: its silence is another one from here
            before = len(out)
            try:
                reading.take_frame(decoder_state, frame, self.max_sources, out)
            finally:
                self.counts.events += sum(isinstance(thing, Event) for thing in out[before:])
        elif decoder_state.has_seen(frame):
            self.counts.duplicates += 1
        else:
            self._lose("gap" if decoder_state.same_life(frame) else "restart", out)

    def _key_frame(self, frame: Frame, out: list[Delivery]) -> None:
        key, chain = self._checked(frame)
        decoder_state = self.decoder_state
        if decoder_state is not None and _is_old(key, decoder_state):
            self.counts.duplicates += 1
            return
        if decoder_state is not None and key.incarnation != decoder_state.incarnation:
            self._lose("restart", out)
        elif decoder_state is not None and self._succeeded and not key.first:
            self._predecessor.add(decoder_state)
            decoder_state = None
        elif decoder_state is not None and key.sequence != decoder_state.sequence:
            self._lose("gap", out)
        if decoder_state is None or not decoder_state.fits(key):
            decoder_state = self._reset_state(key, frame.wide)
        decoder_state.restart(key, frame, chain)
        before = len(out)
        for alias, state in enumerate(key.sources, start=key.first):
            if decoder_state.expander.knows(alias):
                self._check_source(decoder_state, alias, state, out)
            else:
                self._learn(decoder_state, alias, state, out)
        self.counts.events += sum(isinstance(thing, Event) for thing in out[before:])
        self.state = State.READY if decoder_state.complete else State.PARTIAL
        if self.state is State.READY:
            self._predecessor.clear()

    def _checked(self, frame: Frame) -> tuple[KeyFrame, int]:
        """The key frame and the running check after it, once header and body agree."""
        chain = frame.chain_after(0)
        if chain & 0xFF != frame.check:
            raise CorruptFrame("key frame header does not match its check")
        key = KeyFrame.decode(frame.body)
        low = 0xFFFF if frame.wide else 0xFF
        if frame.sequence != key.sequence & low or frame.incarnation != key.incarnation & 3:
            raise CorruptFrame("key frame header and body tell of different places", sequence=key.sequence)
        if key.total_sources > self.max_sources:
            raise CorruptFrame("more sources than this reader takes", total=key.total_sources, limit=self.max_sources)
        return key, chain

    def _reset_state(self, key: KeyFrame, wide: bool) -> DecoderState:
        """Another life, schema, configuration or teller: nothing of the old state can be used."""
        decoder_state = self.begin(key, wide=wide)
        if self.decoder_state is not None:
            self.memory.keep(self.decoder_state.expander, self.decoder_state.incarnation)
        self.decoder_state = decoder_state
        self._succeeded = False
        return decoder_state

    def _check_source(self, decoder_state: DecoderState, alias: int, state: SourceState, out: list[Delivery]) -> None:
        """A source that was known: what was passed over is delivered, and the state must be what the key frame says."""
        expander = decoder_state.expander
        skip = state.ordinal - expander.columns.ordinal(alias)
        if skip >= 0:
            out += decoder_state.pass_over(alias, skip)
        if skip < 0 or snapshots.take(expander.columns, alias) != state.columns:
            self.memory.keep_one(expander, alias, decoder_state.incarnation)
            expander.restore(alias, state.dimensions, state.ordinal, state.columns)
            out.append(EventsMissed(self.publisher, expander.keys[alias], None, state.ordinal, "diverged"))

    def _learn(self, decoder_state: DecoderState, alias: int, state: SourceState, out: list[Delivery]) -> None:
        """A source that this replica did not know: it goes on where a former one left it, or begins anew."""
        expander = decoder_state.expander
        expander.restore(alias, state.dimensions, state.ordinal, state.columns)
        source = expander.keys[alias]
        assert source is not None
        former = self._predecessor.give_up(source)
        if former is None or state.ordinal - former.ordinal > MAX_SKIP:
            self._resume(decoder_state, alias, state.ordinal, out)
        elif state.ordinal < former.ordinal:
            out.append(EventsMissed(self.publisher, source, None, state.ordinal, "diverged"))
        elif self._passed_over:
            try:
                out += former.pass_over(state.ordinal - former.ordinal)
            except CorruptFrame:
                expander.keys[alias] = None  # events not handed out must not count as delivered
                raise

    def _resume(self, decoder_state: DecoderState, alias: int, ordinal: int, out: list[Delivery]) -> None:
        """A source known again: say what was missed since its last event, and deliver where it stands now."""
        current, shown = decoder_state.expander.current(alias), decoder_state.shows(alias)
        life, last = self.memory.last(current.source)
        if life != decoder_state.incarnation:
            last = 0
        if last >= ordinal:
            return
        gone = ordinal - shown
        if life is not None and last < gone:
            self.counts.missed += gone - last
            out.append(EventsMissed(self.publisher, current.source, last + 1, gone, "gap"))
        if shown:
            out.append(current)

    def _lose(self, reason: str, out: list[Delivery]) -> None:
        """Trust nothing until the next key frame, and say so once."""
        if self.state is State.WAITING:
            return
        self.state = State.WAITING
        self.counts.resyncs += 1
        self._next_request = _LONG_AGO
        self._predecessor.clear()
        self._succeeded = False
        if self.decoder_state is not None:
            self.memory.keep(self.decoder_state.expander, self.decoder_state.incarnation)
            self.decoder_state.expander.forget()
        out.append(EventsMissed(self.publisher, None, None, None, reason))

    def _in_place(self, position: int, out: list[Delivery]) -> bool:
        """Is the transport's number the next one? An old one is a redelivery, a jump is a loss."""
        if self.position is not None and position <= self.position:
            self.counts.duplicates += 1
            return False
        if self.position is not None and position > self.position + 1:
            self._lose("gap", out)
        self.position = position
        return True


def _is_old(key: KeyFrame, decoder_state: DecoderState) -> bool:
    """Does the key frame tell of a place that the replica is past?"""
    if key.incarnation != decoder_state.incarnation:
        return key.incarnation < decoder_state.incarnation
    return key.sequence < decoder_state.sequence


def _by_fingerprint(schemas: list[Schema] | Callable[[bytes], Schema | None]) -> Callable[[bytes], Schema | None]:
    if callable(schemas):
        return schemas
    return {schema.fingerprint: schema for schema in schemas}.get
