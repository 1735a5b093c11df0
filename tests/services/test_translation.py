"""Translation, message by message: what each class is told, how far its channel says it is, and what goes wrong."""

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
    """Everything translated at once by one translator that never fails: the translation and its messages."""
    translation = log.translation(**others)
    for one in classes:
        translation.open(one)
    for stored in log.messages if messages is None else messages:
        translation.receive(stored)
    return translation, translation.take_messages(LIMIT)


def check_told(log, reader, *, whole=True):
    """Every event of the chosen sources came once, in order, and within its tolerance."""
    schema = reader.asked.schema(log.schema)
    due = [identity for identity in log.truth if selects(reader.asked, identity[2], log.schema)]
    heard = [event.identity for event in reader.events]
    assert len(set(heard)) == len(heard)
    assert sorted(heard) == sorted(due) if whole else set(heard) <= set(due)
    for event in reader.events:
        assert set(event) == {p.name for p in schema}
        check_within(log, reader.asked, event)


def check_within(log, one, event):
    truth, told = log.truth[event.identity], log.bounds[event.identity]
    assert abs(event["t"] - truth["t"]) <= event.bound["t"] + 1e-9
    assert event.bound["t"] <= max(one.tolerance["t"], told["t"])
    if "on" in event:
        assert event["on"] == truth["on"]
    if one.mode == "predict" or not event.virtual:
        assert event["time"] == truth["time"]


@pytest.mark.parametrize("demand", [Demand(), Demand({"t": 0.2}), Demand({"t": 0.2}, mode="hold"), Demand({"t": 3})])
def test_every_class_is_told_every_event_within_its_tolerance(demand):
    log = Log(ROOMS, demand=demand)
    walk(log, 60)
    for name in log.publishers:
        log.heartbeat(name)
    translation, messages = translated(log)
    for one in ALL:
        reader = Reader(log, one)
        reader.read(messages)
        assert reader.missed == []
        check_told(log, reader)
    assert translation.counts.events == len(log.truth) == 120
    assert translation.counts.encodings == 3 * 120 + 60
    assert translation.problems == {}
    for name, counts in translation.counts.classes.items():
        frames = [f for m in messages if m.class_id == name for f in split(decode_envelope(m.payload)[2])]
        assert (counts.frames, counts.frame_bytes) == (len(frames), sum(map(len, frames)))


def test_a_coarser_class_is_told_less():
    log = Log(ROOMS)
    walk(log, 60)
    counts = translated(log)[0].counts.classes
    assert counts[HELD.id].data_bytes < counts[FINE.id].data_bytes
    assert counts[COARSE.id].data_bytes < counts[FINE.id].data_bytes


def test_a_held_class_has_exact_values_where_they_fire_and_no_word_of_the_rest():
    log = Log(ROOMS, publishers=["p1"])
    for k, t in enumerate((20.0, 20.9, 21.1, 21.0, 22.2)):
        log.publish("p1", event(k, t=t))
    reader = Reader(log, HELD, include_suppressed=False)
    reader.read(translated(log, [HELD])[1])
    assert [(e.ordinal, e["t"], e["time"]) for e in reader.events] == [(1, 20.0, 0), (3, 21.1, 2000), (5, 22.2, 4000)]


def test_two_who_are_fed_the_same_say_the_same_to_the_bit():
    log = Log(ROOMS, demand=Demand({"t": 0.3}))
    walk(log, 40)
    log.reconfigure(Demand({"t": 0.1}))
    walk(log, 40, first=40)
    assert translated(log)[1] == translated(log)[1]


def test_publishers_that_are_told_to_do_otherwise_lose_nothing():
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
        assert {link.config_version for link in reader.links.values()} == {3}
        check_told(log, reader)


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
        check_told(log, reader)
    translation.request_key_frames(COARSE.id, now=translation.time + 1)
    assert [m.is_key for m in translation.take_messages(LIMIT)] == [True, False]


