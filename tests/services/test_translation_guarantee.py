"""The guarantee over a log, its channels and translators that crash anywhere: every event once, within its bound.

A log has events of two publishers, heartbeats and new configurations. Translators write message by message, so a crash
leaves any prefix of their messages; the others may still be stored after the first messages of the successor.
"""

from collections import defaultdict
from fractions import Fraction
from random import Random

from demand_classes import selects
from hypothesis import given, settings
from hypothesis import strategies as st
from translation_setup import Channels, Log, Reader

from thinwire.codec import Demand
from thinwire.codec.demand import tolerance_of
from thinwire.schema import Kind, Property, Role, Schema
from thinwire.schema.kind import TOLERANT_KINDS
from thinwire.topics.demand_class import DemandClass
from thinwire.topics.position import decode_envelope
from thinwire.topics.topic_documents import SubscriptionDocument

PLANT = Schema(
    "plant",
    [
        Property("time", "timestamp", "header", form="epoch"),
        Property("machine", "string", "dimension"),
        Property("t", "number", step="0.1", minimum=-30, maximum=60),
        Property("n", "integer"),
        Property("power", "number", step="0.5", idle_band=2),
        Property("level", "float"),
        Property("on", "boolean"),
        Property("mode", "string"),
    ],
)
MEASURED = ("t", "n", "power", "level")
amounts = st.sampled_from([0, 0.1, 0.5, 1, "1.5", 3])
tolerances = st.fixed_dictionaries({}, optional=dict.fromkeys(MEASURED, amounts))
demands = st.builds(
    Demand,
    tolerances,
    st.sampled_from([0, 0.5, 2]),
    mode=st.sampled_from(["predict", "hold"]),
    predictor=st.sampled_from(["auto", "last", "linear"]),
)


@st.composite
def subscriptions(draw):
    properties = draw(st.none() | st.lists(st.sampled_from([*MEASURED, "on"]), min_size=1, max_size=3).map(tuple))
    requested = draw(tolerances)
    return SubscriptionDocument(
        "plant",
        "s",
        {name: value for name, value in requested.items() if properties is None or name in properties},
        draw(st.sampled_from([0, 0.5, 2])),
        properties=properties,
        sources=draw(st.sampled_from([None, None, {"machine": ["S0", "S2"]}])),
        emit=draw(st.sampled_from(["all", "changes"])),
    )


crashes = st.lists(st.tuples(st.integers(2, 60), st.integers(0, 30), st.booleans()), max_size=3)
"""log messages before the crash; number of last messages that were not written; are those stored late?"""


def readings(chance):
    """Yield events of any machine: most values change by little; some are absent, far away or not on their grid."""
    values, times = {}, {}
    while True:
        machine = chance.choice(("S0", "S1", "S2"))
        state = values.setdefault(machine, {"t": 200, "n": 0, "power": 0, "level": 0, "on": True, "mode": "calm"})
        times[machine] = times.get(machine, 0) + 1000 + chance.choice((0, 0, 0, 7))
        for name in MEASURED:
            state[name] += chance.choice((0, 0, 1, -1, 2, -3, chance.randint(-40, 40)))
        state["on"] ^= chance.random() < 0.1
        state["mode"] = chance.choice(("storm", "calm")) if chance.random() < 0.1 else state["mode"]
        event = {"time": times[machine], "machine": machine, **state}
        event |= {"t": state["t"] / 10, "power": state["power"] / 2, "level": state["level"] * 0.37}
        if chance.random() < 0.1:
            event |= chance.choice(({"t": None}, {"n": None}, {"t": 1e6}, {"t": event["t"] + 0.04}, {"level": 1e300}))
        yield event


@st.composite
def logs(draw):
    """Up to 80 events of two publishers, many to a message, with some new configurations and heartbeats."""
    chance = Random(draw(st.integers(0, 1 << 32)))
    log = Log(PLANT, demand=draw(demands))
    events = {name: readings(chance) for name in log.publishers}
    others = draw(st.lists(demands, max_size=2))
    for _ in range(draw(st.integers(1, 80))):
        name = chance.choice(("p1", "p2"))
        log.publish(name, next(events[name]), flush=chance.random() < 0.3)
        if others and chance.random() < 0.05:
            log.reconfigure(others.pop())
        elif chance.random() < 0.05:
            log.heartbeat(name)
    for name in log.publishers:
        log.heartbeat(name)
    return log


