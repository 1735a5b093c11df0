"""The subscribing end of a link: frames in, events out, and word of everything that could not be had.

    state      a key frame         the frame expected next     any other frame
    WAITING    -> PARTIAL, READY   (none is expected)          stays, counted
    PARTIAL    -> READY when the   events of known sources     duplicate: dropped
               last source is told                             else -> WAITING
    READY      checked             events                      duplicate: dropped, else -> WAITING

WAITING ends with a key frame, which the subscriber asks for (resync="request") or waits for (resync="wait").
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Literal

from thinwire.errors import CorruptFrame, PeerFault, UnknownSchema
from thinwire.events import Event, Schema
from thinwire.formats import LinkState, compact, exact, plain
from thinwire.formats.link_state import CHAIN, INCARNATION, SEQUENCE, WIDE
from thinwire.frames import Frame, FrameKind, Heartbeat, KeyFrame, Request, SourceState, Switch, read, split, varint
from thinwire.frames.control import MAX_SKIP
from thinwire.frames.kinds import is_known
from thinwire.link import audits
from thinwire.link.counts import Counts
from thinwire.link.deliveries import Audit, Delivery, Missed, Watermark
from thinwire.link.memory import Memory
from thinwire.reduction import Expander, exceptions, rules, snapshots
from thinwire.reduction.reducer import MAX_SOURCES

if TYPE_CHECKING:
    from thinwire.reduction.fast import FastDecoder

Key = tuple[Any, ...]
RETRY = 2.0
RECENT = 256


class State(StrEnum):
    """Where a subscriber's end stands."""

    WAITING = "waiting"
    PARTIAL = "partial"
    READY = "ready"