def test_a_message_says_how_far_it_tells_and_key_frames_stand_alone():
    log = Log(ROOMS, publishers=["p1"])
    log.publish("p1", event(0), flush=False)
    log.publish("p1", event(1), flush=False)
    log.publish("p1", event(2, t=30.0))
    log.publish("p1", event(3, t=40.0))
    whole = translated(log, [FINE])[1]
    assert [(m.is_key, *decode_envelope(m.payload)[:2]) for m in whole] == [
        (True, 1, Position(1)),
        (False, 1, Position(3)),
    ]
    translation, _ = translated(log, [FINE], log.messages[:1])
    small = []
    for stored in log.messages[1:]:
        translation.receive(stored)
        small += translation.take_messages(1)  # every frame is larger, so each goes alone
    told = dict.fromkeys(decode_envelope(m.payload)[1] for m in small)  # an event may take more than one frame
    assert list(told) == [Position(1, 1), Position(1, 2), Position(2), Position(3)]
    assert b"".join(decode_envelope(m.payload)[2] for m in small) == b"".join(
        split(decode_envelope(whole[1].payload)[2])
    )
    for message in whole + small:
        assert message.is_key == begins_round(decode_envelope(message.payload)[2])


def test_messages_are_cut_between_those_of_the_log_where_they_can():
    log = Log(ROOMS, publishers=["p1"])
    for k in range(40):
        log.publish("p1", event(k, t=k * 5.0), flush=k % 4 == 3)
    messages = translated(log, [FINE])[0].take_messages(LIMIT)
    assert messages == []
    translation = log.translation()
    translation.open(FINE)
    for stored in log.messages:
        translation.receive(stored)
    waiting = translation.pending_bytes
    cut = translation.take_messages(120)
    assert all(len(m.payload) <= 120 for m in cut if not m.is_key)
    assert [decode_envelope(m.payload)[1].within for m in cut] == [0] * len(cut)
    told = translation.counts.classes[FINE.id]
    assert waiting == told.frame_bytes + FRAME_OVERHEAD * told.frames
    assert translation.pending_bytes == 0


def test_a_class_that_is_opened_later_begins_with_what_is_known():
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
    log.live("p1", incarnation=2)
    for room in "ba":
        log.publish("p1", event(9, room))
    translation, _ = translated(log, [COARSE, FINE])
    coarse, fine = (translation.find_stream(one.id, "p1").reducer for one in (COARSE, FINE))
    assert coarse.row_map is fine.row_map
    assert coarse.keys == [("b",), ("a",)]


def test_a_class_that_is_closed_and_opened_again_goes_on_with_higher_numbers():
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
    check_told(log, reader, whole=False)
    assert all(link.state is State.READY for link in reader.links.values())


def test_what_subscribers_ask_for_is_told_at_most_once_a_second_of_the_logs_time():
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


def test_heartbeats_and_audits_are_the_publishers():
    log = Log(ROOMS, publishers=["p1"], audit_every=5, demand=Demand({"t": 0.1}))
    walk(log, 30, ["p1"])
    log.heartbeat("p1")
    told = log.publishers["p1"]._watermark / 1000
    messages = translated(log)[1]
    for one in ALL:
        reader = Reader(log, one)
        reader.read(messages)
        found = [thing for thing in reader.deliveries if isinstance(thing, Audit)]
        assert found
        assert all(audit.errors["t"] <= one.tolerance["t"] for audit in found)
        assert all(audit.errors.keys() == audit.bound.keys() for audit in found)
        marks = [thing.time for thing in reader.deliveries if isinstance(thing, Watermark)]
        assert marks == sorted(marks)
        assert marks[-1] == told


def test_what_was_passed_over_is_told_when_a_publisher_falls_silent_without_a_word():
    log = Log(ROOMS, publishers=["p1"])
    walk(log, 8, ["p1"])
    translation, messages = translated(log, [COARSE])
    reader = Reader(log, COARSE)
    reader.read(messages)
    assert len(reader.events) < 8
    translation.send_suppressed()
    reader.read(translation.take_messages(LIMIT))
    check_told(log, reader)
    translation.send_suppressed(COARSE.id, "p1")
    assert translation.take_messages(LIMIT) == []
    assert not translation.find_stream(COARSE.id, "p1").has_unsent_suppressed
    assert translation.list_channels() == [(COARSE.id, "p1")]
    assert translation.find_stream(COARSE.id, "p2") is None


