"""Frames in their order: what each kind does to a replica, and what it brings the subscriber."""

from __future__ import annotations

from typing import Any

from thinwire.codec import deliveries_audits as audits
from thinwire.codec import source_table_payloads as payloads
from thinwire.codec import value_encoder as exceptions
from thinwire.codec.decoder_state_replica import Replica
from thinwire.codec.deliveries import Audit, Delivery, Watermark
from thinwire.errors import CorruptFrame
from thinwire.schema import Event
from thinwire.schema.schema_payloads import PAYLOAD
from thinwire.wire import Binding, Frame, FrameKind, Given, Heartbeat, SourceState, Switch, varint
from thinwire.wire import compact_body as compact
from thinwire.wire import exact_value as exact
from thinwire.wire.frame_kinds import is_known


def take(replica: Replica, frame: Frame, max_sources: int, out: list[Delivery]) -> None:
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
