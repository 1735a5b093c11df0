"""Parts of the live benchmarks without a broker: streams, search, audits."""

import asyncio

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from thinwire.codec import Demand, StreamConfig, StreamDecoder, StreamEncoder
from thinwire.schema import Event
from thinwire_lab.live.building_feed import BuildingFeed
from thinwire_lab.live.delivery_audit import describe_faults
from thinwire_lab.live.kill_test import audit_numbers, numbered_event, numbered_schema, numbered_value
from thinwire_lab.live.live_feed import READINGS, TOLERANCE, LoadSource, feed_schema
from thinwire_lab.live.load_chain import LoadOutcome, evaluate_round
from thinwire_lab.live.process_measurement import ProcessSample, ProcessSampler, ReceivedEvents, quantile
from thinwire_lab.live.saturation_rate import confirm, find_highest

START = 1_700_000_000_000_000


def test_half_of_the_feed_is_sent():
    feed = LoadSource(0, 4, 12_000, START)
    publisher = StreamEncoder(feed_schema(), StreamConfig(demand=Demand(default_tolerance=TOLERANCE)), now=START / 1e6)
    publisher.start(START / 1e6)
    for event in feed.due(START + 3_000_000):
        publisher.publish(event, event["time"] / 1e6)
    assert publisher.counts.events == 9_000
    assert publisher.counts.frames / publisher.counts.events == pytest.approx(0.5, abs=0.02)


@given(st.floats(200, 100_000), st.lists(st.integers(0, 50_000), min_size=1, max_size=20))
def test_every_event_of_a_feed_is_due_once_at_its_instant(rate, instants):
    feed = LoadSource(1, 4, rate, START)
    events = [event for instant in sorted(instants) for event in feed.due(START + instant)]
    assert [event["time"] for event in events] == [feed.instant(number) for number in range(feed.published)]
    assert all(event["time"] <= START + max(instants) for event in events)
    assert feed.instant(feed.published) > START + max(instants)
    for name in feed.names:
        times = [event["time"] for event in events if event["sensor"] == name]
        assert set(np.diff(times)) <= {feed.period}


def test_final_events_cover_every_source():
    feed = LoadSource(0, 1, 1_000, START)
    last = {event["sensor"]: event for event in feed.due(START + 1_000_000)}
    final = feed.final_events()
    assert sorted(event["sensor"] for event in final) == feed.names
    for event in final:
        assert event["time"] == last[event["sensor"]]["time"] + feed.period
        assert all(abs(event[name] - last[event["sensor"]][name]) > TOLERANCE for name in READINGS)


def test_plants_publish_at_the_requested_rate():
    feed = BuildingFeed(publisher=1, publishers=3, rate=60, start=0)
    events = [*feed.due(0), *feed.due(500_000), *feed.due(500_000)]
    assert len(events) == feed.published == 11
    assert {event["plant"] for event in events} == {"karlsruhe-solar-cooling-02"}
    assert feed.final_events()[0]["timestamp"] > events[-1]["timestamp"]


@given(st.floats(1000, 1e6), st.floats(1000, 1e6), st.floats(1.1, 3.0))
def test_a_search_ends_just_below_the_saturation_rate(highest, start, stride):
    async def held(rate):
        return rate <= highest

    found = asyncio.run(find_highest(held, start, stride, precision=1.05))
    assert found <= highest < found * 1.06


def test_a_search_ends_if_no_rate_is_held():
    async def never(rate):
        return False

    assert asyncio.run(find_highest(never, 1000.0)) == 0.0
    assert asyncio.run(confirm(never, 1000.0)) == 0.0


def test_a_rate_that_is_not_held_for_long_is_lowered():
    async def held(rate):
        return rate < 950

    assert asyncio.run(confirm(held, 1000.0)) == pytest.approx(930.0)


