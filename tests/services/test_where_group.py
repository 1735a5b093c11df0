"""Classes with a predicate get exactly the matching events, also after a change of the translator."""

from collections import Counter
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from translation_setup import Channels, Log, Reader

from thinwire.codec import Audit, Demand, EventsMissed
from thinwire.errors import DemandError, ExpressionError
from thinwire.filters.where.where_grammar import parse_where
from thinwire.schema import Property, Schema
from thinwire.topics.demand_class import DemandClass, check_subscription
from thinwire.topics.tolerance_budget import budget
from thinwire.topics.topic_documents import SubscriptionDocument
from thinwire.topics.topic_settings import Settings
from thinwire.wire.control_frames import MAX_SKIP

PRICES = Schema(
    "prices",
    [
        Property("time", "timestamp", "header", form="epoch"),
        Property("symbol", "string", "dimension"),
        Property("price", "number", step="0.01"),
        Property("volume", "integer"),
        Property("region", "enum", members=["EU", "US"]),
        Property("open", "boolean"),
    ],
)
WHERES = (
    "price between 10 and 11 and region = 'EU'",
    "price > 10.5",
    "price < 9.5 or price > 10.5",
    "region != 'EU' and open = true",
    "not (volume in (1, 2) or open = false)",
    "symbol = 'A' and volume >= 3",
)
LIMIT = 65_536


def where_class(where, **others):
    return DemandClass(where=where, **others)


def event(k, symbol, ticks, volume=0, region="EU", opened=True):
    values = {"price": ticks / 100, "volume": volume, "region": region, "open": opened}
    return {"time": k * 1000, "symbol": symbol, **values}


def walk(chance, count):
    """Yield events of two symbols, some with equal values."""
    ticks, flat = {"A": 1000, "B": 1040}, {"volume": 0, "region": "EU", "opened": True}
    for k in range(count):
        symbol = chance.choice("AB")
        ticks[symbol] += chance.choice((0, 0, 7, -7, 60, -60))
        flat = {
            "volume": chance.randint(0, 4) if chance.random() < 0.3 else flat["volume"],
            "region": chance.choice(("EU", "US")) if chance.random() < 0.3 else flat["region"],
            "opened": chance.random() < 0.7 if chance.random() < 0.3 else flat["opened"],
        }
        yield event(k, symbol, ticks[symbol], **flat)


def matching(log, where):
    holds = parse_where(where).matches
    return {identity for identity, truth in log.truth.items() if holds(truth)}


def check(log, reader, where, tolerance=0.0):
    """Check that exactly the matching events came, each once, in order and exact, and that none is reported missed."""
    identities = [(got.publisher, got.incarnation, got.source, got.ordinal) for got in reader.events]
    assert max(Counter(identities).values(), default=1) == 1
    assert set(identities) == matching(log, where)
    assert not [delivery for delivery in reader.deliveries if isinstance(delivery, EventsMissed)]
    for got, identity in zip(reader.events, identities, strict=True):
        truth = log.truth[identity]
        for name in got:
            error = abs(got[name] - truth[name]) if name == "volume" else got[name] != truth[name]
            assert error <= (tolerance if name == "volume" else 0), (name, got, truth)
        assert all((bound or 0) <= (tolerance if name == "volume" else 0) for name, bound in got.bound.items())
    last_ordinals = {}
    for publisher, incarnation, source, ordinal in identities:
        assert ordinal > last_ordinals.get((publisher, incarnation, source), 0)
        last_ordinals[publisher, incarnation, source] = ordinal


def reader_of(log, demand):
    return Reader(log, demand, include_suppressed=False)


