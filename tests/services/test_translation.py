"""Translation, message by message: the events and positions of each channel, and failures."""

import pytest
from demand_classes import selects
from translation_setup import Channels, Log, Reader

from thinwire.codec import Audit, Demand, EventsMissed, State, Watermark
from thinwire.errors import CorruptFrame, DemandError, UnknownSchema
from thinwire.schema import Property, Schema
from thinwire.services.translator.channel import FRAME_OVERHEAD
from thinwire.topics.demand_class import DemandClass
from thinwire.topics.names import publisher_in
from thinwire.topics.position import Position, decode_envelope, encode_envelope
from thinwire.wire import FrameKind, begins_round, split

ROOMS = Schema(
    "rooms",
    [
        Property("time", "timestamp", "header", form="epoch"),
        Property("room", "string", "dimension"),
        Property("t", "number", step="0.1"),
        Property("on", "boolean"),
    ],
)
LIMIT = 65_536
COARSE = DemandClass({"t": 1.0})
FINE = DemandClass({"t": 0.2})
HELD = DemandClass({"t": 1.0}, emit="changes")
NARROW = DemandClass({"t": 0.5}, properties=("t",), sources={"room": ("a",)})
ALL = (COARSE, FINE, HELD, NARROW)


def event(k, room="a", t=None, on=True):
    return {"time": 1000 * k, "room": room, "t": 20 + k / 10 if t is None else t, "on": on}


