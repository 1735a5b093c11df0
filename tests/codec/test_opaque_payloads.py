"""Payload events: opaque bytes on a topic without a schema."""

import os

import pytest
from dictionary_setup import DICTIONARIES, Reader, publisher
from hypothesis import given, settings
from hypothesis import strategies as st

from thinwire.codec import EventsMissed, Watermark
from thinwire.codec import stream_snapshot as checkpoints
from thinwire.codec.stream_encoder import MAX_PAYLOAD
from thinwire.errors import CorruptFrame, TooLarge, WrongType
from thinwire.schema import opaque
from thinwire.wire import FrameKind, join, read

RAW = opaque("machine.raw")
STORE = {d.hash: d for d in DICTIONARIES}


def site(store=STORE):
    return publisher(RAW), Reader(store, RAW)


def payloads(reader):
    return [event["payload"] for event in reader.events]


@given(st.lists(st.binary(max_size=300), max_size=12), st.lists(st.integers(0, 11), max_size=3))
@settings(max_examples=50, deadline=None)
def test_payloads_are_delivered_unchanged_in_order(sent, switches):
    out, reader = site()
    frames = out.start(0.0)
    for number, payload in enumerate(sent):
        if number in switches:
            frames += out.use(DICTIONARIES[number % 3], 1 + number % 2)
        frames += out.send(payload, 0.0)
    reader.hand(join(frames))
    assert payloads(reader) == sent
    assert [event.ordinal for event in reader.events] == list(range(1, len(sent) + 1))
    assert not any(event.virtual for event in reader.events)


def test_a_payload_costs_three_bytes_and_a_slot():
    out, _ = site()
    out.start(0.0)
    noise = os.urandom(200)
    assert [len(out.send(payload, 0.0)[0]) for payload in (b"", noise)] == [3, 203]
    assert len(out.send(b"GET /images/logo.png " * 50, 0.0)[0]) < 40, "deflated"
    out.use(DICTIONARIES[0], 1)
    packed = read(out.send(DICTIONARIES[0].content[:90], 0.0)[0])
    assert (packed.kind, packed.slot, packed.header_size) == (FrameKind.PAYLOAD, 1, 4)


def test_a_lost_payload_is_reported_by_its_ordinal():
    out, reader = site()
    reader.hand(join(out.start(0.0) + out.send(b"one", 0.0)))
    out.send(b"lost", 0.0)
    reader.hand(join(out.send(b"unreadable", 0.0) + out.start(1.0) + out.send(b"four", 1.0)))
    assert payloads(reader) == [b"one", b"four"]
    gaps = [thing for thing in reader.out if isinstance(thing, EventsMissed)]
    assert [(gap.source, gap.first, gap.last) for gap in gaps] == [(None, None, None), ((), 2, 3)]
    assert reader.subscriber.counts.missed == 2


def test_a_late_decoder_starts_with_the_next_payload():
    out, reader = site()
    for n in range(5):
        out.send(b"%d" % n, 0.0)
    reader.hand(join(out.start(1.0)))
    assert not reader.out
    assert not reader.subscriber.current_events()
    assert not reader.subscriber.peek()
    reader.hand(join(out.send(b"next", 1.0)))
    assert reader.events[0].ordinal == 6


def test_a_snapshot_continues_after_the_last_payload():
    out, reader = site()
    reader.hand(join(out.start(0.0) + out.send(b"one", 0.0)))
    for snapshot in (checkpoints.snapshot_decoder(reader.subscriber), checkpoints.snapshot_encoder(out)):
        later = Reader(STORE, RAW)
        checkpoints.restore_decoder(later.subscriber, snapshot)
    later.hand(join(out.send(b"two", 0.0)))
    assert [(event["payload"], event.ordinal) for event in later.events] == [(b"two", 2)]


def test_key_frames_and_heartbeats_change_nothing():
    out, reader = site()
    frames = out.start(0.0) + out.send(b"one", 0.0) + out.heartbeat(1.0) + out.start(2.0) + out.send(b"two", 2.0)
    reader.hand(join(frames))
    assert payloads(reader) == [b"one", b"two"]
    assert not any(isinstance(thing, EventsMissed) for thing in reader.out)
    assert any(isinstance(thing, Watermark) for thing in reader.out)


def test_regular_events_between_payloads():
    out, reader = site()
    frames = out.start(0.0) + out.send(b"one", 0.0)
    for value in ({"a": 1}, {"a": 1}, {"a": 2}):
        frames += out.publish({"payload": value}, 0.0)
    frames += out.publish({"payload": {"a": 2}}, 0.0) + out.send(b"six", 0.0)
    reader.hand(join(frames))
    assert payloads(reader) == [b"one", {"a": 1}, {"a": 1}, {"a": 2}, {"a": 2}, b"six"]
    assert [event.ordinal for event in reader.events] == [1, 2, 3, 4, 5, 6]


def test_errors_name_the_limits():
    out, _ = site()
    out.start(0.0)
    assert len(out.send(os.urandom(MAX_PAYLOAD), 0.0)[0]) == MAX_PAYLOAD + 3
    with pytest.raises(TooLarge, match=str(MAX_PAYLOAD)):
        out.send(bytes(MAX_PAYLOAD + 1), 0.0)


def test_a_topic_with_a_schema_rejects_payloads():
    out = publisher()
    with pytest.raises(WrongType, match="schema"):
        out.send(b"bytes", 0.0)
    reader = Reader(STORE)
    reader.hand(join(out.start(0.0)))
    reader.hand(out.frame_encoder.frame(FrameKind.PAYLOAD, b"bytes"))
    assert [thing.reason for thing in reader.out] == ["corrupt"]


def test_payloads_are_never_suppressed():
    from thinwire.wire import Heartbeat, SuppressedRun

    out, reader = site()
    reader.hand(join(out.start(0.0) + out.send(b"one", 0.0)))
    body = Heartbeat(out.sequence, 0, (SuppressedRun(0, 1, 3),)).encode()
    reader.hand(out.frame_encoder.frame(FrameKind.HEARTBEAT, body))
    assert [thing.reason for thing in reader.out if isinstance(thing, EventsMissed)] == ["corrupt"]
    with pytest.raises(CorruptFrame):
        reader.subscriber.decoder_state.expand_suppressed(0, 1)