@settings(max_examples=15)
@given(st.integers(0, 1 << 32).map(Random), st.sampled_from(WHERES), st.sampled_from((0, 2)), st.booleans())
def test_a_class_gets_exactly_the_events_that_match(chance, where, tolerance, flushed):
    log = Log(PRICES)
    exact = parse_where(where).names
    one = where_class(where, tolerance={} if "volume" in exact else {"volume": tolerance})
    reader, translation = reader_of(log, one), log.translation()
    translation.open(one)
    for number, values in enumerate(walk(chance, 60)):
        log.publish(chance.choice(("p1", "p2")), values, flush=flushed or number % 5 == 0)
    for name in log.publishers:
        log.heartbeat(name)
    for stored in log.messages:
        translation.receive(stored)
        reader.read(translation.take_messages(LIMIT))
    check(log, reader, where, 0 if "volume" in exact else tolerance)


@settings(max_examples=8)
@given(st.integers(0, 1 << 32).map(Random), st.sampled_from(WHERES))
def test_a_crash_of_the_translator_loses_and_repeats_no_event(chance, where):
    log, one = Log(PRICES), where_class(where)
    channels, reader = Channels(log), reader_of(log, one)
    translation, first = log.translation(), 0
    translation.open(one)
    for number, values in enumerate(walk(chance, 60)):
        log.publish(chance.choice(("p1", "p2")), values, flush=number % 3 == 0)
    for name in log.publishers:
        log.heartbeat(name)
    crashes = sorted(chance.sample(range(1, len(log.messages)), 4))
    for epoch, end in enumerate([*crashes, len(log.messages)], start=1):
        if epoch > 1:
            translation, first = channels.successor([one], epoch)
        for stored in log.messages[first:end]:
            translation.receive(stored)
        # it crashes after writing some of its messages of a few bytes
        pending = translation.take_messages(chance.choice((64, LIMIT)))
        written = pending if end == len(log.messages) else pending[: chance.randint(0, len(pending))]
        channels.messages += written
        reader.read(written)
    check(log, reader, where)


def test_many_predicates_are_evaluated_together_and_each_gets_its_events():
    log = Log(PRICES, ("p1",))
    wheres = [f"price between {10 + k / 100} and {10 + (k + 3) / 100}" for k in range(60)]
    wheres += [f"volume = {k} and region = 'EU'" for k in range(20)]
    classes = [where_class(where) for where in wheres]
    readers = [reader_of(log, one) for one in classes]
    translation = log.translation()
    for one in classes:
        translation.open(one)
    for k in range(120):
        log.publish("p1", event(k, "A", 1000 + 7 * k % 70, k % 23, ("EU", "US")[k % 2]), flush=k % 9 == 0)
    log.heartbeat("p1")
    for stored in log.messages:
        translation.receive(stored)
        messages = translation.take_messages(LIMIT)
        for reader in readers:
            reader.read(messages)
    for reader, where in zip(readers, wheres, strict=True):
        check(log, reader, where)


def test_classes_that_open_later_and_close_earlier():
    log, early, late = Log(PRICES, ("p1",)), where_class("price > 10"), where_class("price > 10", properties=("price",))
    translation = log.translation()
    readers = {one.id: reader_of(log, one) for one in (early, late)}
    translation.open(early)
    for k in range(9):
        log.publish("p1", event(k, "A", 1000 + (k % 3)))
    for stored in log.messages:
        if stored.offset == 5:
            translation.open(late)
        if stored.offset == 8:
            translation.close(early.id)
        translation.receive(stored)
        messages = translation.take_messages(LIMIT)
        for reader in readers.values():
            reader.read(messages)
    assert [got.ordinal for got in readers[early.id].events] == [2, 3, 5, 6]
    assert [got.ordinal for got in readers[late.id].events] == [5, 6, 8, 9]
    assert {*readers[late.id].events[0]} == {"time", "symbol", "price"}


@pytest.mark.slow
def test_a_source_that_did_not_match_for_very_long():
    log, one = Log(PRICES, ("p1",)), where_class("price > 10")
    reader, translation = reader_of(log, one), log.translation()
    translation.open(one)
    prices = [1001] + [900] * (MAX_SKIP + 10) + [1002]
    for k, ticks in enumerate(prices):
        log.publish("p1", event(k * (1 + k % 2), "A", ticks), flush=k % 5000 == 0 or ticks > 1000)
    for stored in log.messages:
        translation.receive(stored)
        reader.read(translation.take_messages(LIMIT))
    assert [got.ordinal for got in reader.events] == [1, len(prices)]
    assert not [delivery for delivery in reader.deliveries if isinstance(delivery, EventsMissed)]