def harmed(log, number, payload=b"\x01\x77\x77garbage"):
    """The log with one message replaced."""
    return [s._replace(payload=payload) if s.offset == number else s for s in log.messages]


@pytest.mark.parametrize("how", ["corrupt", "left out"])
def test_a_loss_is_told_as_such_and_only_to_those_who_lost(how):
    log = Log(ROOMS, key_frame_interval=5.0)
    walk(log, 80)
    for name in log.publishers:
        log.heartbeat(name)
    victim = next(s for s in log.messages[60:] if s.subject.endswith(".p1.d"))
    messages = harmed(log, victim.offset) if how == "corrupt" else [s for s in log.messages if s != victim]
    told = translated(log, messages=messages)[1]
    for one in ALL:
        reader = Reader(log, one)
        reader.read(told)
        losers = {"p1"} if how == "corrupt" else {"p1", "p2"}
        assert {m.publisher for m in reader.missed} == losers
        gone = {
            (m.publisher, 1, m.source, n)
            for m in reader.missed
            if m.source is not None
            for n in range(m.first, m.last + 1)
        }
        heard = [e.identity for e in reader.events]
        assert len(set(heard)) == len(heard)
        assert not gone & set(heard)
        due = {i for i in log.truth if selects(one, i[2], ROOMS)}
        assert gone | set(heard) == due
        for seen in reader.events:
            if seen.bound["t"] is not None:
                check_within(log, one, seen)


def test_what_came_before_a_loss_in_its_message_is_told():
    log = Log(ROOMS, publishers=["p1"])
    for k in range(3):
        log.publish("p1", event(k, t=30.0 * k), flush=k == 2)
    broken = log.messages[-1].payload[:-1] + b"\xff"
    translation, told = translated(log, [FINE], harmed(log, len(log.messages), broken))
    reader = Reader(log, FINE)
    reader.read(told)
    assert [e.ordinal for e in reader.events] == [1, 2]
    assert decode_envelope(told[-1].payload)[1] == Position(1, 2)
    assert translation.find_stream(FINE.id, "p1") is None


def test_another_life_of_a_publisher_begins_anew():
    log = Log(ROOMS)
    walk(log, 20)
    log.live("p1", incarnation=2)
    walk(log, 20, first=20)
    for name in log.publishers:
        log.heartbeat(name)
    told = translated(log)[1]
    for one in ALL:
        reader = Reader(log, one)
        reader.read(told)
        assert [(m.publisher, m.reason) for m in reader.missed] == [("p1", "restart")]
        check_told(log, reader)


def test_a_schema_that_is_not_known_yet_is_asked_for_once():
    log = Log(ROOMS, publishers=["p1"])
    walk(log, 10, ["p1"])
    known = {}
    translation = log.translation()
    translation.log_decoder._lookup = known.get
    translation.open(FINE)
    with pytest.raises(UnknownSchema):
        translation.receive(log.messages[0])
    known[ROOMS.fingerprint] = ROOMS
    for stored in log.messages:
        translation.receive(stored)
        translation.receive(stored)  # one that comes again changes nothing
    reader = Reader(log, FINE)
    reader.read(translation.take_messages(LIMIT))
    translation.send_suppressed()
    reader.read(translation.take_messages(LIMIT))
    check_told(log, reader)


def test_a_class_that_takes_fewer_sources_is_refused_alone():
    log = Log(ROOMS, publishers=["p1"])
    log.publish("p1", event(0, "a"))
    log.publish("p1", event(1, "b"))
    log.publish("p1", event(2, "a"))
    translation, told = translated(log, [FINE, NARROW], max_sources=1)
    assert translation.counts.classes[FINE.id].rejected == 2  # the event, and then the whole state
    assert translation.counts.classes[NARROW.id].rejected == 0
    assert all(FINE.id in problem for problem in translation.problems)
    translation.send_suppressed()
    reader = Reader(log, NARROW)
    reader.read(told + translation.take_messages(LIMIT))
    check_told(log, reader)


