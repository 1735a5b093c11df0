"""Required events of demand classes, compared with a plain loop and real streams; faults that audits find."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from thinwire.codec import Demand, StreamConfig, StreamDecoder, StreamEncoder
from thinwire.demo.process_group import micros
from thinwire.schema import Event
from thinwire_lab.live.delivery_audit import DeliveryRecord, audit_exact, audit_guarantee
from thinwire_lab.live.live_feed import (
    READINGS,
    GroundTruth,
    LoadSource,
    feed_schema,
    feed_truth,
    in_ticks,
    required_events,
)
from thinwire_lab.live.load_roles import Auditor
from thinwire_lab.live.many_sources import START as MANY_START
from thinwire_lab.live.many_sources import TOLERANCES, generate_events, make_schema, make_truth

START = 1_700_000_000_000_000
PUBLISHERS, RATE, SECONDS = 2, 1_000.0, 3.0


def published(start=START, turn=0):
    """All events of a round, publisher by publisher."""
    found = []
    for number in range(PUBLISHERS):
        feed = LoadSource(number, PUBLISHERS, RATE, start, turn)
        found.append([*feed.due(start + round(SECONDS * 1e6)), *feed.final_events()])
    return found


def expected_deliveries(walk, log, share):
    """The rule as a loop, for one source with one reading."""
    required = shown = walk[0]
    out = [(0, walk[0])]
    for step, value in enumerate(walk[1:], start=1):
        required = value if abs(value - required) > log else required
        if abs(required - shown) > share:
            shown = required
            out.append((step, required))
    return out


@given(
    st.lists(st.lists(st.integers(-30, 30), min_size=6, max_size=6), min_size=1, max_size=4),
    st.integers(0, 8),
    st.integers(0, 12),
)
def test_required_deliveries_of_a_class_follow_the_rule(walks, log, share):
    names = [f"s{number}" for number in range(len(walks))]
    cycle = np.array(walks)[:, :, None]
    truth = GroundTruth(("t",), names, np.full(len(walks), 6), np.arange(len(walks)), 1000, cycle)
    required = required_events(truth, log, share)
    for source, walk in enumerate(walks):
        own = required.source == source
        assert list(zip(required.step[own], required.values[own, 0], strict=True)) == expected_deliveries(
            walk, log, share
        )
        assert required.true_values[own, 0].tolist() == [walk[step] for step in required.step[own]]
        assert (np.abs(required.values[own] - required.true_values[own]) <= log + share).all()


def test_a_course_is_what_publishers_publish():
    truth = feed_truth(RATE, PUBLISHERS, SECONDS)
    for events in published():
        by_source = {}
        for event in events:
            by_source.setdefault(event["sensor"], []).append(event)
        for name, own in by_source.items():
            source = truth.names.index(name)
            assert len(own) == truth.counts[source]
            for step, event in enumerate(own):
                assert event["time"] == START + step * truth.period + truth.offsets[source]
                assert truth.at(step)[source].tolist() == [round(10 * event[reading]) for reading in READINGS]


@pytest.mark.parametrize("tolerance", [0.5, 1.0, 2.0, 4.0, 8.0])
def test_links_deliver_the_required_events_of_a_class(tolerance):
    auditor = audited(tolerance, list(class_events(tolerance)))
    assert auditor.expected_events == auditor.events > 0
    assert auditor.count_faults() == 0


def class_events(tolerance):
    """The events of a class, through a publisher's link and a class's on top of it, one after the other."""
    schema = feed_schema()
    for events in published():
        log = StreamEncoder(schema, StreamConfig(demand=Demand(default_tolerance=0.5, mode="hold")))
        decoder = StreamDecoder([schema])
        arrived = _through(decoder, log.start(0.0) + [f for e in events for f in log.publish(e, 0.0)])
        share = round(tolerance - 0.5, 1)
        over = decoder.decoder_state.expander.rules
        config = StreamConfig(demand=Demand(default_tolerance=share, mode="hold", changes=True))
        link = StreamEncoder(schema, config, over=over, validated=True)
        reader = StreamDecoder([schema])
        reader.include_suppressed = False
        yield from _through(reader, link.start(0.0) + [f for e in arrived for f in link.publish(e, 0.0)])


def _through(link, frames):
    return [thing for frame in frames for thing in link.receive(frame, now=0.0) if isinstance(thing, Event)]


def audited(tolerance, events, start=START):
    """An auditor that was handed these events."""
    auditor = Auditor(tolerance, 0.5, source="sensor", stamp="time")
    auditor.prepare(feed_truth(RATE, PUBLISHERS, SECONDS))
    auditor.start = start
    auditor.add(events, events, micros())
    return auditor


def _delivered(truth, tolerance):
    return required_events(truth, 5, in_ticks(tolerance) - 5)


def _events(truth, required, tolerance, start=START):
    """The events of a class as they should come, source by source."""
    bound = dict.fromkeys(truth.readings, tolerance)
    for source, step, values in zip(required.source, required.step, required.values, strict=True):
        time = start + int(step) * truth.period + int(truth.offsets[source])
        shown = dict(zip(truth.readings, (values / 10).round(1).tolist(), strict=True))
        name = truth.names[source]
        yield Event({"sensor": name, "time": time, **shown}, bound=bound, source=(name,), ordinal=int(step) + 1)


def _altered(event, bound=None, **values):
    bound = event.bound if bound is None else bound
    return Event({**event, **values}, bound=bound, source=event.source, ordinal=event.ordinal)


def _swapped(events):
    """Two events of the same source, the later one first."""
    own = [index for index, event in enumerate(events) if event["sensor"] == events[0]["sensor"]][:2]
    events = list(events)
    events[own[0]], events[own[1]] = events[own[1]], events[own[0]]
    return events


SPOILT = {
    "missing": lambda events: events[:-1],
    "extra": lambda events: [*events, events[-1]],
    "never was": lambda events: [*events, _altered(events[-1], time=events[-1]["time"] + 1)],
    "unknown source": lambda events: [*events, _altered(events[-1], sensor="moon")],
    "disordered": _swapped,
    "beyond": lambda events: [_altered(events[0], flow=events[0]["flow"] + 0.1), *events[1:]],
    "bound too large": lambda events: [_altered(events[0], bound=dict.fromkeys(READINGS, 4.1)), *events[1:]],
    "no bound": lambda events: [_altered(events[0], bound=dict.fromkeys(READINGS)), *events[1:]],
}


@pytest.mark.parametrize("how", SPOILT)
def test_an_auditor_finds_what_is_wrong(how):
    truth = feed_truth(RATE, PUBLISHERS, SECONDS)
    events = list(_events(truth, _delivered(truth, 4.0), 4.0))
    assert audited(4.0, events).count_faults() == 0
    assert audited(4.0, SPOILT[how](events)).count_faults() == 1


def record_of(truth, events):
    record = DeliveryRecord(truth, source="sensor", stamp="time")
    record.add(events)
    return record


@pytest.mark.parametrize("how", sorted(SPOILT.keys() - {"missing", "beyond"}))
def test_the_audit_of_guarantees_finds_faults(how):
    truth = feed_truth(RATE, PUBLISHERS, SECONDS)
    events = list(_events(truth, _delivered(truth, 4.0), 4.0))
    assert audit_guarantee(record_of(truth, events), truth, START, 4.0, "changes").faults == 0
    assert audit_guarantee(record_of(truth, SPOILT[how](events)), truth, START, 4.0, "changes").faults == 1


def test_every_broken_guarantee_is_found():
    truth = feed_truth(RATE, PUBLISHERS, SECONDS)
    events = list(_events(truth, _delivered(truth, 4.0), 4.0))
    first = next(event for event in events if event.ordinal > 1)
    without = [event for event in events if event is not first]
    found = audit_guarantee(record_of(truth, without), truth, START, 4.0, "changes")
    assert found.missing > 0
    assert found.faults == found.missing


def test_more_events_than_needed_break_no_guarantee():
    truth = feed_truth(RATE, PUBLISHERS, SECONDS)
    finer = [_altered(event, bound=event.bound) for event in _events(truth, _delivered(truth, 1.0), 1.0)]
    assert audit_guarantee(record_of(truth, finer), truth, START, 8.0, "changes").faults == 0
    assert audit_exact(record_of(truth, finer), truth, _delivered(truth, 8.0), START, 8.0).extra > 0


def test_a_class_of_all_events_misses_every_lost_event():
    truth = feed_truth(RATE, PUBLISHERS, SECONDS)
    every = [
        Event(event, bound=dict.fromkeys(READINGS, 0.0), source=(event["sensor"],), ordinal=1)
        for events in published()
        for event in events
    ]
    assert audit_guarantee(record_of(truth, every), truth, START, 1.0, "all").faults == 0
    assert audit_guarantee(record_of(truth, every[10:]), truth, START, 1.0, "all").missing == 10


def test_a_record_grows_beyond_its_capacity():
    truth = feed_truth(RATE, PUBLISHERS, SECONDS)
    events = list(_events(truth, _delivered(truth, 1.0), 1.0))
    record = DeliveryRecord(truth, source="sensor", stamp="time", capacity=1)
    for at in range(0, len(events), 1000):
        record.add(events[at : at + 1000])
    assert len(record.rows) == len(events) > 1024
    assert record.bounds == [(1.0, 1.0, 1.0)]


@pytest.mark.parametrize("tolerance", TOLERANCES)
def test_a_sweep_is_delivered_to_each_class_as_expected(tolerance):
    truth = make_truth(sources=60, publishers=2)
    demand = Demand(default_tolerance=tolerance, mode="hold", changes=True)
    log = StreamEncoder(make_schema(), StreamConfig(demand=demand))
    reader = StreamDecoder([make_schema()])
    reader.include_suppressed = False
    frames = log.start(0.0) + [frame for event in generate_events(truth, 0, 60) for frame in log.publish(event, 0.0)]
    record = record_of(truth, _through(reader, frames))
    required = required_events(truth, in_ticks(tolerance), 0)
    assert audit_exact(record, truth, required, MANY_START, tolerance).faults == 0
    assert (truth.counts == 3).all()
