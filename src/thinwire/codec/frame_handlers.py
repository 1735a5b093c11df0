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
from thinwire.codec.decoder_state import DecoderState
from thinwire.codec.deliveries import Audit, Delivery, Watermark
from thinwire.errors import CorruptFrame, PeerFault
from thinwire.schema import Event
from thinwire.schema.schema import PAYLOAD
from thinwire.wire import Binding, ExplicitValues, Frame, FrameKind, Heartbeat, SourceState, Switch, varint
from thinwire.wire import compact_body as compact
from thinwire.wire import exact_value as exact
from thinwire.wire.frame import LONG, MAX_FRAME, PACKED, is_known, unpack
from thinwire.wire.stream_state import CHAIN, INCARNATION, SEQUENCE, WIDE

Key = tuple[Any, ...]


class SourceLocation(NamedTuple):
    """Where a source's state is."""

    decoder_state: DecoderState
    alias: int

    @property
    def ordinal(self) -> int:
        """The number of the source's last event there."""
        return self.decoder_state.expander.columns.ordinal(self.alias)

    def pass_over(self, skip: int) -> list[Event]:
        """The events that followed it in silence, whatever the replica's own reader wanted to see."""
        self.decoder_state.passed_over = True
        return self.decoder_state.pass_over(self.alias, skip)


class PredecessorState:
    """The sources that a successor has not told yet, each with the last replica that knew it."""

    def __init__(self) -> None:
        self._places: dict[Key, SourceLocation] = {}

    def add(self, decoder_state: DecoderState) -> None:
        """This one is succeeded. Sources it had not been told itself stay with the one before it."""
        for alias, key in enumerate(decoder_state.expander.keys):
            if key is not None:
                self._places[key] = SourceLocation(decoder_state, alias)

    def give_up(self, key: Key) -> SourceLocation | None:
        """Where the source's state was; the successor's counts from now on."""
        return self._places.pop(key, None)

    def clear(self) -> None:
        """Nothing more can be learned from the former ones."""
        self._places.clear()


class DeliveredOrdinals:
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


def take_frame(decoder_state: DecoderState, frame: Frame, max_sources: int, out: list[Delivery]) -> None:
    """Add what a frame that came in its order brings; kinds this version does not know bring nothing.

    Events are added as they are found, so that a frame which turns out to be corrupt takes none of them with it.
    """
    if not is_known(frame.kind):
        return
    kind, body = frame.kind, decoder_state.body_of(frame)
    if kind in (FrameKind.DATA, FrameKind.EXCEPTION):
        _data(decoder_state, body, kind == FrameKind.EXCEPTION, out)
    elif kind == FrameKind.PAYLOAD:
        _payload(decoder_state, body, out)
    elif kind == FrameKind.JSON:
        _json(decoder_state, body, out)
    elif kind == FrameKind.INTRODUCTION:
        _introduction(decoder_state, body, max_sources, out)
    elif kind == FrameKind.HEARTBEAT:
        _heartbeat(decoder_state, Heartbeat.decode(body, decoder_state.link.sources), out)
    elif kind == FrameKind.SWITCH:
        _switch(decoder_state, Switch.decode(body), out)
    elif kind == FrameKind.AUDIT:
        _audit(decoder_state, body, out)
    elif kind == FrameKind.BINDING:
        decoder_state.bindings.bind(Binding.decode(body))


def _payload(decoder_state: DecoderState, body: bytes, out: list[Delivery]) -> None:
    expander, link = decoder_state.expander, decoder_state.link
    if not decoder_state.payloads:
        raise CorruptFrame("a payload on a topic that has a schema")
    if not link.sources:
        link.sources = 1
        expander.restore(0, b"[]", 1, payloads.UNKEPT)
    elif expander.knows(0):
        payloads.note(expander.columns)
    else:
        return
    about = expander.metadata_codes[0]
    assert about is not None
    out.append(Event.of({PAYLOAD: body}, about, expander.columns.ordinal(0)))


def _data(decoder_state: DecoderState, body: bytes, exceptional: bool, out: list[Delivery]) -> None:
    partial = compact.decode(body, exceptional, decoder_state.link)
    if decoder_state.expander.knows(partial.source):
        out += decoder_state.pass_over(partial.source, partial.skip)
        out += decoder_state.expander.expand(partial._replace(skip=0))


def _json(decoder_state: DecoderState, body: bytes, out: list[Delivery]) -> None:
    spelled(decoder_state, decoder_state.spelling.decode(body, decoder_state.link.sources), out)


def spelled(decoder_state: DecoderState, given: ExplicitValues, out: list[Delivery]) -> None:
    """Add the events of a partial whose values are spelled out."""
    source, skip, values = given
    if decoder_state.expander.knows(source):
        if skip:
            out += decoder_state.pass_over(source, skip)
        out.append(decoder_state.expander.expand_given(source, values))


def _introduction(decoder_state: DecoderState, body: bytes, max_sources: int, out: list[Delivery]) -> None:
    expander, link = decoder_state.expander, decoder_state.link
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


def _heartbeat(decoder_state: DecoderState, beat: Heartbeat, out: list[Delivery]) -> None:
    if beat.sequence != decoder_state.sequence - 1:
        raise CorruptFrame("a heartbeat from another place in the stream", sequence=beat.sequence)
    for silence in beat.silences:
        for alias in range(silence.first, silence.first + silence.sources):
            if decoder_state.expander.knows(alias):
                out += decoder_state.pass_over(alias, silence.skip)
    if decoder_state.complete:
        out.append(Watermark(decoder_state.expander.publisher, beat.watermark / 1000))


def _switch(decoder_state: DecoderState, switch: Switch, out: list[Delivery]) -> None:
    if decoder_state.expander.knows(switch.source):
        out += decoder_state.pass_over(switch.source, switch.skip)
        decoder_state.expander.switch(switch)


def _audit(decoder_state: DecoderState, body: bytes, out: list[Delivery]) -> None:
    expander = decoder_state.expander
    source, skip, exacts = audits.decode(body, expander.rules.schema)
    if expander.knows(source):
        out += decoder_state.pass_over(source, skip)
        seen = expander.current(source)
        found = audits.errors(seen, exacts, expander.rules)
        truth = dict(zip(found, exacts, strict=True))
        out.append(Audit(expander.publisher, seen.source, seen.ordinal, found, dict(seen.bound), truth))


_LONGEST_HEADER = 5
"""bytes"""


def take_json_frames(decoder_state: DecoderState, frames: list[bytes], number: int, out: list[Delivery]) -> None:
    """Add the events of the frames from this number on, as far as the short way goes; the sequence says how far.

    CorruptFrame: a value that its property cannot have, in the frame that the sequence has moved past last.
    """
    link, bindings, decode = decoder_state.link, decoder_state.bindings, decoder_state.spelling.decode
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
        spelled(decoder_state, given, out)