def run(log, classes, crashes, limit):
    """Translate the log through all crashes; return all messages of the channels, in order."""
    channels = Channels(log)
    translation, at = channels.successor(classes, epoch=1)
    epoch, late = 1, []
    for after, unwritten, is_late in sorted(crashes, key=lambda crash: crash[0]):
        stop = min(after, len(log.messages))
        at = max(at, 0)
        for stored in log.messages[at:stop]:
            translation.receive(stored)
            if stored.offset % 2:
                channels.messages += translation.take_messages(limit)
        channels.messages += translation.take_messages(limit)
        written = len(channels.messages) - min(unwritten, count_last(channels.messages, epoch))
        in_flight, channels.messages = channels.messages[written:], channels.messages[:written]
        late = in_flight if is_late else []
        epoch += 1
        translation, at = channels.successor(classes, epoch)
        if late and at < len(log.messages):  # late messages arrive after the first ones of the successor
            translation.receive(log.messages[at])
            at += 1
            first = translation.take_messages(limit)
            resumed = {(m.class_id, m.publisher) for m in first}
            channels.messages += first + [m for m in late if (m.class_id, m.publisher) in resumed]
    for stored in log.messages[at:]:
        translation.receive(stored)
    return channels.messages + translation.take_messages(limit)


def count_last(messages, epoch):
    """Return how many of the last messages are of this epoch."""
    return sum(decode_envelope(message.payload)[0] == epoch for message in messages)


def tolerance(document, p):
    """Return the tolerance of a property, including its idle band."""
    amount = tolerance_of(PLANT, p, document.demand)
    idles = p.idle_band is not None and p.name not in document.tolerance
    return float(amount + Fraction(str(p.idle_band)) if idles else amount)


def distance(p, value, truth):
    if p.kind not in TOLERANT_KINDS or value is None or truth is None:
        return 0 if value == truth else float("inf")
    return abs(Fraction(str(value)) - Fraction(str(truth)))


def check_value(log, document, event, p):
    bound, value, truth = event.bound[p.name], event[p.name], log.truth[event.identity][p.name]
    log_bound = log.bounds[event.identity][p.name]
    if bound is None:
        assert (document.emit, p.role, event.virtual) == ("changes", Role.HEADER, True)
        return
    assert bound <= max(tolerance(document, p), log_bound), p.name
    slack = Fraction(1, 10**9) if p.kind is Kind.FLOAT else Fraction(1, 10**12)
    assert distance(p, value, truth) <= Fraction(bound) + slack, (p.name, value, truth)


@settings(max_examples=25)
@given(logs(), st.lists(subscriptions(), min_size=1, max_size=3), crashes, st.sampled_from([1, 90, 400, 65_536]))
def test_every_event_once_and_within_its_bound_after_any_crashes(log, documents, crashes, limit):
    by_class = {DemandClass.of(one).id: one for one in documents}
    classes = [DemandClass.of(one) for one in by_class.values()]
    messages = run(log, classes, crashes, limit)
    for one in classes:
        reader = Reader(log, one)
        reader.read(messages)
        assert reader.missed == []
        check_all(log, by_class[one.id], one, reader.events)
        if one.mode == "hold":
            changes = Reader(log, one, include_suppressed=False)
            changes.read(messages)
            check_held(log, by_class[one.id], one, changes.events)


def check_all(log, document, demand, events):
    delivered = defaultdict(list)
    schema = demand.schema(PLANT)
    for event in events:
        assert set(event) == {p.name for p in schema}
        delivered[event.identity[:3]].append(event.ordinal)
        for p in schema.wire:
            check_value(log, document, event, p)
    expected = defaultdict(list)
    for *source, ordinal in log.truth:
        if selects(demand, source[2], PLANT):
            expected[tuple(source)].append(ordinal)
    assert dict(delivered) == dict(expected)


def check_held(log, document, demand, events):
    """Check that at every event of a source, the last delivered one is within its tolerance."""
    delivered = {event.identity: event for event in events}
    last = {}
    for identity, truth in log.truth.items():
        if not selects(demand, identity[2], PLANT):
            continue
        event = last[identity[:3]] = delivered.get(identity, last.get(identity[:3]))
        assert event is not None
        for p in (p for p in demand.schema(PLANT).wire if p.role is not Role.HEADER):
            limit = max(tolerance(document, p), log.bounds[identity][p.name])
            slack = Fraction(1, 10**9)
            assert distance(p, event[p.name], truth[p.name]) <= Fraction(limit) + slack, (p.name, event, truth)