@given(st.lists(st.integers(0, 30_000_000), min_size=1, max_size=200))
def test_latencies_are_those_noted(late):
    received = ReceivedEvents("sensor", "time")
    for wait in late:
        event = {"sensor": "a", "time": START}
        received.add([event], [event], START + wait)
    latencies = received.latencies
    assert latencies.total() == received.events == len(late)
    expected = sorted(min(wait // 1000, 20_000) for wait in late)[-(-99 * len(late) // 100) - 1]
    assert quantile(latencies, 0.99) == expected


def test_only_sent_events_are_timed():
    received = ReceivedEvents("sensor", "time")
    sent, silent = {"sensor": "a", "time": START}, {"sensor": "b", "time": START}
    received.add([sent, silent], [sent], START)
    assert (received.events, received.latencies.total()) == (2, 1)
    received.begin()
    assert (received.events, received.latencies.total(), set(received.last)) == (0, 0, set())


def answers(events=(100, 100), complete=(True, True), missed=(0, 0), late=((5, 200),)):
    taken = {"events": events, "complete": complete, "missed": missed, "latencies": late}
    sent = {"events": 100, "expected": 100, "sent": 50}
    return evaluate_round(10.0, 10.0, [sent], [taken], ProcessSampler({}))


@pytest.mark.parametrize(
    ("change", "failure"),
    [
        ({}, ""),
        ({"events": (100, 97)}, "3 events lost"),
        ({"events": (100, 102)}, "2 events lost"),
        ({"complete": (True, False)}, "1 events lost"),
        ({"missed": (0, 4)}, "4 events lost"),
        ({"late": ((5, 150), (300, 50))}, "p99 300 ms"),
        ({"late": ()}, "p99 inf ms"),
    ],
)
def test_a_rate_is_held_only_if_nothing_is_wrong(change, failure):
    found = answers(**change)
    assert found.failure == failure
    assert found.held is not bool(failure)
    assert found.sent_share == 0.5


def test_a_class_has_the_expected_events_and_no_faults():
    sent = {"events": 100, "expected": 100, "sent": 50}
    taken = {"events": (40, 30), "complete": (True, True), "missed": (0, 0), "latencies": ((5, 70),)}
    for expected, faults, lost in (((40, 30), (0,), 0), ((40, 33), (0,), 3), ((40, 30), (2,), 2)):
        found = evaluate_round(
            10.0, 10.0, [sent], [taken | {"expected": expected, "faults": faults}], ProcessSampler({})
        )
        assert found.lost == lost


def test_processor_time_of_a_role_is_that_of_its_processes():
    series = {
        name: [ProcessSample(0.0, 1.0, 1), ProcessSample(4.0, 3.0, 1)]
        for name in ("translator 0", "translator 1", "broker")
    }
    found = LoadOutcome(10.0, 4.0, events=10, sent=5, lost=0, p50=1.0, p99=2.0, series=series)
    assert (found.cpu_seconds("translator"), found.cpu_seconds("broker")) == (4.0, 2.0)


@pytest.mark.parametrize(("samples", "grown"), [(60, 0.1), (20, None)])
def test_growing_memory_is_a_fault_after_enough_samples(samples, grown):
    series = {
        "publisher 0": [ProcessSample(float(at), at / 10, 100 if at < samples - 9 else 110) for at in range(samples)]
    }
    found = LoadOutcome(10.0, 60.0, events=10, sent=5, lost=0, p50=1.0, p99=2.0, series=series)
    assert found.max_memory_growth == (pytest.approx(grown, abs=0.06) if grown else None)
    assert found.held is (grown is None)
    assert list(found.cpu) == ["publisher"]


def test_numbered_events_pass_a_stream_and_its_audit():
    publisher = StreamEncoder(numbered_schema(), StreamConfig(demand=Demand(tolerance={"value": 0.5})), now=0.0)
    subscriber = StreamDecoder([numbered_schema()])
    frames = publisher.start(0.0)
    for number in range(300):
        frames += publisher.publish(numbered_event("a", number), 0.0)
    frames += publisher.heartbeat(0.0)
    events = [e for frame in frames for e in subscriber.receive(frame, now=0.0) if isinstance(e, Event)]
    record = [(e["sensor"], e["number"], e["value"], e.bound["value"]) for e in events]
    assert audit_numbers(record, {"a": 299}).faults == 0
    assert publisher.suppressed_events > 0


@pytest.mark.parametrize(
    ("spoil", "fault"),
    [
        (lambda lines: lines[:-1], "missing"),
        (lambda lines: [*lines, lines[-1]], "extra"),
        (lambda lines: [lines[1], lines[0], *lines[2:]], "disordered"),
        (lambda lines: [("a", 0, numbered_value(0) + 0.6, 0.5), *lines[1:]], "beyond"),
        (lambda lines: [("a", 0, numbered_value(0), 0.6), *lines[1:]], "beyond"),
    ],
)
def test_the_audit_finds_faults(spoil, fault):
    lines = [("a", number, numbered_value(number), 0.5) for number in range(5)]
    assert audit_numbers(lines, {"a": 4}).faults == 0
    result = audit_numbers(spoil(lines), {"a": 4})
    assert result.faults == getattr(result, fault) == 1
    assert describe_faults(result) == f"1 {fault}"


def test_a_coarser_class_is_audited_with_its_own_tolerance():
    lines = [("a", number, numbered_value(number) + 1.5, 2.0) for number in range(5)]
    assert audit_numbers(lines, {"a": 4}, tolerance=2.0).faults == 0
    assert audit_numbers(lines, {"a": 4}).beyond == 5
