"""What was known before a successor took over: it says how far the silence went, and this says what it was about.

What a subscriber remembers of sources whose state it lost: the last event it delivered.

Frames in their order: what each kind does to a replica, and what it brings the subscriber.

Frames of JSON in their order, the short way: a look at the header, the check, and what the body says.

Whatever is not as it nearly always is (another kind, another place, a dictionary that is not known, a body that is
none) is left as it was, for those who look more closely and can say what is wrong.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import Any, NamedTuple
from zlib import crc32

from thinwire.codec import Expander
from thinwire.codec import deliveries as audits
from thinwire.codec import source_table as payloads
from thinwire.codec import value_encoder as exceptions
from thinwire.codec.decoder_state import Replica
from thinwire.codec.deliveries import Audit, Delivery, Watermark
from thinwire.errors import CorruptFrame, PeerFault
from thinwire.schema import Event
from thinwire.schema.schema import PAYLOAD
from thinwire.wire import Binding, Frame, FrameKind, Given, Heartbeat, SourceState, Switch, varint
from thinwire.wire import compact_body as compact
from thinwire.wire import exact_value as exact
from thinwire.wire.frame import LONG, MAX_FRAME, PACKED, is_known, unpack
from thinwire.wire.stream_state import CHAIN, INCARNATION, SEQUENCE, WIDE

Key = tuple[Any, ...]


class Place(NamedTuple):
    """Where a source's state is."""

    replica: Replica
    alias: int

    @property
    def ordinal(self) -> int:
        """The number of the source's last event there."""
        return self.replica.expander.columns.ordinal(self.alias)

    def pass_over(self, skip: int) -> list[Event]:
        """The events that followed it in silence, whatever the replica's own reader wanted to see."""
        self.replica.passed_over = True
        return self.replica.pass_over(self.alias, skip)


class Former:
    """The sources that a successor has not told yet, each with the last replica that knew it."""

    def __init__(self) -> None:
        self._places: dict[Key, Place] = {}

    def add(self, replica: Replica) -> None:
        """This one is succeeded. Sources it had not been told itself stay with the one before it."""
        for alias, key in enumerate(replica.expander.keys):
            if key is not None:
                self._places[key] = Place(replica, alias)

    def give_up(self, key: Key) -> Place | None:
        """Where the source's state was; the successor's counts from now on."""
        return self._places.pop(key, None)

    def clear(self) -> None:
        """Nothing more can be learned from the former ones."""
        self._places.clear()


class Memory:
    """The last ordinal delivered of each source, and in which life of its publisher."""

    def __init__(self) -> None:
        self._last: dict[Key, tuple[int, int]] = {}

    def keep(self, expander: Expander, incarnation: int) -> None:
        """Remember every source that is known."""
        for alias in expander.known():
            self.keep_one(expander, alias, incarnation)

    def keep_one(self, expander: Expander, alias: int, incarnation: int) -> None:
        """Remember one source."""
        key = expander.keys[alias]
        if key is not None:
            self._last[key] = (incarnation, expander.columns.ordinal(alias))

    def last(self, key: Key) -> tuple[int | None, int]:
        """Life and ordinal of the source's last event delivered; (None, 0) for one never seen."""
        return self._last.get(key, (None, 0))

    def entries(self, known: Container[Key | None]) -> list[tuple[Key, int, int]]:
        """Source, life and ordinal of all that is remembered, but for sources whose state is `known`."""
        return [(key, *last) for key, last in self._last.items() if key not in known]

    def restore(self, entries: Iterable[tuple[Key, int, int]]) -> None:
        """Remember these as well."""
        self._last.update((key, (life, ordinal)) for key, life, ordinal in entries)


def take_frame(replica: Replica, frame: Frame, max_sources: int, out: list[Delivery]) -> None:
    """Add what a frame that came in its order brings; kinds this version does not know bring nothing.

    Events are added as they are found, so that a frame which turns out to be corrupt takes none of them with it.
    """
    if not is_known(frame.kind):
        return
    kind, body = frame.kind, replica.body_of(frame)
    if kind in (FrameKind.DATA, FrameKind.EXCEPTION):
        _data(replica, body, kind == FrameKind.EXCEPTION, out)
    elif kind == FrameKind.PAYLOAD:
        _payload(replica, body, out)
    elif kind == FrameKind.JSON:
        _json(replica, body, out)
    elif kind == FrameKind.INTRODUCTION:
        _introduction(replica, body, max_sources, out)
    elif kind == FrameKind.HEARTBEAT:
        _heartbeat(replica, Heartbeat.decode(body, replica.link.sources), out)
    elif kind == FrameKind.SWITCH:
        _switch(replica, Switch.decode(body), out)
    elif kind == FrameKind.AUDIT:
        _audit(replica, body, out)
    elif kind == FrameKind.BINDING:
        replica.bindings.bind(Binding.decode(body))