def test_a_new_configuration_of_the_publisher_loses_no_event():
    log, one = Log(PRICES, ("p1",), demand=Demand({"volume": 2})), where_class("price > 10", tolerance={"volume": 5})
    reader, translation = reader_of(log, one), log.translation()
    translation.open(one)
    for k in range(12):
        if k == 6:
            log.reconfigure(Demand({"volume": 1}))
        log.publish("p1", event(k, "A", 1000 + k % 2, volume=k))
    for stored in log.messages:
        translation.receive(stored)
        reader.read(translation.take_messages(LIMIT))
    check(log, reader, "price > 10", 5)


def test_audits_are_sent_for_delivered_events_only():
    log, one = Log(PRICES, ("p1",), audit_every=1), where_class("price > 10", default_tolerance=3)
    reader, translation = reader_of(log, one), log.translation()
    translation.open(one)
    for k in range(10):
        log.publish("p1", event(k, "A", 1000 + k % 2, volume=k))
    for stored in log.messages:
        translation.receive(stored)
        reader.read(translation.take_messages(LIMIT))
    audits = [delivery for delivery in reader.deliveries if isinstance(delivery, Audit)]
    assert [audit.ordinal for audit in audits] == [2, 4, 6, 8, 10]
    assert all(error <= (audit.bound[name] or 0) for audit in audits for name, error in audit.errors.items())


def test_due_key_frames_are_sent_although_no_event_matches():
    log, one = Log(PRICES, ("p1",)), where_class("price > 1000")
    translation = log.translation(key_frame_interval=3.0)
    translation.open(one)
    for k in range(40):
        log.publish("p1", event(k, "A", 1000 + k))
    keys = []
    for stored in log.messages:
        translation.receive(stored)
        keys += [message.is_key for message in translation.take_messages(LIMIT)]
    assert 3 <= sum(keys) <= 5


def test_equivalent_predicates_are_one_class():
    one = where_class("price >= 10 and not price > 20", tolerance={"volume": 2})
    assert one.id == where_class("price between 10 and 20.0", tolerance={"volume": "2.0"}).id
    assert one.id != where_class("price between 10 and 21", tolerance={"volume": 2}).id
    assert one.id != DemandClass(tolerance={"volume": 2}).id
    assert one.mode == "hold"
    assert not one.is_log_sufficient(PRICES, Demand())


def test_properties_of_a_predicate_are_exact_in_the_tolerance_budget():
    tolerant = SubscriptionDocument("prices", "rough", {"price": 0.5}, default_tolerance=5)
    selective = SubscriptionDocument("prices", "picky", properties=["volume"], default_tolerance=5, where="price>10")
    assert selective.where == "price > 10"
    demand = budget(PRICES, [tolerant, selective]).demand(PRICES, Settings())
    assert demand.tolerance.get("price", demand.default_tolerance) == 0
    assert demand.tolerance.get("volume", demand.default_tolerance) == 5


@pytest.mark.parametrize(
    ("where", "problem"),
    [
        ("prise > 10", "no such property"),
        ("price = 'a'", "price is of kind number: compare it with a number"),
        ("region > 'EU'", "members of an enum have no order"),
        ("open = 1", "compare it with true or false"),
    ],
)
def test_a_predicate_that_does_not_fit_the_schema_is_refused(where, problem):
    with pytest.raises(ExpressionError, match=problem) as caught:
        check_subscription(PRICES, SubscriptionDocument("prices", "a", where=where))
    assert "^" in str(caught.value)


def test_a_tolerance_on_a_property_of_the_predicate_is_refused():
    with pytest.raises(DemandError, match="leave its tolerance out"):
        where_class("price > 10", tolerance={"price": 0.5}).check()
