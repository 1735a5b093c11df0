"""Two sensors, a log, two translators and two subscribers: the example that the approach is explained with.

P1 publishes T1, which hardly moves; P2 publishes T2, which moves all the time. S1 watches T1 for alarms and does not
mind 0.2 degrees; S2 makes forecasts from both and does not mind 1.0. The description says what happens at each step:

1. events as they are measured;
2. the log: the first event in full, then only what has changed;
3. the channels: for S1 one value less than in the log, for S2 fewer still;
4. what the subscribers see: every event, with all its properties, some slightly off.

The readings are chosen to show each of these; they are written out here, value by value. A change that is lower than
the tolerance is left out; here one that equals it is left out too.
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
SEEN = {
    "S1": {"T1": [20.5, 20.5, 20.5, 20.5, 20.9]},
    "S2": {"T1": [20.5, 20.5, 20.5, 20.5, 20.5], "T2": [21.0, 21.0, 22.3, 22.3, 21.1]},
}


@pytest.fixture(scope="module")
def log():
    """Steps 1 and 2: somebody keeps an archive, so the log is exact; values are told when they change."""
    demand = budget(TEMPERATURES, [S1, S2, EXACT]).demand(TEMPERATURES, Settings(mode="hold"))
    made = Log(TEMPERATURES, demand=demand)
    for k in range(5):
        for name, (sensor, values) in READINGS.items():
            made.publish(name, {"sensorId": sensor, "timestamp": 1000 * k, "temperature": values[k]})
    for name in made.publishers:
        made.heartbeat(name)
    return made


@pytest.fixture(scope="module")
def channels(log):
    """Step 3: what the translators send, by subscriber."""
    found = {}
    for asked in (S1, S2):
        translation = log.translation()
        translation.open(DemandClass.of(asked))
        for stored in log.messages:
            translation.receive(stored)
        found[asked.identity] = translation.take_messages(65_536)
    return found


def sent_values(messages, schema):
    """The temperature in each event's frame, None where it was not sent; read by a link that only looks."""
    reader = StreamDecoder([schema], publisher="p", compiled=False)
    values = []
    for frame in (frame for message in messages for frame in split(message)):
        kind = read(frame).kind
        partial = (
            compact.decode(read(frame).body, False, deepcopy(reader.decoder_state.stream))
            if kind == FrameKind.DATA
            else None
        )
        told = [thing for thing in reader.receive(frame, now=0) if isinstance(thing, Event)]
        if not told:
            continue
        values += [None] * (len(told) - 1)
        fields = {schema.wire[i].name for i in indexes(partial.mask)} if partial is not None else {"temperature"}
        virtual = told[-1].virtual
        values.append(told[-1]["temperature"] if "temperature" in fields and not virtual else None)
    return values


@pytest.mark.parametrize("publisher", ["p1", "p2"])
def test_the_log_has_the_first_event_in_full_and_then_what_has_changed(log, publisher):
    messages = [stored.payload for stored in log.messages if f".{publisher}." in stored.subject]
    assert sent_values(messages, TEMPERATURES) == LOGGED[publisher]


@pytest.mark.parametrize("who", ["S1", "S2"])
def test_translators_send_what_matters_to_their_subscriber(channels, who):
    found = {}
    for publisher in ("p1", "p2"):
        messages = [decode_envelope(m.payload)[2] for m in channels[who] if m.publisher == publisher]
        found[publisher] = sent_values(messages, TEMPERATURES)
    assert {publisher: values for publisher, values in found.items() if values} == SENT[who]


def test_s1_is_sent_one_value_less_than_the_log_has():
    def count(values):
        return sum(value is not None for value in values)

    assert count(SENT["S1"]["p1"]) == count(LOGGED["p1"]) - 1
    assert count(SENT["S2"]["p2"]) < count(LOGGED["p2"])


@pytest.mark.parametrize("asked", [S1, S2], ids=lambda asked: asked.identity)
def test_subscribers_see_every_event_whole_and_within_their_tolerance(log, channels, asked):
    reader = Reader(log, DemandClass.of(asked))
    reader.read(channels[asked.identity])
    assert reader.missed == []
    seen = {sensor: [] for sensor in SEEN[asked.identity]}
    for event in reader.events:
        assert event.keys() == {"sensorId", "timestamp", "temperature"}
        truth = log.truth[event.identity]["temperature"]
        assert abs(event["temperature"] - truth) <= event.bound["temperature"] + 1e-9
        assert event.bound["temperature"] == asked.tolerance["temperature"]
        assert event.virtual or event["timestamp"] == log.truth[event.identity]["timestamp"]
        seen[event["sensorId"]].append(event["temperature"])
    assert seen == SEEN[asked.identity]
