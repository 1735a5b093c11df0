"""Dedup of delivered events, the cursors that store it, and restarted channels."""

from __future__ import annotations

import asyncio

import pytest
from client_setup import rooms
from hypothesis import given
from hypothesis import strategies as st

import thinwire as tw
from thinwire.brokers.memory import LocalBroker, LocalServer
from thinwire.brokers.protocol import StoredMessage
from thinwire.client.cursor import ChannelCursor, Cursor, CursorStore
from thinwire.client.feed_switch import compare_feeds
from thinwire.codec import EventsMissed, StreamEncoder
from thinwire.errors import RegistryError
from thinwire.schema import Event
from thinwire.services.translator.translation import Translation
from thinwire.topics.delivery_dedup import DeliveryDedup, EventNumber
from thinwire.topics.demand_class import DemandClass
from thinwire.topics.log_decoder import ChannelDecoder, LogDecoder
from thinwire.topics.names import CURSORS
from thinwire.topics.position import Position
from thinwire.wire import join


def event(ordinal: int, incarnation: int = 1, source: str = "T1") -> Event:
    return Event({"t": 1.0}, bound={}, source=(source,), ordinal=ordinal, incarnation=incarnation, publisher="p1")


@given(st.integers(1, 3), st.integers(1, 9), st.lists(st.tuples(st.integers(1, 3), st.integers(1, 12)), unique=True))
def test_only_events_after_the_delivered_ones_pass(first: int, ordinal: int, coming: list[tuple[int, int]]) -> None:
    dedup = DeliveryDedup({"p1": {("T1",): EventNumber(first, ordinal)}})
    events = [event(number, incarnation) for incarnation, number in sorted(coming)]
    passed, missed = dedup.drop_delivered("p1", 1, events)
    above = [each for each in events if (each.incarnation, each.ordinal) > (first, ordinal)]
    assert passed == above
    jumps = above and above[0].incarnation == first and above[0].ordinal > ordinal + 1
    repeated = (first, ordinal) in coming
    assert missed == (
        [EventsMissed("p1", ("T1",), ordinal + 1, above[0].ordinal - 1, "gap")] if jumps and not repeated else []
    )
    assert bool(dedup) == (not above and not repeated)
    before = dedup.before_message(1)
    assert before.delivered == {"p1": {("T1",): EventNumber(first, ordinal)}}


def test_events_before_a_delivered_state_are_not_missed() -> None:
    dedup = DeliveryDedup({"p1": {("T1",): EventNumber(1, 4), ("T2",): EventNumber(1, 4)}})
    dedup.drop_delivered("p1", 1, [])
    dedup.remove_reached("p1", [event(7), event(3, source="T2")])
    assert dedup.drop_delivered("p1", 2, [event(9)]) == ([event(9)], [])
    assert dedup.delivered == {"p1": {("T2",): EventNumber(1, 4)}}


def test_a_cursor_before_the_message_of_a_state_still_has_its_sources() -> None:
    dedup = DeliveryDedup({"p1": {("T1",): EventNumber(1, 4)}})
    dedup.drop_delivered("p1", 1, [])
    dedup.remove_reached("p1", [event(7)])
    assert not dedup
    assert dedup.before_message(1).delivered == {"p1": {("T1",): EventNumber(1, 4)}}


def test_a_position_drops_messages_and_then_the_first_events_of_the_next() -> None:
    dedup = DeliveryDedup(positions={"p1": Position(10, 2)})
    assert dedup.drop_delivered("p1", 9, [event(1)]) == ([], [])
    assert dedup.drop_delivered("p2", 9, [event(1)]) == ([event(1)], [])
    assert [each.ordinal for each in dedup.drop_delivered("p1", 12, [event(2), event(3), event(4)])[0]] == [4]
    assert not dedup


