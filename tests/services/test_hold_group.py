"""Channels of changes fed as one: each says, bit for bit, what it says when it looks at every event."""

from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_translation_guarantee import logs, subscriptions
from translation_setup import Log, Reader

from thinwire.schema import Property, Schema
from thinwire.services.translator.channel import Channel
from thinwire.topics.demand_class import DemandClass
from thinwire.wire.control_frames import MAX_SKIP
from thinwire_lab.overlay_sim.filters.greedy_filter import greedy

PRICES = Schema(
    "prices",
    [
        Property("time", "timestamp", "header", form="epoch"),
        Property("symbol", "string", "dimension"),
        Property("price", "number", step="0.01"),
        Property("volume", "integer"),
        Property("open", "boolean"),
    ],
)
NEVER = 1 << 30
LIMIT = 65_536


def held(tolerance, **others):
    return DemandClass({"price": tolerance}, emit="changes", **others)


def price(k, ticks, opened=True):
    return {"time": k * 1000, "symbol": "A", "price": ticks / 100, "volume": 0, "open": opened}


def by_channel(messages):
    """Messages in the order of their channels: between channels it says nothing."""
    found = defaultdict(list)
    for message in messages:
        found[message.class_id, message.publisher].append((message.is_key, message.payload))
    return dict(found)


def both(log, moves, limit=LIMIT, **others):
    """Both ways: after each message its moves are made, and what is there is taken."""
    told = []
    for hold_from in (1, NEVER):
        translation = log.translation(min_hold_group=hold_from, **others)
        messages = []
        for stored in log.messages:
            for move, *arguments in moves.get(stored.offset, ()):
                getattr(translation, move)(*arguments)
            translation.receive(stored)
            if stored.offset % 3 == 0:
                messages += translation.take_messages(limit)
        translation.send_suppressed()
        messages += translation.take_messages(limit)
        counts = {name: vars(one) for name, one in translation.counts.classes.items()}
        told.append((by_channel(messages), counts, dict(translation.problems), translation.counts.encodings))
    return told


@st.composite
def moves(draw, classes, messages):
    """Classes open, close, and are asked for key frames, each before some message of the log."""
    found = defaultdict(list)
    for one in classes:
        begins = draw(st.integers(1, messages))
        found[min(begins, draw(st.integers(1, messages)))].append(("open", one))
        for _ in range(draw(st.integers(0, 2))):
            at = draw(st.integers(1, messages))
            found[at].append(
                draw(st.sampled_from([("request_key_frames", one.id), ("send_suppressed", one.id), ("close", one.id)]))
            )
    return dict(found)


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_many_are_told_what_each_would_be_told_alone(data):
    log = data.draw(logs())
    asked = data.draw(st.lists(subscriptions(), min_size=1, max_size=6))
    classes = [DemandClass.of(one) for one in asked]
    plan = data.draw(moves(classes, len(log.messages)))
    limit = data.draw(st.sampled_from([1, 400, LIMIT]))
    interval = data.draw(st.sampled_from([3600.0, 0.5, 4.0]))
    together, alone = both(
        log, plan, limit, key_frame_interval=interval, max_sources=data.draw(st.sampled_from([2, 9]))
    )
    assert together == alone


def test_a_delayed_request_that_was_answered_is_not_answered_again():
    log, one = Log(PRICES), held(0.05)
    for k, publisher in enumerate(["p1", "p2", "p2", "p2", "p2", "p1", "p2", "p2", "p2", "p2", "p1"]):
        log.publish(publisher, price(k, 1000 + 10 * k))
    request = ("request_key_frames", one.id)
    together, alone = both(log, {1: [("open", one)], 3: [request], 8: [request]})
    assert together == alone


@settings(max_examples=15, deadline=None)
@given(st.lists(st.integers(-9, 9), min_size=1, max_size=120), st.lists(st.integers(1, 25), min_size=1, max_size=60))
def test_each_is_told_what_greedy_delivers(steps, tolerances):
    log, values = Log(PRICES, publishers=["p1"]), 5000 + np.cumsum(steps)
    for k, value in enumerate(values.tolist()):
        log.publish("p1", price(k, value), flush=k % 5 == 0)
    log.flush("p1")
    translation = log.translation(min_hold_group=1)
    classes = {ticks: held(ticks / 100) for ticks in tolerances}
    for one in classes.values():
        translation.open(one)
    for stored in log.messages:
        translation.receive(stored)
    messages = translation.take_messages(LIMIT)
    for ticks, one in classes.items():
        reader = Reader(log, one, include_suppressed=False)
        reader.read(messages)
        told = [(e.ordinal - 1, round(e["price"] * 100)) for e in reader.events]
        assert told == [(k, values[k]) for k in greedy(values, ticks)]


