"""The parts of the watch service: its log has one writer at a time and the position where a successor resumes."""

import asyncio
import json
import math

import pytest

from thinwire.brokers.memory import LocalBroker, LocalServer
from thinwire.brokers.protocol import Retention, StoredMessage
from thinwire.codec import EventsMissed, Watermark
from thinwire.errors import CorruptWatchLog, RegistryError, Superseded, ThinwireError, WatchFailed
from thinwire.filters.composite.condition import Condition, Predicate, Quantity, Radius
from thinwire.filters.composite.feed_sequencer import EventReadings, FeedPosition, LogEntry, Order, WatchInput
from thinwire.filters.composite.watch_evaluator import Evaluator
from thinwire.filters.composite.watch_messages import WatchState
from thinwire.schema import Event, Property, Schema
from thinwire.topics.names import log_of, publisher_subjects, watch_log_of, watch_subject
from thinwire.topics.watches.watch_documents import WatchDocument, WatcherDocument, WatchNotice, WatchOptions
from thinwire.topics.watches.watch_log import (
    WatchLog,
    WatchProgress,
    WatchStep,
    decode_record,
    decode_state,
    encode_record,
    encode_state,
    split_records,
)
from thinwire.topics.watches.watch_pipeline import find_resume_start, find_start
from thinwire.topics.watches.watch_quantities import TopicQuantities

WATCH = "00ff00ff00ff00ff"
ROOMS = Schema(
    "rooms",
    [
        Property("time", "timestamp", "header", form="iso:T0Z"),
        Property("room", "string", "dimension"),
        Property("t", "number", step="0.1"),
    ],
)
QUANTITY = Quantity("rooms", ("11.1",), "t")
CONDITION = Condition.of(Predicate(QUANTITY, Radius(5)))
FEED = WatchInput("rooms", "p1")


def messages(*values):
    """Return the messages of an evaluator for these values."""
    evaluator = Evaluator(CONDITION, max_delay=0)
    entries = (
        LogEntry(FEED, at, (EventReadings(Order(at, *FEED, 0, at), {QUANTITY: value}),), at)
        for at, value in enumerate(values, start=1)
    )
    return [message for entry in entries for message in evaluator.read(entry, 0)]


def initial_progress(number=0):
    return WatchProgress(WatchState(CONDITION.fingerprint, number), {"rooms": 0}, {"rooms": 0})


async def open_log(broker):
    log = WatchLog(broker, WATCH)
    await log.open()
    assert await log.recover(CONDITION.fingerprint) is None
    await log.write_state(initial_progress())
    return log


def test_a_successor_resumes_at_the_end_of_the_log_and_the_predecessor_is_refused():
    async def main():
        server = LocalServer()
        first = await open_log(LocalBroker(server))
        written = messages(10, 20, 30)
        await first.write_step(WatchStep(written[:2], [], {"rooms": 2}))
        second = WatchLog(LocalBroker(server), WATCH)
        progress = await second.recover(CONDITION.fingerprint)
        assert (progress.state.number, progress.state.held, progress.read) == (2, {0: 20}, {"rooms": 2})
        await second.write_step(WatchStep(written[2:], [], {"rooms": 3}))
        with pytest.raises(Superseded):
            await first.write_step(WatchStep(written[2:], [WatchNotice("gone", "rooms", "p1", {})], {"rooms": 3}))
        third = WatchLog(LocalBroker(server), WATCH)
        assert (await third.recover(CONDITION.fingerprint)).state.number == 3

    asyncio.run(main())


def test_a_record_whose_acknowledgement_was_lost_is_recognised():
    async def main():
        broker = LocalBroker(LocalServer())
        log = await open_log(broker)
        before = log.last
        step = WatchStep(messages(10), [], {"rooms": 1})
        await log.write_step(step)
        log._writer.last = before  # as after a lost acknowledgement
        await log.write_step(step)
        assert (await broker.span(watch_log_of(WATCH))).messages == 2

    asyncio.run(main())


def test_many_messages_make_several_records_and_only_the_last_has_the_new_offsets():
    written = messages(*range(0, 600, 10))
    parts = list(split_records(written, [WatchNotice("gone", "rooms", "p1", {"seconds": 3.0})], limit=2_000))
    assert len(parts) > 3
    read = [decode_record(encode_record(part, {"rooms": 9}, 10_000)) for part in parts]
    assert [message for record in read for message in record.messages] == written
    assert [len(record.notices) for record in read] == [1] + [0] * (len(parts) - 1)

    async def main():
        broker = LocalBroker(LocalServer())
        log = await open_log(broker)
        await log.write_step(WatchStep(messages(*range(0, 60_000, 10)), [], {"rooms": 60}))
        stored = []
        reader = await broker.read(watch_log_of(WATCH), first=1, subjects=[watch_subject(WATCH)])
        while (one := await reader.next(0.1)) is not None:
            stored.append(decode_record(one.payload).read)
            reader.done(one.offset)
        await reader.close()
        assert len(stored) > 1
        assert stored == [{"rooms": 0}] * (len(stored) - 1) + [{"rooms": 60}]

    asyncio.run(main())


def test_a_state_is_restored_and_one_above_the_limit_is_refused():
    state = WatchState(CONDITION.fingerprint, 7, held={0: 3}, positions={FEED: FeedPosition(4, 5)})
    progress = WatchProgress(state, {"rooms": 1}, {"rooms": 9})
    assert decode_state(encode_state(progress, 10_000), CONDITION.fingerprint) == progress
    with pytest.raises(WatchFailed, match="limit=100"):
        encode_state(progress, 100)


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"[]",
        b"\xff",
        b"[" * 100_000,
        b'{"messages": 3, "read": {}}',
        b'{"messages": [3], "read": {}}',
        b'{"messages": []}',
        b'{"messages": [], "read": {"rooms": -1}}',
        b'{"messages": [], "notices": [["strange", "a", "b", {}]], "read": {}}',
        b'{"messages": [], "notices": [["gone", 1, "b", {}]], "read": {}}',
    ],
)
def test_invalid_records_are_refused(payload):
    with pytest.raises(CorruptWatchLog):
        decode_record(payload)
    with pytest.raises(CorruptWatchLog):
        decode_state(payload, CONDITION.fingerprint)