def test_topics_that_are_thinned_have_no_classes():
    log = Log(ROOMS, publishers=["p1"], demand=Demand(min_interval=5))
    walk(log, 10, ["p1"])
    translation, told = translated(log, [FINE])
    assert told == []
    assert any("thinned" in problem for problem in translation.problems)


def test_a_demand_that_cannot_be_is_refused_and_harms_nobody():
    log = Log(ROOMS)
    walk(log, 5)
    translation, _ = translated(log, [COARSE])
    with pytest.raises(DemandError, match="t"):
        translation.open(DemandClass({"t": 0.5}, exact=("t",)))
    assert translation.classes == {COARSE.id: COARSE}
    log.publish("p1", event(9, t=99.0))
    translation.receive(log.messages[-1])
    assert len(translation.take_messages(LIMIT)) == 1


def test_a_successor_goes_on_in_the_middle_of_a_message():
    log = Log(ROOMS, publishers=["p1"])
    for k in range(12):
        log.publish("p1", event(k, t=k * 5.0), flush=k % 6 == 5)
    log.heartbeat("p1")
    translation = log.translation()
    translation.open(FINE)
    for stored in log.messages:
        translation.receive(stored)
    whole = translation.take_messages(1)
    channels = Channels(log)
    written = next(n for n, m in enumerate(whole, start=1) if decode_envelope(m.payload)[1] == Position(1, 3))
    channels.messages = whole[:written]
    assert channels.ends(FINE.id) == {"p1": Position(1, 3)}
    successor, first = channels.successor([FINE], epoch=2)
    for stored in log.messages[first:]:
        successor.receive(stored)
    told = successor.take_messages(LIMIT)
    assert (told[0].is_key, decode_envelope(told[0].payload)[:2]) == (True, (2, Position(1, 3)))
    reader = Reader(log, FINE)
    reader.read(channels.messages + told + whole[written:])  # the dead one's last words come late, and are dropped
    assert reader.missed == []
    check_told(log, reader)


def test_a_successor_without_the_state_says_that_events_are_missing():
    log = Log(ROOMS, publishers=["p1"], demand=Demand({"t": 0.1}))
    walk(log, 20, ["p1"])
    told = translated(log, [COARSE])[1]
    walk(log, 10, ["p1"], first=20)
    log.publishers["p1"]._next_key = 0.0
    walk(log, 10, ["p1"], first=30)
    log.heartbeat("p1")
    channels = Channels(log)
    channels.messages = told
    successor = log.translation(2)
    successor.open(COARSE, channels.ends(COARSE.id))
    for stored in log.messages[-14:]:
        successor.receive(stored)
    reader = Reader(log, COARSE)
    reader.read(told + successor.take_messages(LIMIT))
    assert reader.missed[0].reason == "gap"
    gone = {("p1", 1, m.source, n) for m in reader.missed if m.source for n in range(m.first, m.last + 1)}
    assert gone
    heard = {e.identity for e in reader.events}
    assert not gone & heard
    for seen in reader.events:
        check_within(log, COARSE, seen)


def test_a_place_that_the_decoders_are_past_cannot_be_gone_on_from():
    log = Log(ROOMS, publishers=["p1"])
    walk(log, 20, ["p1"])
    early = translated(log, [COARSE], log.messages[:9])[1]
    late, _ = translated(log, [], epoch=2)
    late.open(COARSE, {"p1": decode_envelope(early[-1].payload)[1]})
    reader = Reader(log, COARSE)
    reader.read(early + late.take_messages(LIMIT))
    assert any(isinstance(thing, EventsMissed) for thing in reader.deliveries)
    assert reader.events[-1].ordinal == 10


def test_an_envelope_that_was_cut_off_is_not_taken_for_one():
    payload = encode_envelope(70_000, Position(1 << 40, 3), b"x")
    assert decode_envelope(payload) == (70_000, Position(1 << 40, 3), b"x")
    for size in range(len(payload)):
        with pytest.raises(CorruptFrame):
            decode_envelope(payload[:size])


def test_links_are_the_decoders_of_the_log():
    log = Log(ROOMS)
    translation, _ = translated(log)
    assert set(translation.decoders) == {publisher_in(stored.subject) for stored in log.messages} == {"p1", "p2"}