def _payload(replica: Replica, body: bytes, out: list[Delivery]) -> None:
    expander, link = replica.expander, replica.link
    if not replica.payloads:
        raise CorruptFrame("a payload on a topic that has a schema")
    if not link.sources:
        link.sources = 1
        expander.restore(0, b"[]", 1, payloads.UNKEPT)
    elif expander.knows(0):
        payloads.note(expander.columns)
    else:
        return
    about = expander.abouts[0]
    assert about is not None
    out.append(Event.of({PAYLOAD: body}, about, expander.columns.ordinal(0)))


def _data(replica: Replica, body: bytes, exceptional: bool, out: list[Delivery]) -> None:
    partial = compact.decode(body, exceptional, replica.link)
    if replica.expander.knows(partial.source):
        out += replica.pass_over(partial.source, partial.skip)
        out += replica.expander.expand(partial._replace(skip=0))


def _json(replica: Replica, body: bytes, out: list[Delivery]) -> None:
    spelled(replica, replica.spelling.decode(body, replica.link.sources), out)


def spelled(replica: Replica, given: Given, out: list[Delivery]) -> None:
    """Add the events of a partial whose values are spelled out."""
    source, skip, values = given
    if replica.expander.knows(source):
        if skip:
            out += replica.pass_over(source, skip)
        out.append(replica.expander.expand_given(source, values))


def _introduction(replica: Replica, body: bytes, max_sources: int, out: list[Delivery]) -> None:
    expander, link = replica.expander, replica.link
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
    if alias >= max_sources:
        raise CorruptFrame("more sources than this reader takes", limit=max_sources)
    link.sources += 1
    expander.restore(alias, state.dimensions, state.ordinal, state.columns)
    out.append(expander.introduced(alias, tuple(told)))


def _heartbeat(replica: Replica, beat: Heartbeat, out: list[Delivery]) -> None:
    if beat.sequence != replica.sequence - 1:
        raise CorruptFrame("a heartbeat from another place in the stream", sequence=beat.sequence)
    for silence in beat.silences:
        for alias in range(silence.first, silence.first + silence.sources):
            if replica.expander.knows(alias):
                out += replica.pass_over(alias, silence.skip)
    if replica.complete:
        out.append(Watermark(replica.expander.publisher, beat.watermark / 1000))


def _switch(replica: Replica, switch: Switch, out: list[Delivery]) -> None:
    if replica.expander.knows(switch.source):
        out += replica.pass_over(switch.source, switch.skip)
        replica.expander.switch(switch)


def _audit(replica: Replica, body: bytes, out: list[Delivery]) -> None:
    expander = replica.expander
    source, skip, exacts = audits.decode(body, expander.rules.schema)
    if expander.knows(source):
        out += replica.pass_over(source, skip)
        seen = expander.current(source)
        found = audits.errors(seen, exacts, expander.rules)
        truth = dict(zip(found, exacts, strict=True))
        out.append(Audit(expander.publisher, seen.source, seen.ordinal, found, dict(seen.bound), truth))


_LONGEST_HEADER = 5
"""bytes"""


def take_json_frames(replica: Replica, frames: list[bytes], number: int, out: list[Delivery]) -> None:
    """Add the events of the frames from this number on, as far as the short way goes; the sequence says how far.

    CorruptFrame: a value that its property cannot have, in the frame that the sequence has moved past last.
    """
    link, bindings, decode = replica.link, replica.bindings, replica.spelling.decode
    cells, wide = link.cells, link.cells[WIDE]
    sequence, chain = cells[SEQUENCE], cells[CHAIN]
    plain = FrameKind.JSON | LONG * wide | cells[INCARNATION] << 6
    starts = {plain: 3 + wide, plain | PACKED: 4 + wide}
    slot, codec = -1, None
    for place in range(number, len(frames)):
        raw = frames[place]
        if not _LONGEST_HEADER < len(raw) <= MAX_FRAME:
            return
        start = starts.get(raw[0])
        if start is None or raw[start - 2] != sequence & 0xFF or (wide and raw[start - 3] != sequence >> 8 & 0xFF):
            return
        body = raw[start:]
        after = crc32(body, crc32(raw[: start - 1], chain))
        if after & 0xFF != raw[start - 1]:
            return
        try:
            if raw[0] != plain:
                if raw[1] != slot:
                    slot = raw[1]
                    codec = bindings.codec(slot)
                body = unpack(body, slot, MAX_FRAME) if codec is None else codec.unpack(body, MAX_FRAME)
            given = decode(body, link.sources)
        except PeerFault:
            return
        sequence += 1
        chain = after
        cells[SEQUENCE], cells[CHAIN] = sequence, chain
        spelled(replica, given, out)