def looks(translation, log, first):
    """How many channels look at each message from here on."""
    shown, found, tell = [], [], Channel.encode_event

    def counted(self, event, told):
        shown.append(self)
        tell(self, event, told)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Channel, "encode_event", counted)
        for stored in log.messages[first:]:
            before = len(shown)
            translation.receive(stored)
            found.append(len(shown) - before)
    return found


def test_an_event_costs_as_many_looks_as_there_are_who_must_be_told():
    log, values = Log(PRICES, publishers=["p1"]), np.array([1000, 1001, 1000, 1005, 1000, 1040, 1039])
    translation = log.translation(min_hold_group=1)
    for ticks in range(1, 301):
        translation.open(held(ticks / 100))
    for k, value in enumerate(values.tolist()):
        log.publish("p1", price(k, value))
    log.publish("p1", price(7, 1041, opened=False))
    fired = np.concatenate([greedy(values, ticks) for ticks in range(1, 301)])
    due = np.bincount(fired, minlength=len(values)).tolist()
    assert due == [300, 0, 0, 4, 4, 39, 0]
    # the first event is everybody's; then those are asked whose tolerance is exceeded, and all when a flag changes
    assert looks(translation, log, 0) == [0, *due, 300]
    assert translation.counts.encodings == 300 * 8


def test_a_class_that_comes_later_begins_where_it_came():
    log = Log(PRICES, publishers=["p1"])
    for k, value in enumerate((1000, 1004, 1008)):
        log.publish("p1", price(k, value))
    one, other = held(0.05), DemandClass({"price": 0.05, "volume": 1}, emit="changes")
    translation = log.translation(min_hold_group=1)
    translation.open(one)
    for stored in log.messages:
        translation.receive(stored)
    translation.open(other)
    for k, value in enumerate((1009, 1011, 1014, 1016), start=3):
        log.publish("p1", price(k, value))
        translation.receive(log.messages[-1])
    messages = translation.take_messages(LIMIT)
    told = []
    for asked in (one, other):
        reader = Reader(log, asked, include_suppressed=False)
        reader.read(messages)
        told.append([round(e["price"] * 100) for e in reader.events])
    # the newcomer is told where the source stands, then of the next event, though nothing in it has moved enough
    assert told == [[1000, 1008, 1014], [1008, 1008, 1014]]


def test_channels_with_a_position_are_one_group_too():
    schema = Schema("trucks", [*PRICES, Property("at", "geo")])
    log, one = Log(schema, publishers=["p1"]), held(0.05)
    translation = log.translation(min_hold_group=1)
    translation.open(one)
    for k, value in enumerate((1000, 1004, 1008, 1009)):
        log.publish("p1", {**price(k, value), "at": [49.0, 8.0]})
    log.heartbeat("p1")
    for stored in log.messages:
        translation.receive(stored)
    translation.send_suppressed()
    reader = Reader(log, one, include_suppressed=False)
    reader.read(translation.take_messages(LIMIT))
    assert [round(e["price"] * 100) for e in reader.events] == [1000, 1008]


def test_who_is_gone_is_asked_no_more():
    log = Log(PRICES, publishers=["p1"])
    translation = log.translation(min_hold_group=1)
    classes = [held(ticks / 100) for ticks in range(1, 201)]
    for one in classes:
        translation.open(one)
    log.publish("p1", price(0, 1000))
    for stored in log.messages:
        translation.receive(stored)
    for one in classes[:150]:
        translation.close(one.id)
    log.publish("p1", price(1, 2000))
    log.publish("p1", price(2, 3000))
    assert looks(translation, log, 2) == [50, 50]
    assert len(translation.classes) == 50


@pytest.mark.slow
def test_a_silence_has_an_end_for_those_who_are_fed_as_one_too():
    log = Log(PRICES, publishers=["p1"])
    for k in range(MAX_SKIP + 5):
        log.publish("p1", price(k, 1000 + k % 2), flush=k % 500 == 0)
    log.flush("p1")
    plan = {1: [("open", held(0.05)), ("open", held(0.01))], 40: [("open", held(0.09))]}
    together, alone = both(log, plan)
    assert together == alone
