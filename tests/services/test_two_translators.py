"""Two sensors, a log, two translators and two subscribers: the example that explains the approach.

P1 publishes T1, which changes little; P2 publishes T2, which changes with every event. S1 monitors T1 for alarms with a
tolerance of 0.2 degrees; S2 makes forecasts from both with a tolerance of 1.0. The tests check each step:

1. events as they are measured;
2. the log: the first event in full, then only what has changed;
3. the channels: for S1 one value less than in the log, for S2 fewer still;
4. the delivered events: all of them, with all properties, within the tolerance.

The readings are chosen to show each of these. A change that is lower than the tolerance is not sent; in this example,
neither is one that equals it.
"""

from copy import deepcopy

import pytest
from translation_setup import Log, Reader

from thinwire.codec import StreamDecoder
from thinwire.schema import Event, Property, Schema
from thinwire.topics.demand_class import DemandClass
from thinwire.topics.position import decode_envelope
from thinwire.topics.tolerance_budget import budget
from thinwire.topics.topic_documents import SubscriptionDocument
from thinwire.topics.topic_settings import Settings
from thinwire.wire import FrameKind, read, split
from thinwire.wire import compact_body as compact
from thinwire.wire.partial_event import indexes

TEMPERATURES = Schema(
    "temperatures",
    [
        Property("sensorId", "string", "dimension"),
        Property("timestamp", "timestamp", "header", form="epoch"),
        Property("temperature", "number", step="0.1", minimum=0, maximum=50),
    ],
)
READINGS = {
    "p1": ("T1", [20.5, 20.5, 20.6, 20.6, 20.9]),
    "p2": ("T2", [21.0, 21.4, 22.3, 22.9, 21.1]),
}
LOGGED = {"p1": [20.5, None, 20.6, None, 20.9], "p2": [21.0, 21.4, 22.3, 22.9, 21.1]}
S1 = SubscriptionDocument("temperatures", "S1", {"temperature": 0.2}, sources={"sensorId": "T1"}, emit="changes")
S2 = SubscriptionDocument("temperatures", "S2", {"temperature": 1.0}, emit="changes")
EXACT = SubscriptionDocument("temperatures", "archive", exact=True)
SENT = {
    "S1": {"p1": [20.5, None, None, None, 20.9]},
    "S2": {"p1": [20.5, None, None, None, None], "p2": [21.0, None, 22.3, None, 21.1]},
}
DELIVERED = {
    "S1": {"T1": [20.5, 20.5, 20.5, 20.5, 20.9]},
    "S2": {"T1": [20.5, 20.5, 20.5, 20.5, 20.5], "T2": [21.0, 21.0, 22.3, 22.3, 21.1]},
}


@pytest.fixture(scope="module")
def log():
    """Steps 1 and 2: an archive subscribes without tolerance, so the log is exact; values are sent when they change."""
    demand = budget(TEMPERATURES, [S1, S2, EXACT]).demand(TEMPERATURES, Settings(mode="hold"))
    log = Log(TEMPERATURES, demand=demand)
    for k in range(5):
        for name, (sensor, values) in READINGS.items():
            log.publish(name, {"sensorId": sensor, "timestamp": 1000 * k, "temperature": values[k]})
    for name in log.publishers:
        log.heartbeat(name)
    return log


@pytest.fixture(scope="module")
def channels(log):
    """Step 3: the messages of the translators, by subscriber."""
    found = {}
    for document in (S1, S2):
        translation = log.translation()
        translation.open(DemandClass.of(document))
        for stored in log.messages:
            translation.receive(stored)
        found[document.identity] = translation.take_messages(65_536)
    return found


def sent_values(messages, schema):
    """Return the temperature in the frame of each event, None where it was not sent."""
    reader = StreamDecoder([schema], publisher="p", compiled=False)
    values = []
    for frame in (frame for message in messages for frame in split(message)):
        kind = read(frame).kind
        partial = (
            compact.decode(read(frame).body, False, deepcopy(reader.decoder_state.stream))
            if kind == FrameKind.DATA
            else None
        )
        events = [delivery for delivery in reader.receive(frame, now=0) if isinstance(delivery, Event)]
        if not events:
            continue
        values += [None] * (len(events) - 1)
        fields = {schema.wire[i].name for i in indexes(partial.mask)} if partial is not None else {"temperature"}
        virtual = events[-1].virtual
        values.append(events[-1]["temperature"] if "temperature" in fields and not virtual else None)
    return values


@pytest.mark.parametrize("publisher", ["p1", "p2"])
def test_the_log_has_the_complete_first_event_and_then_changed_values(log, publisher):
    messages = [stored.payload for stored in log.messages if f".{publisher}." in stored.subject]
    assert sent_values(messages, TEMPERATURES) == LOGGED[publisher]


@pytest.mark.parametrize("subscriber", ["S1", "S2"])
def test_translators_send_the_values_that_exceed_the_tolerance(channels, subscriber):
    found = {}
    for publisher in ("p1", "p2"):
        messages = [decode_envelope(m.payload)[2] for m in channels[subscriber] if m.publisher == publisher]
        found[publisher] = sent_values(messages, TEMPERATURES)
    assert {publisher: values for publisher, values in found.items() if values} == SENT[subscriber]


def test_the_channel_of_s1_has_one_value_less_than_the_log():
    def count(values):
        return sum(value is not None for value in values)

    assert count(SENT["S1"]["p1"]) == count(LOGGED["p1"]) - 1
    assert count(SENT["S2"]["p2"]) < count(LOGGED["p2"])


@pytest.mark.parametrize("document", [S1, S2], ids=lambda document: document.identity)
def test_subscribers_get_every_complete_event_within_their_tolerance(log, channels, document):
    reader = Reader(log, DemandClass.of(document))
    reader.read(channels[document.identity])
    assert reader.missed == []
    delivered = {sensor: [] for sensor in DELIVERED[document.identity]}
    for event in reader.events:
        assert event.keys() == {"sensorId", "timestamp", "temperature"}
        truth = log.truth[event.identity]["temperature"]
        assert abs(event["temperature"] - truth) <= event.bound["temperature"] + 1e-9
        assert event.bound["temperature"] == document.tolerance["temperature"]
        assert event.virtual or event["timestamp"] == log.truth[event.identity]["timestamp"]
        delivered[event["sensorId"]].append(event["temperature"])
    assert delivered == DELIVERED[document.identity]
