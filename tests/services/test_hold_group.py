"""Channels of changes in a group send the same bytes as channels that process every event."""

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


def changes(tolerance, **others):
    return DemandClass({"price": tolerance}, emit="changes", **others)


def price(k, ticks, opened=True):
    return {"time": k * 1000, "symbol": "A", "price": ticks / 100, "volume": 0, "open": opened}


def by_channel(messages):
    """Return the messages by channel; their order between channels is not specified."""
    found = defaultdict(list)
    for message in messages:
        found[message.class_id, message.publisher].append((message.is_key, message.payload))
    return dict(found)


def translate(log, actions, limit=LIMIT, **others):
    """Translate with and without groups; the actions of an offset are executed before its message."""
    results = []
    for min_group in (1, NEVER):
        translation = log.translation(min_hold_group=min_group, **others)
        messages = []
        for stored in log.messages:
            for action, *arguments in actions.get(stored.offset, ()):
                getattr(translation, action)(*arguments)
            translation.receive(stored)
            if stored.offset % 3 == 0:
                messages += translation.take_messages(limit)
        translation.send_suppressed()
        messages += translation.take_messages(limit)
        counts = {name: vars(one) for name, one in translation.counts.classes.items()}
        results.append((by_channel(messages), counts, dict(translation.problems), translation.counts.encodings))
    return results


@st.composite
def actions(draw, classes, messages):
    """Open, close and request key frames of classes, each before some message of the log."""
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
def test_grouped_channels_send_the_same_messages_as_single_channels(data):
    log = data.draw(logs())
    documents = data.draw(st.lists(subscriptions(), min_size=1, max_size=6))
    classes = [DemandClass.of(one) for one in documents]
    plan = data.draw(actions(classes, len(log.messages)))
    limit = data.draw(st.sampled_from([1, 400, LIMIT]))
    interval = data.draw(st.sampled_from([3600.0, 0.5, 4.0]))
    grouped, single = translate(
        log, plan, limit, key_frame_interval=interval, max_sources=data.draw(st.sampled_from([2, 9]))
    )
    assert grouped == single


def test_a_delayed_request_that_was_answered_is_not_answered_again():
    log, one = Log(PRICES), changes(0.05)
    for k, publisher in enumerate(["p1", "p2", "p2", "p2", "p2", "p1", "p2", "p2", "p2", "p2", "p1"]):
        log.publish(publisher, price(k, 1000 + 10 * k))
    request = ("request_key_frames", one.id)
    grouped, single = translate(log, {1: [("open", one)], 3: [request], 8: [request]})
    assert grouped == single


@settings(max_examples=15, deadline=None)
@given(st.lists(st.integers(-9, 9), min_size=1, max_size=120), st.lists(st.integers(1, 25), min_size=1, max_size=60))
def test_each_channel_delivers_the_events_of_the_greedy_filter(steps, tolerances):
    log, values = Log(PRICES, publishers=["p1"]), 5000 + np.cumsum(steps)
    for k, value in enumerate(values.tolist()):
        log.publish("p1", price(k, value), flush=k % 5 == 0)
    log.flush("p1")
    translation = log.translation(min_hold_group=1)
    classes = {ticks: changes(ticks / 100) for ticks in tolerances}
    for one in classes.values():
        translation.open(one)
    for stored in log.messages:
        translation.receive(stored)
    messages = translation.take_messages(LIMIT)
    for ticks, one in classes.items():
        reader = Reader(log, one, include_suppressed=False)
        reader.read(messages)
        delivered = [(e.ordinal - 1, round(e["price"] * 100)) for e in reader.events]
        assert delivered == [(k, values[k]) for k in greedy(values, ticks)]


def count_processing(translation, log, first):
    """Return how many channels process each message from `first` on."""
    processed, counts, encode_event = [], [], Channel.encode_event

    def counted(self, event, message):
        processed.append(self)
        encode_event(self, event, message)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Channel, "encode_event", counted)
        for stored in log.messages[first:]:
            before = len(processed)
            translation.receive(stored)
            counts.append(len(processed) - before)
    return counts


def test_an_event_is_processed_only_by_channels_that_must_send_it():
    log, values = Log(PRICES, publishers=["p1"]), np.array([1000, 1001, 1000, 1005, 1000, 1040, 1039])
    translation = log.translation(min_hold_group=1)
    for ticks in range(1, 301):
        translation.open(changes(ticks / 100))
    for k, value in enumerate(values.tolist()):
        log.publish("p1", price(k, value))
    log.publish("p1", price(7, 1041, opened=False))
    fired = np.concatenate([greedy(values, ticks) for ticks in range(1, 301)])
    due = np.bincount(fired, minlength=len(values)).tolist()
    assert due == [300, 0, 0, 4, 4, 39, 0]
    # all channels process the first event, then those whose tolerance is exceeded, and all when a flag changes
    assert count_processing(translation, log, 0) == [0, *due, 300]
    assert translation.counts.encodings == 300 * 8


def test_a_class_that_is_opened_later_begins_with_the_current_state():
    log = Log(PRICES, publishers=["p1"])
    for k, value in enumerate((1000, 1004, 1008)):
        log.publish("p1", price(k, value))
    one, other = changes(0.05), DemandClass({"price": 0.05, "volume": 1}, emit="changes")
    translation = log.translation(min_hold_group=1)
    translation.open(one)
    for stored in log.messages:
        translation.receive(stored)
    translation.open(other)
    for k, value in enumerate((1009, 1011, 1014, 1016), start=3):
        log.publish("p1", price(k, value))
        translation.receive(log.messages[-1])
    messages = translation.take_messages(LIMIT)
    delivered = []
    for demand in (one, other):
        reader = Reader(log, demand, include_suppressed=False)
        reader.read(messages)
        delivered.append([round(e["price"] * 100) for e in reader.events])
    # the new class gets the current state, then the next event, although no value in it changed by enough
    assert delivered == [[1000, 1008, 1014], [1008, 1008, 1014]]


def test_channels_with_a_geo_property_are_one_group_too():
    schema = Schema("trucks", [*PRICES, Property("at", "geo")])
    log, one = Log(schema, publishers=["p1"]), changes(0.05)
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


def test_closed_channels_process_no_events():
    log = Log(PRICES, publishers=["p1"])
    translation = log.translation(min_hold_group=1)
    classes = [changes(ticks / 100) for ticks in range(1, 201)]
    for one in classes:
        translation.open(one)
    log.publish("p1", price(0, 1000))
    for stored in log.messages:
        translation.receive(stored)
    for one in classes[:150]:
        translation.close(one.id)
    log.publish("p1", price(1, 2000))
    log.publish("p1", price(2, 3000))
    assert count_processing(translation, log, 2) == [50, 50]
    assert len(translation.classes) == 50


@pytest.mark.slow
def test_the_number_of_suppressed_events_is_limited_in_groups_too():
    log = Log(PRICES, publishers=["p1"])
    for k in range(MAX_SKIP + 5):
        log.publish("p1", price(k, 1000 + k % 2), flush=k % 500 == 0)
    log.flush("p1")
    plan = {1: [("open", changes(0.05)), ("open", changes(0.01))], 40: [("open", changes(0.09))]}
    grouped, single = translate(log, plan)
    assert grouped == single
