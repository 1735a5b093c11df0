"""Effect of each frame kind on decoder state, for frames that arrive in order."""

from __future__ import annotations

from typing import Any
from zlib import crc32

from thinwire.codec.audit import decode_audit, measure_errors
from thinwire.codec.decoder_state import DecoderState
from thinwire.codec.deliveries import Audit, Delivery, Watermark
from thinwire.codec.source_table import PAYLOAD_STATE, count_payload
from thinwire.errors import CorruptFrame, PeerFault
from thinwire.schema import Event
from thinwire.schema.schema import PAYLOAD
from thinwire.wire import (
    Binding,
    ExplicitValues,
    Frame,
    FrameKind,
    Heartbeat,
    SourceState,
    Switch,
    compact_body,
    exact_value,
    varint,
)
from thinwire.wire.frame import LONG, MAX_FRAME, PACKED, is_known
from thinwire.wire.stream_state import CHAIN, INCARNATION, SEQUENCE, WIDE


def handle_frame(decoder_state: DecoderState, frame: Frame, max_sources: int, out: list[Delivery]) -> None:
    """Apply an accepted frame to the state and append its deliveries to `out`. Unknown kinds have no effect.

    Events are appended as they are decoded. A frame that turns out to be corrupt does not lose those before the error.
    """
    if not is_known(frame.kind):
        return
    kind, body = frame.kind, frame.sent_body
    if frame.slot is not None:
        body = decoder_state.bindings.unpack(frame.slot, body)
    if kind in (FrameKind.DATA, FrameKind.EXCEPTION):
        _data(decoder_state, body, kind == FrameKind.EXCEPTION, out)
    elif kind == FrameKind.PAYLOAD:
        _payload(decoder_state, body, out)
    elif kind == FrameKind.JSON:
        _apply_values(decoder_state, decoder_state.spelling.decode(body, decoder_state.stream.sources), out)
    elif kind == FrameKind.INTRODUCTION:
        _introduction(decoder_state, body, max_sources, out)
    elif kind == FrameKind.HEARTBEAT:
        _heartbeat(decoder_state, Heartbeat.decode(body, decoder_state.stream.sources), out)
    elif kind == FrameKind.SWITCH:
        _switch(decoder_state, Switch.decode(body), out)
    elif kind == FrameKind.AUDIT:
        _audit(decoder_state, body, out)
    elif kind == FrameKind.BINDING:
        decoder_state.bindings.bind(Binding.decode(body))


def _payload(decoder_state: DecoderState, body: bytes, out: list[Delivery]) -> None:
    expander, stream = decoder_state.expander, decoder_state.stream
    if not decoder_state.payloads:
        raise CorruptFrame("a payload on a topic with a schema")
    if not stream.sources:
        stream.sources = 1
        expander.restore(0, b"[]", 1, PAYLOAD_STATE)
    elif expander.knows(0):
        count_payload(expander.table)
    else:
        return
    metadata = expander.event_metadata[0]
    assert metadata is not None
    out.append(Event.of({PAYLOAD: body}, metadata, expander.table.ordinal(0)))


def _data(decoder_state: DecoderState, body: bytes, exceptional: bool, out: list[Delivery]) -> None:
    partial = compact_body.decode(body, exceptional, decoder_state.stream)
    if decoder_state.expander.knows(partial.source):
        out += decoder_state.expand_suppressed(partial.source, partial.skip)
        out.append(decoder_state.expander.expand(partial))


def _apply_values(decoder_state: DecoderState, explicit: ExplicitValues, out: list[Delivery]) -> None:
    """Append the suppressed events and the event of a body with plain values."""
    source, skip, values = explicit
    if decoder_state.expander.knows(source):
        if skip:
            out += decoder_state.expand_suppressed(source, skip)
        out.append(decoder_state.expander.expand_values(source, values))


def _introduction(decoder_state: DecoderState, body: bytes, max_sources: int, out: list[Delivery]) -> None:
    expander, stream = decoder_state.expander, decoder_state.stream
    state, at = SourceState.decode(body, 0)
    exact_values: list[tuple[int, Any]] = []
    while at < len(body):
        index, at = varint.read(body, at)
        value, at = exact_value.decode(body, at)
        if index >= len(expander.rules.rules):
            raise CorruptFrame("value of an unknown property", index=index)
        exact_values.append((index, value))
    row = stream.sources
    if row >= max_sources:
        raise CorruptFrame("more sources than the decoder accepts", limit=max_sources)
    stream.sources += 1
    expander.restore(row, state.dimensions, state.ordinal, state.columns)
    out.append(expander.first_event(row, tuple(exact_values)))


def _heartbeat(decoder_state: DecoderState, beat: Heartbeat, out: list[Delivery]) -> None:
    if beat.sequence != decoder_state.sequence - 1:
        raise CorruptFrame("heartbeat of another position in the stream", sequence=beat.sequence)
    for run in beat.suppressed:
        for row in range(run.first, run.first + run.sources):
            if decoder_state.expander.knows(row):
                out += decoder_state.expand_suppressed(row, run.skip)
    if decoder_state.is_complete:
        out.append(Watermark(decoder_state.expander.publisher, beat.watermark / 1000))


def _switch(decoder_state: DecoderState, switch: Switch, out: list[Delivery]) -> None:
    if decoder_state.expander.knows(switch.source):
        out += decoder_state.expand_suppressed(switch.source, switch.skip)
        decoder_state.expander.switch(switch)


def _audit(decoder_state: DecoderState, body: bytes, out: list[Delivery]) -> None:
    expander = decoder_state.expander
    source, skip, exacts = decode_audit(body, expander.rules.schema)
    if expander.knows(source):
        out += decoder_state.expand_suppressed(source, skip)
        event = expander.current(source)
        errors = measure_errors(event, exacts, expander.rules)
        exact_values = dict(zip(errors, exacts, strict=True))
        out.append(Audit(expander.publisher, event.source, event.ordinal, errors, dict(event.bound), exact_values))


_MAX_HEADER = 5
"""bytes"""


def handle_json_frames(decoder_state: DecoderState, frames: list[bytes], number: int, out: list[Delivery]) -> None:
    """Decode the run of JSON frames from index `number` without creating `Frame` objects.

    It stops before the first frame that is not a valid JSON frame in order; `handle_frame` reports the reason. The
    sequence shows how many frames were decoded. Raises CorruptFrame for a value that its property cannot have; the
    sequence is then after that frame.
    """
    stream, decode = decoder_state.stream, decoder_state.spelling.decode
    cells, wide = stream.cells, stream.cells[WIDE]
    sequence, chain = cells[SEQUENCE], cells[CHAIN]
    plain = FrameKind.JSON | LONG * wide | cells[INCARNATION] << 6
    starts = {plain: 3 + wide, plain | PACKED: 4 + wide}
    for raw in frames[number:]:
        if not _MAX_HEADER < len(raw) <= MAX_FRAME:
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
                body = decoder_state.bindings.unpack(raw[1], body)
            explicit = decode(body, stream.sources)
        except PeerFault:
            return
        sequence += 1
        chain = after
        cells[SEQUENCE], cells[CHAIN] = sequence, chain
        _apply_values(decoder_state, explicit, out)