def walk(log, count, publishers=("p1", "p2"), first=0):
    for k in range(first, first + count):
        for name in publishers:
            log.publish(name, event(k, "ab"[k % 2], (k * 7 % 13 + k // 2) / 10, k % 29 < 15))


def translated(log, classes=ALL, messages=None, **others):
    """Translate all messages with one translator; return the translation and its messages."""
    translation = log.translation(**others)
    for one in classes:
        translation.open(one)
    for stored in log.messages if messages is None else messages:
        translation.receive(stored)
    return translation, translation.take_messages(LIMIT)


def check_delivered(log, reader, *, complete=True):
    """Check that every event of the selected sources came once, in order and within its tolerance."""
    schema = reader.demand.schema(log.schema)
    expected = [identity for identity in log.truth if selects(reader.demand, identity[2], log.schema)]
    delivered = [event.identity for event in reader.events]
    assert len(set(delivered)) == len(delivered)
    assert sorted(delivered) == sorted(expected) if complete else set(delivered) <= set(expected)
    for event in reader.events:
        assert set(event) == {p.name for p in schema}
        check_within(log, reader.demand, event)


def check_within(log, demand, event):
    truth, bounds = log.truth[event.identity], log.bounds[event.identity]
    assert abs(event["t"] - truth["t"]) <= event.bound["t"] + 1e-9
    assert event.bound["t"] <= max(demand.tolerance["t"], bounds["t"])
    if "on" in event:
        assert event["on"] == truth["on"]
    if demand.mode == "predict" or not event.virtual:
        assert event["time"] == truth["time"]


@pytest.mark.parametrize("demand", [Demand(), Demand({"t": 0.2}), Demand({"t": 0.2}, mode="hold"), Demand({"t": 3})])
def test_every_class_gets_every_event_within_its_tolerance(demand):
    log = Log(ROOMS, demand=demand)
    walk(log, 60)
    for name in log.publishers:
        log.heartbeat(name)
    translation, messages = translated(log)
    for one in ALL:
        reader = Reader(log, one)
        reader.read(messages)
        assert reader.missed == []
        check_delivered(log, reader)
    assert translation.counts.events == len(log.truth) == 120
    assert translation.counts.encodings == 3 * 120 + 60
    assert translation.problems == {}
    for name, counts in translation.counts.classes.items():
        frames = [f for m in messages if m.class_id == name for f in split(decode_envelope(m.payload)[2])]
        assert (counts.frames, counts.frame_bytes) == (len(frames), sum(map(len, frames)))


def test_a_coarser_class_takes_fewer_bytes():
    log = Log(ROOMS)
    walk(log, 60)
    counts = translated(log)[0].counts.classes
    assert counts[HELD.id].data_bytes < counts[FINE.id].data_bytes
    assert counts[COARSE.id].data_bytes < counts[FINE.id].data_bytes


def test_a_class_of_changes_gets_exact_values_of_changes_only():
    log = Log(ROOMS, publishers=["p1"])
    for k, t in enumerate((20.0, 20.9, 21.1, 21.0, 22.2)):
        log.publish("p1", event(k, t=t))
    reader = Reader(log, HELD, include_suppressed=False)
    reader.read(translated(log, [HELD])[1])
    assert [(e.ordinal, e["t"], e["time"]) for e in reader.events] == [(1, 20.0, 0), (3, 21.1, 2000), (5, 22.2, 4000)]


def test_two_translators_of_the_same_log_send_the_same_bytes():
    log = Log(ROOMS, demand=Demand({"t": 0.3}))
    walk(log, 40)
    log.reconfigure(Demand({"t": 0.1}))
    walk(log, 40, first=40)
    assert translated(log)[1] == translated(log)[1]


def test_a_new_configuration_of_publishers_loses_no_event():
    log = Log(ROOMS, demand=Demand({"t": 2}))
    walk(log, 30)
    log.reconfigure(Demand({"t": 0.1}))
    walk(log, 30, first=30)
    log.reconfigure(Demand({"t": 0.6}))
    walk(log, 30, first=60)
    for name in log.publishers:
        log.heartbeat(name)
    messages = translated(log)[1]
    for one in ALL:
        reader = Reader(log, one)
        reader.read(messages)
        assert reader.missed == []
        assert {decoder.config_version for decoder in reader.decoders.values()} == {3}
        check_delivered(log, reader)


def test_rounds_of_many_key_frames_make_no_gap():
    log = Log(ROOMS, publishers=["p1"], demand=Demand({"t": 0.5}))
    rooms = [f"a room with a long name, so that few fit into a key frame: {n}" for n in range(1200)]
    for k in range(2):
        for room in rooms:
            log.publish("p1", event(k, room), flush=False)
        log.flush("p1")
        log.reconfigure(Demand({"t": 0.1 * k}))
    assert sum(split(stored.payload)[0][0] & 15 == FrameKind.KEY for stored in log.messages) > 3
    log.publish("p1", event(9, rooms[-1], 50.0))
    log.heartbeat("p1")
    translation, messages = translated(log, [COARSE, HELD])
    for one in (COARSE, HELD):
        reader = Reader(log, one)
        reader.read(messages)
        assert reader.missed == []
        check_delivered(log, reader)
    translation.request_key_frames(COARSE.id, now=translation.time + 1)
    assert [m.is_key for m in translation.take_messages(LIMIT)] == [True, False]


def test_a_message_has_its_position_and_key_frames_are_messages_of_their_own():
    log = Log(ROOMS, publishers=["p1"])
    log.publish("p1", event(0), flush=False)
    log.publish("p1", event(1), flush=False)
    log.publish("p1", event(2, t=30.0))
    log.publish("p1", event(3, t=40.0))
    large = translated(log, [FINE])[1]
    assert [(m.is_key, *decode_envelope(m.payload)[:2]) for m in large] == [
        (True, 1, Position(1)),
        (False, 1, Position(3)),
    ]
    translation, _ = translated(log, [FINE], log.messages[:1])
    small = []
    for stored in log.messages[1:]:
        translation.receive(stored)
        small += translation.take_messages(1)  # every frame is larger, so each is a message
    positions = dict.fromkeys(decode_envelope(m.payload)[1] for m in small)  # an event may take more than one frame
    assert list(positions) == [Position(1, 1), Position(1, 2), Position(2), Position(3)]
    assert b"".join(decode_envelope(m.payload)[2] for m in small) == b"".join(
        split(decode_envelope(large[1].payload)[2])
    )
    for message in large + small:
        assert message.is_key == begins_round(decode_envelope(message.payload)[2])


def test_messages_end_at_message_boundaries_of_the_log_if_possible():
    log = Log(ROOMS, publishers=["p1"])
    for k in range(40):
        log.publish("p1", event(k, t=k * 5.0), flush=k % 4 == 3)
    messages = translated(log, [FINE])[0].take_messages(LIMIT)
    assert messages == []
    translation = log.translation()
    translation.open(FINE)
    for stored in log.messages:
        translation.receive(stored)
    pending = translation.pending_bytes
    messages = translation.take_messages(120)
    assert all(len(m.payload) <= 120 for m in messages if not m.is_key)
    assert [decode_envelope(m.payload)[1].within for m in messages] == [0] * len(messages)
    counts = translation.counts.classes[FINE.id]
    assert pending == counts.frame_bytes + FRAME_OVERHEAD * counts.frames
    assert translation.pending_bytes == 0


def test_a_class_that_is_opened_later_begins_with_the_current_state():
    log = Log(ROOMS)
    walk(log, 20)
    translation, _ = translated(log, [])
    translation.open(COARSE)
    (first, second) = translation.take_messages(LIMIT)
    assert first.is_key
    assert second.is_key
    assert {decode_envelope(m.payload)[1].offset for m in (first, second)} == {len(log.messages) - 1, len(log.messages)}
    reader = Reader(log, COARSE)
    reader.read([first, second])
    assert sorted(e.identity for e in reader.events) == sorted(
        (name, 1, (room,), 10) for name in ("p1", "p2") for room in "ab"
    )


def test_classes_of_all_sources_share_a_row_map():
    log = Log(ROOMS, publishers=["p1"])
    walk(log, 4, publishers=["p1"])
    translation, _ = translated(log, [COARSE, NARROW])
    translation.open(FINE)
    log.publish("p1", event(9, "c"))
    translation.receive(log.messages[-1])
    streams = [translation.find_stream(one.id, "p1") for one in (COARSE, FINE, NARROW)]
    coarse, fine, narrow = (stream.reducer for stream in streams)
    assert coarse.row_map is fine.row_map
    assert (coarse.keys, fine.keys, narrow.keys) == ([("a",), ("b",), ("c",)], [("a",), ("b",), ("c",)], [("a",)])


def test_another_incarnation_has_another_row_map():
    log = Log(ROOMS, publishers=["p1"])
    walk(log, 4, publishers=["p1"])
    log.start_publisher("p1", incarnation=2)
    for room in "ba":
        log.publish("p1", event(9, room))
    translation, _ = translated(log, [COARSE, FINE])
    coarse, fine = (translation.find_stream(one.id, "p1").reducer for one in (COARSE, FINE))
    assert coarse.row_map is fine.row_map
    assert coarse.keys == [("b",), ("a",)]


def test_a_class_that_is_closed_and_reopened_continues_its_sequence():
    log = Log(ROOMS)
    walk(log, 20)
    translation, messages = translated(log, [COARSE])
    reader = Reader(log, COARSE)
    reader.read(messages)
    walk(log, 2, first=20)
    for stored in log.messages[-4:]:
        translation.receive(stored)
    translation.close(COARSE.id)
    translation.close(COARSE.id)
    assert (translation.take_messages(LIMIT), translation.pending_bytes) == ([], 0)
    translation.open(COARSE)
    reader.read(translation.take_messages(LIMIT))
    assert {m.reason for m in reader.missed} == {"gap"}
    check_delivered(log, reader, complete=False)
    assert all(decoder.state is State.READY for decoder in reader.decoders.values())


def test_requests_are_answered_at_most_once_per_second_of_log_time():
    log = Log(ROOMS)
    walk(log, 20)
    translation, _ = translated(log, [COARSE, FINE])
    translation.request_key_frames(COARSE.id, "p1")
    translation.request_key_frames(COARSE.id, "p1")
    (only,) = translation.take_messages(LIMIT)
    assert (only.class_id, only.publisher, only.is_key) == (COARSE.id, "p1", True)
    translation.request_key_frames(COARSE.id)
    assert [m.publisher for m in translation.take_messages(LIMIT)] == ["p2"]
    translation.request_key_frames(COARSE.id, "p2", now=translation.time + 1)
    assert [m.publisher for m in translation.take_messages(LIMIT)] == ["p2"]
    translation.request_key_frames("nobody")
    log.now += 5
    log.publish("p1", event(0, t=99.0))
    translation.receive(log.messages[-1])
    assert [m.is_key for m in translation.take_messages(LIMIT) if m.class_id == COARSE.id] == [False, True]


def test_heartbeats_and_audits_of_the_publisher_are_forwarded():
    log = Log(ROOMS, publishers=["p1"], audit_every=5, demand=Demand({"t": 0.1}))
    walk(log, 30, ["p1"])
    log.heartbeat("p1")
    watermark = log.publishers["p1"]._watermark / 1000
    messages = translated(log)[1]
    for one in ALL:
        reader = Reader(log, one)
        reader.read(messages)
        audits = [delivery for delivery in reader.deliveries if isinstance(delivery, Audit)]
        assert audits
        assert all(audit.errors["t"] <= one.tolerance["t"] for audit in audits)
        assert all(audit.errors.keys() == audit.bound.keys() for audit in audits)
        marks = [delivery.time for delivery in reader.deliveries if isinstance(delivery, Watermark)]
        assert marks == sorted(marks)
        assert marks[-1] == watermark


def test_suppressed_events_are_sent_on_request_without_a_heartbeat():
    log = Log(ROOMS, publishers=["p1"])
    walk(log, 8, ["p1"])
    translation, messages = translated(log, [COARSE])
    reader = Reader(log, COARSE)
    reader.read(messages)
    assert len(reader.events) < 8
    translation.send_suppressed()
    reader.read(translation.take_messages(LIMIT))
    check_delivered(log, reader)
    translation.send_suppressed(COARSE.id, "p1")
    assert translation.take_messages(LIMIT) == []
    assert not translation.find_stream(COARSE.id, "p1").has_unsent_suppressed
    assert translation.list_channels() == [(COARSE.id, "p1")]
    assert translation.find_stream(COARSE.id, "p2") is None


def corrupted(log, number, payload=b"\x01\x77\x77garbage"):
    """Return the messages of the log with one payload replaced."""
    return [s._replace(payload=payload) if s.offset == number else s for s in log.messages]


@pytest.mark.parametrize("how", ["corrupt", "left out"])
def test_a_loss_is_reported_and_only_to_the_affected_classes(how):
    log = Log(ROOMS, key_frame_interval=5.0)
    walk(log, 80)
    for name in log.publishers:
        log.heartbeat(name)
    victim = next(s for s in log.messages[60:] if s.subject.endswith(".p1.d"))
    messages = corrupted(log, victim.offset) if how == "corrupt" else [s for s in log.messages if s != victim]
    translated_messages = translated(log, messages=messages)[1]
    for one in ALL:
        reader = Reader(log, one)
        reader.read(translated_messages)
        affected = {"p1"} if how == "corrupt" else {"p1", "p2"}
        assert {m.publisher for m in reader.missed} == affected
        missed = {
            (m.publisher, 1, m.source, n)
            for m in reader.missed
            if m.source is not None
            for n in range(m.first, m.last + 1)
        }
        delivered = [e.identity for e in reader.events]
        assert len(set(delivered)) == len(delivered)
        assert not missed & set(delivered)
        expected = {i for i in log.truth if selects(one, i[2], ROOMS)}
        assert missed | set(delivered) == expected
        for received in reader.events:
            if received.bound["t"] is not None:
                check_within(log, one, received)


def test_events_before_a_corrupt_frame_of_a_message_are_sent():
    log = Log(ROOMS, publishers=["p1"])
    for k in range(3):
        log.publish("p1", event(k, t=30.0 * k), flush=k == 2)
    broken = log.messages[-1].payload[:-1] + b"\xff"
    translation, messages = translated(log, [FINE], corrupted(log, len(log.messages), broken))
    reader = Reader(log, FINE)
    reader.read(messages)
    assert [e.ordinal for e in reader.events] == [1, 2]
    assert decode_envelope(messages[-1].payload)[1] == Position(1, 2)
    assert translation.find_stream(FINE.id, "p1") is None


def test_a_new_incarnation_of_a_publisher_is_reported_as_a_restart():
    log = Log(ROOMS)
    walk(log, 20)
    log.start_publisher("p1", incarnation=2)
    walk(log, 20, first=20)
    for name in log.publishers:
        log.heartbeat(name)
    messages = translated(log)[1]
    for one in ALL:
        reader = Reader(log, one)
        reader.read(messages)
        assert [(m.publisher, m.reason) for m in reader.missed] == [("p1", "restart")]
        check_delivered(log, reader)


def test_a_message_with_an_unknown_schema_is_processed_after_the_schema_is_known():
    log = Log(ROOMS, publishers=["p1"])
    walk(log, 10, ["p1"])
    schemas = {}
    translation = log.translation()
    translation.log_decoder._lookup = schemas.get
    translation.open(FINE)
    with pytest.raises(UnknownSchema):
        translation.receive(log.messages[0])
    schemas[ROOMS.fingerprint] = ROOMS
    for stored in log.messages:
        translation.receive(stored)
        translation.receive(stored)  # a repeated message has no effect
    reader = Reader(log, FINE)
    reader.read(translation.take_messages(LIMIT))
    translation.send_suppressed()
    reader.read(translation.take_messages(LIMIT))
    check_delivered(log, reader)


def test_a_source_limit_affects_only_the_class_that_exceeds_it():
    log = Log(ROOMS, publishers=["p1"])
    log.publish("p1", event(0, "a"))
    log.publish("p1", event(1, "b"))
    log.publish("p1", event(2, "a"))
    translation, messages = translated(log, [FINE, NARROW], max_sources=1)
    assert translation.counts.classes[FINE.id].rejected == 2  # the event, and then the complete state
    assert translation.counts.classes[NARROW.id].rejected == 0
    assert all(FINE.id in problem for problem in translation.problems)
    translation.send_suppressed()
    reader = Reader(log, NARROW)
    reader.read(messages + translation.take_messages(LIMIT))
    check_delivered(log, reader)


def test_topics_with_a_minimum_interval_have_no_channels():
    log = Log(ROOMS, publishers=["p1"], demand=Demand(min_interval=5))
    walk(log, 10, ["p1"])
    translation, messages = translated(log, [FINE])
    assert messages == []
    assert any("thinned" in problem for problem in translation.problems)


def test_an_invalid_demand_is_refused_without_effect_on_other_classes():
    log = Log(ROOMS)
    walk(log, 5)
    translation, _ = translated(log, [COARSE])
    with pytest.raises(DemandError, match="t"):
        translation.open(DemandClass({"t": 0.5}, exact=("t",)))
    assert translation.classes == {COARSE.id: COARSE}
    log.publish("p1", event(9, t=99.0))
    translation.receive(log.messages[-1])
    assert len(translation.take_messages(LIMIT)) == 1


def test_a_successor_resumes_within_a_message():
    log = Log(ROOMS, publishers=["p1"])
    for k in range(12):
        log.publish("p1", event(k, t=k * 5.0), flush=k % 6 == 5)
    log.heartbeat("p1")
    translation = log.translation()
    translation.open(FINE)
    for stored in log.messages:
        translation.receive(stored)
    messages = translation.take_messages(1)
    channels = Channels(log)
    written = next(n for n, m in enumerate(messages, start=1) if decode_envelope(m.payload)[1] == Position(1, 3))
    channels.messages = messages[:written]
    assert channels.ends(FINE.id) == {"p1": Position(1, 3)}
    successor, first = channels.successor([FINE], epoch=2)
    for stored in log.messages[first:]:
        successor.receive(stored)
    resumed = successor.take_messages(LIMIT)
    assert (resumed[0].is_key, decode_envelope(resumed[0].payload)[:2]) == (True, (2, Position(1, 3)))
    reader = Reader(log, FINE)
    reader.read(channels.messages + resumed + messages[written:])  # late messages of the predecessor are dropped
    assert reader.missed == []
    check_delivered(log, reader)


def test_a_successor_without_decoder_state_reports_missed_events():
    log = Log(ROOMS, publishers=["p1"], demand=Demand({"t": 0.1}))
    walk(log, 20, ["p1"])
    messages = translated(log, [COARSE])[1]
    walk(log, 10, ["p1"], first=20)
    log.publishers["p1"]._next_key = 0.0
    walk(log, 10, ["p1"], first=30)
    log.heartbeat("p1")
    channels = Channels(log)
    channels.messages = messages
    successor = log.translation(2)
    successor.open(COARSE, channels.ends(COARSE.id))
    for stored in log.messages[-14:]:
        successor.receive(stored)
    reader = Reader(log, COARSE)
    reader.read(messages + successor.take_messages(LIMIT))
    assert reader.missed[0].reason == "gap"
    missed = {("p1", 1, m.source, n) for m in reader.missed if m.source for n in range(m.first, m.last + 1)}
    assert missed
    delivered = {e.identity for e in reader.events}
    assert not missed & delivered
    for received in reader.events:
        check_within(log, COARSE, received)


def test_events_between_a_channel_end_and_later_decoders_are_reported_as_missed():
    log = Log(ROOMS, publishers=["p1"])
    walk(log, 20, ["p1"])
    early = translated(log, [COARSE], log.messages[:9])[1]
    late, _ = translated(log, [], epoch=2)
    late.open(COARSE, {"p1": decode_envelope(early[-1].payload)[1]})
    reader = Reader(log, COARSE)
    reader.read(early + late.take_messages(LIMIT))
    assert any(isinstance(delivery, EventsMissed) for delivery in reader.deliveries)
    assert reader.events[-1].ordinal == 10


def test_a_truncated_envelope_is_refused():
    payload = encode_envelope(70_000, Position(1 << 40, 3), b"x")
    assert decode_envelope(payload) == (70_000, Position(1 << 40, 3), b"x")
    for size in range(len(payload)):
        with pytest.raises(CorruptFrame):
            decode_envelope(payload[:size])


def test_a_translation_has_one_decoder_per_publisher():
    log = Log(ROOMS)
    translation, _ = translated(log)
    assert set(translation.decoders) == {publisher_in(stored.subject) for stored in log.messages} == {"p1", "p2"}