def test_pending_events_of_the_old_feed_exclude_delivered_ones() -> None:
    schema = rooms()
    encoder = StreamEncoder(schema, tw.StreamConfig(demand=tw.Demand({"t": 5})), name="p1")
    old, new = LogDecoder({schema.fingerprint: schema}.get), LogDecoder({schema.fingerprint: schema}.get)
    key = StoredMessage(1, "tw.log.x.p1.k", join(encoder.start(0)), 0.0)
    sent = [encoder.publish({"time": 1000 * n, "room": "a", "t": 20.0, "n": n}, 0) for n in range(6)]
    first = StoredMessage(2, "tw.log.x.p1.d", join([frame for frames in sent[:2] for frame in frames]), 0.0)
    rest = StoredMessage(
        3, "tw.log.x.p1.d", join([f for frames in sent[2:] for f in frames] + encoder.heartbeat(0)), 0.0
    )
    for log_decoder, messages in ((old, (key, first)), (new, (key, first, rest))):
        for message in messages:
            log_decoder.receive(message, 0.0)
    assert compare_feeds(new, old).dedup.delivered == {
        "p1": {("a",): EventNumber(old.decoders["p1"].incarnation or 0, 6)}
    }
    current = max(each.ordinal for each in old.decoders["p1"].current_events())
    old.dedup = DeliveryDedup({"p1": {("a",): EventNumber(old.decoders["p1"].incarnation or 0, current + 1)}})
    handover = compare_feeds(old, new)
    assert [each.ordinal for _, events in handover.pending for each in events] == list(range(current + 2, 7))
    assert not handover.missed
    assert not handover.dedup


def test_a_restarted_channel_is_detected_before_it_is_read() -> None:
    schema = rooms()
    encoder = StreamEncoder(schema, name="p1")
    demand = DemandClass(tolerance={"t": 1})
    translation = Translation(schema.name, {schema.fingerprint: schema}.get, epoch=1)
    log_decoder = ChannelDecoder({schema.fingerprint: schema}.get)

    def messages() -> list[StoredMessage]:
        return [
            StoredMessage(offset, f"tw.chan.x.{demand.id}.p1.{'k' if one.is_key else 'd'}", one.payload, 0.0)
            for offset, one in enumerate(translation.take_messages(65_536), (log_decoder.offset or 0) + 1)
        ]

    translation.open(demand)
    translation.receive(StoredMessage(1, "tw.log.x.p1.k", join(encoder.start(0)), 0.0))
    frames = encoder.publish({"time": 0, "room": "a", "t": 20.0, "n": 0}, 0)
    translation.receive(StoredMessage(2, "tw.log.x.p1.d", join(frames), 0.0))
    for message in messages():
        assert not log_decoder.is_restarted_by(message)
        log_decoder.receive(message, 0.0)
    translation.close(demand.id)
    frames = encoder.publish({"time": 1000, "room": "a", "t": 25.0, "n": 1}, 0)
    translation.receive(StoredMessage(3, "tw.log.x.p1.d", join(frames), 0.0))
    translation.open(demand)
    assert [log_decoder.is_restarted_by(message) for message in messages()] == [True]


STORED_CURSORS = [
    Cursor(7, 3),
    Cursor(7, 0, None, {"p1": {("a", 1): EventNumber(2, 9)}}),
    Cursor(5, 0, ChannelCursor("00ff", 4, 90, 2, 6, {"p1": Position(5, 1)}), {"p1": {("a",): EventNumber(1, 2)}}),
]


@pytest.mark.parametrize("cursor", STORED_CURSORS)
def test_a_stored_cursor_is_read_back(cursor: Cursor) -> None:
    async def story() -> None:
        async with LocalBroker(LocalServer()) as broker:
            store, found = await CursorStore.open(broker, "rooms", "hvac", every=1)
            assert found is None
            await store.save(cursor, 0.0)
            assert (await CursorStore.open(broker, "rooms", "hvac", every=1))[1] == cursor

    asyncio.run(story())


@pytest.mark.parametrize(
    "value",
    [
        b"no",
        b"[]",
        b'{"offset": -1}',
        b'{"offset": 1, "channel": {"class": "x"}}',
        b'{"offset": 1, "told": {"p1": [["a", 1]]}}',
        b'{"offset": 1, "channel": {"class": "x", "opened": 1, "offset": 1, "within": 0}, "since": 1, "positions": []}',
    ],
)
def test_an_invalid_cursor_is_rejected(value: bytes) -> None:
    async def story() -> None:
        async with LocalBroker(LocalServer()) as broker:
            await (await broker.bucket(CURSORS)).put("rooms.hvac", value)
            with pytest.raises(RegistryError, match=r"tw_cursors/rooms.hvac"):
                await CursorStore.open(broker, "rooms", "hvac", every=1)

    asyncio.run(story())


def test_sources_that_only_an_earlier_feed_had_stay_delivered() -> None:
    schema = rooms()
    old, new = LogDecoder({schema.fingerprint: schema}.get), LogDecoder({schema.fingerprint: schema}.get)
    delivered = {"p1": {("a",): EventNumber(3, 6)}, "p2": {("b",): EventNumber(1, 2)}}
    old.dedup = DeliveryDedup(delivered)
    old.open_decoder("p1")
    assert compare_feeds(old, new).dedup.delivered == delivered