class Subscriber:
    """One publisher's frames, expanded.

    schemas: known schemas by fingerprint, or a function that looks one up (None where it is not known)
    resync: "request" asks for a key frame when lost, "wait" waits for the next one
    max_sources: sources of one publisher, at most: memory is bounded by what a reader allows, not by what it is told

    >>> from thinwire.events import Property
    >>> from thinwire.link import Publisher
    >>> rooms = Schema("rooms", [Property("room", "string", "dimension"), Property("t", "number", step="0.1")])
    >>> publisher = Publisher(rooms, name="p1", compiled=False)
    >>> subscriber = Subscriber([rooms], publisher="p1", compiled=False)
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
    ) -> None:
        self.publisher = publisher
        self.resync = resync
        self.max_sources = max_sources
        self.counts = Counts()
        self.state = State.WAITING
        self.incarnation: int | None = None
        self.config_version: int | None = None
        self._schemas = _by_fingerprint(schemas)
        self._compiled = compiled
        self._expander: Expander | None = None
        self._link: LinkState | None = None
        self._fast: FastDecoder | None = None
        self._memory = Memory()
        self._recent: dict[int, int] = {}
        self._position: int | None = None
        self._held_back: list[Delivery] = []
        self._told_rules = b""
        self._fingerprint = b""
        self._next_request = -1e300

    def receive(self, message: bytes, *, now: float, position: int | None = None) -> list[Delivery]:
        """What a broker message brings. `position` is the transport's own gapless number, where it has one."""
        out, self._held_back = self._held_back, []
        if position is not None and not self._in_place(position, out):
            return out
        try:
            frames = split(message)
        except CorruptFrame:
            self._lose("corrupt", out)
            return out
        try:
            for frame in frames:
                self._take(frame, now, out)
        except PeerFault:
            self._held_back = out  # an error takes nothing with it: what was found before comes with the next message
            raise
        return out

    def poll(self, now: float) -> list[bytes]:
        """Requests to send to the publisher, while the state of anything is unknown."""
        if self.resync != "request" or self.state is State.READY or now < self._next_request:
            return []
        self._next_request = now + RETRY
        sequence = self._link.cells[SEQUENCE] if self._link is not None else 0
        body = Request(self.incarnation or 0, sequence).encode()
        return [bytes((FrameKind.REQUEST, 0, 0)) + body]

    @property
    def bound(self) -> Mapping[str, float | None]:
        """The bounds in force; empty before the first key frame."""
        return self._expander.bounds if self._expander is not None else {}

    def _take(self, raw: bytes, now: float, out: list[Delivery]) -> None:
        try:
            if self._fast is not None and self.state is State.READY:
                events = self._fast.decode(raw)
                if events is not None:
                    self.counts.add_data(raw)
                    self.counts.events += len(events)
                    self._remember(raw)
                    out.extend(events)
                    return
            self.counts.add(raw)
            self._take_slowly(raw, now, out)
        except UnknownSchema:
            self._lose("unknown schema", out)
            raise
        except CorruptFrame:
            self._lose("corrupt", out)
        except PeerFault:
            self._lose("refused", out)
            raise

    def _take_slowly(self, raw: bytes, now: float, out: list[Delivery]) -> None:
        frame = read(raw)
        if frame.kind == FrameKind.KEY:
            self._key_frame(frame, out)
        elif frame.kind == FrameKind.REQUEST or self._link is None or self.state is State.WAITING:
            self.counts.unknown_frames += 1
        elif self._expected(frame, out):
            self._move_on(frame, out)

    def _expected(self, frame: Frame, out: list[Delivery]) -> bool:
        """Is this the frame that comes next? A duplicate is dropped, anything else means that frames were lost."""
        link = self._link
        assert link is not None
        cells = link.cells
        low = cells[SEQUENCE] & (0xFFFF if cells[WIDE] else 0xFF)
        chain = frame.chain_after(cells[CHAIN])
        same_life = frame.incarnation == cells[INCARNATION] and frame.wide == bool(cells[WIDE])
        if same_life and frame.sequence == low and chain & 0xFF == frame.check:
            cells[SEQUENCE] += 1
            cells[CHAIN] = chain
            self._remember(frame.raw)
            return True
        if same_life and self._recent.get(frame.sequence & (RECENT - 1)) == hash(frame.raw):
            self.counts.duplicates += 1
            return False
        self._lose("gap" if same_life else "restart", out)
        return False

    def _move_on(self, frame: Frame, out: list[Delivery]) -> None:
        expander, link = self._expander, self._link
        assert expander is not None and link is not None
        if frame.kind in (FrameKind.DATA, FrameKind.EXCEPTION):
            partial = compact.decode(frame.body, frame.kind == FrameKind.EXCEPTION, link)
            if expander.knows(partial.source):
                self._deliver(expander.expand(partial), out)
        elif frame.kind == FrameKind.JSON:
            given = plain.decode(frame.body, expander.rules.schema, link.sources)
            if expander.knows(given.source):
                self._deliver(expander.expand_given(given), out)
        elif frame.kind == FrameKind.INTRODUCTION:
            self._introduction(frame.body, out)
        elif frame.kind == FrameKind.HEARTBEAT:
            self._heartbeat(Heartbeat.decode(frame.body, link.sources), out)
        elif frame.kind == FrameKind.SWITCH:
            switch = Switch.decode(frame.body)
            if expander.knows(switch.source):
                self._pass_over(switch.source, switch.skip, out)
                expander.switch(switch)
        elif frame.kind == FrameKind.AUDIT:
            self._audit(frame.body, out)
        elif not is_known(frame.kind):
            self.counts.unknown_frames += 1

    def _introduction(self, body: bytes, out: list[Delivery]) -> None:
        expander, link = self._expander, self._link
        assert expander is not None and link is not None
        state, at = SourceState.decode(body, 0)
        told: list[tuple[int, Any]] = []
        while at < len(body):
            index, at = varint.read(body, at)
            value, at = exact.decode(body, at)
            if index >= len(expander.rules.rules):
                raise CorruptFrame("a value of no property", index=index)
            exceptions.check_kind(expander.rules.rules[index], value)
            told.append((index, value))
        alias = link.sources
        if alias >= self.max_sources:
            raise CorruptFrame("more sources than this reader takes", limit=self.max_sources)
        link.sources += 1
        expander.restore(alias, state.dimensions, state.ordinal, state.columns)
        self._deliver([expander.introduced(alias, tuple(told))], out)

    def _heartbeat(self, beat: Heartbeat, out: list[Delivery]) -> None:
        expander, link = self._expander, self._link
        assert expander is not None and link is not None
        if beat.sequence != link.cells[SEQUENCE] - 1:
            self._lose("gap", out)
            return
        for silence in beat.silences:
            for alias in range(silence.first, silence.first + silence.sources):
                if expander.knows(alias):
                    self._pass_over(alias, silence.skip, out)
        if self.state is State.READY:
            out.append(Watermark(self.publisher, beat.watermark / 1000))

    def _audit(self, body: bytes, out: list[Delivery]) -> None:
        expander = self._expander
        assert expander is not None
        source, skip, exacts = audits.decode(body, expander.rules.schema)
        if not expander.knows(source):
            return
        self._pass_over(source, skip, out)
        seen = expander.current(source)
        found = audits.errors(seen, exacts, expander.rules)
        out.append(Audit(self.publisher, seen.source, seen.ordinal, found, dict(seen.bound)))

    def _key_frame(self, frame: Frame, out: list[Delivery]) -> None:
        key = KeyFrame.decode(frame.body)
        chain = frame.chain_after(0)
        if chain & 0xFF != frame.check:
            raise CorruptFrame("key frame header does not match its check")
        low = 0xFFFF if frame.wide else 0xFF
        if frame.sequence != key.sequence & low or frame.incarnation != key.incarnation & 3:
            raise CorruptFrame("key frame header and body tell of different places", sequence=key.sequence)
        if key.total_sources > self.max_sources:
            raise CorruptFrame("more sources than this reader takes", total=key.total_sources, limit=self.max_sources)
        if self._is_old(key):
            self.counts.duplicates += 1
            return
        if self.incarnation is not None and key.incarnation != self.incarnation:
            self._lose("restart", out)
        elif self.state is not State.WAITING and self._link is not None and key.sequence != self._link.cells[SEQUENCE]:
            self._lose("gap", out)
        self._start_from(key, frame, chain)
        self._restore_sources(key, out)
        self._settle_state()

    def _is_old(self, key: KeyFrame) -> bool:
        if self.incarnation is None or self._link is None:
            return False
        if key.incarnation != self.incarnation:
            return key.incarnation < self.incarnation
        return key.sequence < self._link.cells[SEQUENCE]

    def _start_from(self, key: KeyFrame, frame: Frame, chain: int) -> None:
        changed = key.rules != self._told_rules or key.fingerprint != self._fingerprint
        changed = changed or key.config_version != self.config_version  # its predictors have started afresh
        if changed or self._expander is None or self._link is None or key.incarnation != self.incarnation:
            self._renew(key, frame)
        assert self._link is not None and self._expander is not None
        self.incarnation = key.incarnation
        self.config_version = key.config_version
        self._link.restart(key.scales, key.total_sources)
        self._link.cells[SEQUENCE] = key.sequence + 1
        self._link.cells[CHAIN] = chain
        self._recent.clear()
        self._remember(frame.raw)
        self._expander.make_room(key.first + len(key.sources))

    def _renew(self, key: KeyFrame, frame: Frame) -> None:
        """Other rules, another schema or another life: nothing of the old state can be used."""
        schema = self._schemas(key.fingerprint)
        if schema is None:
            raise UnknownSchema(fingerprint=key.fingerprint.hex(), publisher=self.publisher)
        told = rules.decode(key.rules, schema)
        if self._expander is not None:
            self._memory.keep(self._expander, self.incarnation or 0)
        self._expander = Expander(told, self.publisher)
        self._link = LinkState(schema, incarnation=key.incarnation, wide=frame.wide)
        self._told_rules, self._fingerprint = key.rules, key.fingerprint
        self._fast = _fast(self._expander, self._link) if self._compiled else None

    def _restore_sources(self, key: KeyFrame, out: list[Delivery]) -> None:
        expander = self._expander
        assert expander is not None
        for offset, state in enumerate(key.sources):
            alias = key.first + offset
            if expander.knows(alias):
                self._check_source(alias, state, out)
            else:
                expander.restore(alias, state.dimensions, state.ordinal, state.columns)
                self._resume(alias, state.ordinal, out)

    def _check_source(self, alias: int, state: SourceState, out: list[Delivery]) -> None:
        """A source that was known: what was passed over is delivered, and the state must be what the key frame says."""
        expander = self._expander
        assert expander is not None
        skip = state.ordinal - expander.columns.ordinal(alias)
        if skip >= 0:
            self._pass_over(alias, skip, out)
        if skip < 0 or snapshots.take(expander.columns, alias) != state.columns:
            self._memory.keep_one(expander, alias, self.incarnation or 0)
            expander.restore(alias, state.dimensions, state.ordinal, state.columns)
            source = expander.keys[alias]
            out.append(Missed(self.publisher, source, None, state.ordinal, "diverged"))

    def _resume(self, alias: int, ordinal: int, out: list[Delivery]) -> None:
        """A source known again: say what was missed since its last event, and deliver where it stands now."""
        expander = self._expander
        assert expander is not None
        key = expander.keys[alias]
        assert key is not None
        life, last = self._memory.last(key)
        if life == self.incarnation and last >= ordinal:
            return
        first = last + 1 if life == self.incarnation else 1
        if life is not None and first < ordinal:
            self.counts.missed += ordinal - first
            out.append(Missed(self.publisher, key, first, ordinal - 1, "gap"))
        self._deliver([expander.current(alias)], out)

    def _pass_over(self, alias: int, skip: int, out: list[Delivery]) -> None:
        """Deliver the events of a source that were passed over in silence."""
        expander = self._expander
        assert expander is not None
        way = self._fast if self._fast is not None and skip <= MAX_SKIP else expander
        self._deliver(way.pass_over(alias, skip), out)

    def _deliver(self, events: list[Event], out: list[Delivery]) -> None:
        self.counts.events += len(events)
        out.extend(events)

    def _lose(self, reason: str, out: list[Delivery]) -> None:
        """Trust nothing until the next key frame, and say so once."""
        if self.state is State.WAITING:
            return
        self.state = State.WAITING
        self.counts.resyncs += 1
        self._next_request = -1e300
        if self._expander is not None:
            self._memory.keep(self._expander, self.incarnation or 0)
            self._expander.forget()
        out.append(Missed(self.publisher, None, None, None, reason))

    def _settle_state(self) -> None:
        expander, link = self._expander, self._link
        assert expander is not None and link is not None
        complete = len(expander.keys) >= link.sources and None not in expander.keys[: link.sources]
        self.state = State.READY if complete else State.PARTIAL

    def _in_place(self, position: int, out: list[Delivery]) -> bool:
        """Is the transport's number the next one? An old one is a redelivery, a jump is a loss."""
        if self._position is not None and position <= self._position:
            self.counts.duplicates += 1
            return False
        if self._position is not None and position > self._position + 1:
            self._lose("gap", out)
        self._position = position
        return True

    def _remember(self, raw: bytes) -> None:
        assert self._link is not None
        self._recent[(self._link.cells[SEQUENCE] - 1) & (RECENT - 1)] = hash(raw)


def _fast(expander: Expander, link: LinkState) -> FastDecoder | None:
    from importlib.util import find_spec

    if find_spec("numba") is None:
        return None
    from thinwire.reduction.fast import FastDecoder
    from thinwire.reduction.kernels.plan import compilable

    return FastDecoder(expander, link) if compilable(expander.columns) else None


def _by_fingerprint(schemas: list[Schema] | Callable[[bytes], Schema | None]) -> Callable[[bytes], Schema | None]:
    if callable(schemas):
        return schemas
    return {schema.fingerprint: schema for schema in schemas}.get