def test_the_resume_position_is_after_the_processed_messages_of_each_publisher():
    async def main():
        broker = LocalBroker(LocalServer())
        await broker.ensure_log(log_of("rooms"), [publisher_subjects("rooms")])
        for publisher in ("p1", "p2", "p1", "p2", "p3"):
            await broker.append(log_of("rooms"), f"tw.log.rooms.{publisher}.d", b"x")
        positions = {WatchInput("rooms", "p1"): FeedPosition(3, None), WatchInput("rooms", "p2"): FeedPosition(2, None)}
        progress = WatchProgress(WatchState("4f", positions=positions), {"rooms": 0}, {"rooms": 4})
        start = await find_resume_start(broker, "rooms", progress)
        assert start.processed == {"p1": 3, "p2": 2, "p3": 4}
        assert start.first == 3
        all_read = {WatchInput("rooms", name): FeedPosition(at) for name, at in (("p1", 3), ("p2", 4), ("p3", 5))}
        done = WatchProgress(WatchState("4f", positions=all_read), {"rooms": 0}, {"rooms": 5})
        assert (await find_resume_start(broker, "rooms", done)).first == 6
        firsts = [(await find_start(broker, "rooms", option)).first for option in ("earliest", "latest", 0.0)]
        assert firsts == [1, 6, 1]

    asyncio.run(main())


def test_unread_messages_removed_by_retention_are_reported_as_missing():
    async def main():
        broker = LocalBroker(LocalServer())
        await broker.ensure_log(log_of("rooms"), [publisher_subjects("rooms")], Retention(max_messages=2))
        for _ in range(5):
            await broker.append(log_of("rooms"), "tw.log.rooms.p1.d", b"x")
        for offset, expected in ((1, (4, True)), (3, (4, False)), (4, (5, False))):
            positions = {FEED: FeedPosition(offset)}
            progress = WatchProgress(WatchState("4f", positions=positions), {"rooms": 0}, {"rooms": offset})
            found = await find_resume_start(broker, "rooms", progress)
            assert (found.first, found.truncated) == expected

    asyncio.run(main())


def test_readings_have_event_times_and_watched_quantities_only():
    quantities = TopicQuantities("rooms", ROOMS, CONDITION)
    metadata = {"bound": {"t": 0.0}, "ordinal": 3, "publisher": "p1", "incarnation": 2}
    event = Event({"time": "1970-01-01T00:00:07Z", "room": "11.1", "t": 2.5}, source=("11.1",), **metadata)
    other = Event({"time": "1970-01-01T00:00:08Z", "room": "9", "t": 2.5}, source=("9",), **metadata)
    off = Event({**event, "t": 2.0}, source=("11.1",), **{**metadata, "bound": {"t": 0.5}})
    lost = EventsMissed("p1", ("11.1",), 1, 2, "gap")
    found = [event, other, off, off, Watermark("p1", 9.5), lost, EventsMissed("p1", ("9",), 1, 2, "gap")]
    readings = quantities.read_message("p1", StoredMessage(4, "", b"", 100.0), found)
    order = Order(7_000_000, "rooms", "p1", 2, 3, "('11.1',)")
    assert readings.entry == LogEntry(FEED, 4, (EventReadings(order, {QUANTITY: 25}),), 9_500_000)
    assert [notice.kind for notice in readings.notices] == ["coarser", "missed"]


def test_events_without_times_are_ordered_by_storage_time():
    bare = Schema("rooms", [p for p in ROOMS if p.name != "time"])
    quantities = TopicQuantities("rooms", bare, CONDITION)
    event = Event({"room": "11.1", "t": 2.5}, source=("11.1",), bound={}, ordinal=1, publisher="p1")
    entry = quantities.read_message("p1", StoredMessage(4, "", b"", 100.0), [event]).entry
    assert (entry.readings[0].order.time, entry.complete) == (100_000_000, 99_999_999)


def test_documents_identify_equal_watches_and_refuse_invalid_fields():
    plain = WatchDocument.of("a", WATCH, WatchOptions())
    assert plain.watch == WatchDocument.of("b", WATCH, WatchOptions()).watch
    others = [WatchOptions(max_delay=2), WatchOptions(late_policy="drop"), WatchOptions(start="earliest")]
    assert len({WatchDocument.of("a", WATCH, options).watch for options in (WatchOptions(), *others)}) == 4
    endless = WatchDocument.of("a", WATCH, WatchOptions(max_delay=math.inf, start=12.5))
    assert WatchDocument.decode(endless.encode()) == endless
    assert endless.options == WatchOptions(max_delay=math.inf, start=12.5)
    document = json.loads(plain.encode())
    for field, bad in (("watch", "x"), ("expression", 3), ("max_delay", -1), ("late_policy", "no"), ("start", "soon")):
        with pytest.raises(RegistryError, match=field):
            WatchDocument.decode(json.dumps({**document, field: bad}).encode())
    for bad in ({"max_delay": -1}, {"max_delay": math.nan}, {"late_policy": "no"}, {"start": "soon"}):
        with pytest.raises(ThinwireError, match=next(iter(bad))):
            WatchOptions(**bad)
    watcher = WatcherDocument(WATCH, "desk", True, 3.0)
    assert WatcherDocument.decode(watcher.encode()) == watcher
