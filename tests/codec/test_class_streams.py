"""A stream over a stream: decoded events are encoded again for a demand class, and bounds add up."""

import pytest
from event_strategies import histories
from hypothesis import given, settings
from hypothesis import strategies as st
from reference_stream import tolerance_of
from test_guarantee import PLAIN, RICH, distance

from thinwire.codec import Audit, Demand, EventsMissed, StreamConfig, StreamDecoder, StreamEncoder, Watermark, resolve
from thinwire.errors import DemandError, TooManySources
from thinwire.schema import Event, Property, Role, Schema, flatten

P = {
    "plain": {"temperature": 0.2, "count": 1, "thirds": 1, "tons": 5, "level": 0.1},
    "rich": {"plant.heat": 0.01, "pressure": 0.2, "scan": 0.25, "fixed": 1, "seen": 0.5},
}
C = {
    "plain": {"temperature": 0.3, "count": 2, "thirds": 1, "tons": 10, "level": 0.2},
    "rich": {"plant.heat": 0.03, "pressure": 0.4, "position": 0.3, "scan": 0.5, "fixed": 2, "seen": 1},
}
SCHEMAS = {"plain": PLAIN, "rich": RICH}
EXAMPLES = 25


class Chain:
    """A publisher, the decoder of its log, channel encoders, and a decoder of each."""

    def __init__(self, schema, demand, **config):
        self.publisher = StreamEncoder(schema, StreamConfig(demand=demand, **config), name="p", incarnation=3)
        self.decoder = StreamDecoder([schema], publisher="p")
        self.classes = []
        self.now = 0.0
        self.pass_on(self.publisher.start(0.0))

    @property
    def rules(self):
        return self.decoder.decoder_state.rules

    def open(self, schema, demand, *, chosen=None, compiled=True, sequence=5 << 32):
        link = StreamEncoder(
            schema,
            StreamConfig(demand=demand, version=self.decoder.config_version),
            name="p",
            incarnation=self.decoder.incarnation,
            over=self.rules,
            sequence=sequence,
            validated=True,
            compiled=compiled,
        )
        link.adopt(self.decoder.decoder_state, chosen)
        reader = StreamDecoder([schema], publisher="p", compiled=compiled)
        served = Served(link, reader, chosen or (lambda source: True))
        self.classes.append(served)
        served.take(link.start(self.now))
        return served

    def publish(self, event):
        self.now += 1
        self.pass_on(self.publisher.publish(event, self.now))

    def finish(self):
        self.pass_on(self.publisher.heartbeat(self.now))

    def pass_on(self, frames):
        for frame in frames:
            for item in self.decoder.receive(frame, now=self.now):
                for served in self.classes:
                    served.encode(item, self.now)


class Served:
    def __init__(self, link, reader, chosen):
        self.link, self.reader, self.chosen = link, reader, chosen
        self.frames, self.deliveries = [], []

    @property
    def events(self):
        return [item for item in self.deliveries if isinstance(item, Event)]

    def encode(self, item, now):
        if isinstance(item, Event) and self.chosen(item.source):
            self.take(self.link.publish(item, now))
        elif isinstance(item, Watermark):
            self.take(self.link.heartbeat(now, item.time))
        elif isinstance(item, Audit):
            self.take(self.link.audit(item.source, item.exacts))

    def take(self, frames):
        self.frames += frames
        for frame in frames:
            self.deliveries += self.reader.receive(frame, now=0.0)


def true_values(schema, events):
    found = {}
    for event in events:
        flat = flatten(event, schema)
        found.setdefault(tuple(flat[p.name] for p in schema.dimensions), []).append(flat)
    return found


def project(schema, left_out):
    return Schema(schema.name, [p for p in schema if p.name not in left_out])


def check_bounds(schema, demands, event, truth):
    seen = flatten(event, schema)
    for p in schema.wire:
        bound = event.bound[p.name]
        if bound is None:
            continue
        idle = p.idle_band if p.idle_band and p.name not in demands[0].tolerance else 0
        assert bound <= float(sum(tolerance_of(p, demand) for demand in demands)) + idle
        off = distance(p, seen[p.name], truth.get(p.name))
        assert off <= bound * (1 + 1e-9), (p.name, seen[p.name], truth.get(p.name))


def check_order(served, happened, adopted):
    """Check that every event of every source after the adopted one is delivered in order."""
    received = {}
    for event in served.events:
        assert event.identity[:2] == ("p", 3)
        assert event.ordinal == received.get(event.source, adopted.get(event.source, 1) - 1) + 1
        received[event.source] = event.ordinal
    assert received == {source: len(events) for source, events in happened.items() if served.chosen(source)}
    assert [item for item in served.deliveries if isinstance(item, EventsMissed)] == []


@pytest.mark.parametrize("mode", ["predict", "hold", "changes"])
@pytest.mark.parametrize("name", ["plain", "rich"])
@settings(max_examples=EXAMPLES)
@given(data=st.data())
def test_a_channel_keeps_the_sum_of_tolerances_and_loses_nothing(name, mode, data):
    schema = SCHEMAS[name]
    first = Demand(
        tolerance=P[name] if data.draw(st.booleans(), "p") else {},
        mode=data.draw(st.sampled_from(["predict", "hold"])),
        predictor=data.draw(st.sampled_from(["last", "linear", "trend", "auto"])),
    )
    optional = [p.name for p in schema.wire if p is not schema.time]
    left_out = data.draw(st.sets(st.sampled_from(optional), max_size=len(optional) - 1), "left out")
    projected = project(schema, left_out)
    requested = {key: value for key, value in C[name].items() if key not in left_out}
    second = Demand(tolerance=requested, mode="predict" if mode == "predict" else "hold", changes=mode == "changes")
    events = data.draw(histories(schema, max_size=40))
    happened = true_values(schema, events)
    wanted = data.draw(st.sets(st.sampled_from(list(happened)), min_size=1), "sources")
    chosen = data.draw(st.sampled_from([None, wanted.__contains__]))
    moment = data.draw(st.integers(0, len(events)), "moment")

    chain = Chain(schema, first, max_silence=data.draw(st.sampled_from([3, 1e9])), audit_every=5)
    for event in events[:moment]:
        chain.publish(event)
    current = chain.decoder.current_events()
    adopted = {event.source: event.ordinal for event in current if chosen is None or chosen(event.source)}
    fast, plain = (chain.open(projected, second, chosen=chosen, compiled=compiled) for compiled in (True, False))
    for event in events[moment:]:
        chain.publish(event)
    chain.finish()

    assert fast.frames == plain.frames
    assert [dict(event) for event in fast.events] == [dict(event) for event in plain.events]
    check_order(fast, happened, adopted)
    for event in fast.events:
        check_bounds(projected, (first, second), event, happened[event.source][event.ordinal - 1])
    for audit in (item for item in fast.deliveries if isinstance(item, Audit)):
        for key, off in audit.errors.items():
            bound = audit.bound[key]
            assert bound is None or off <= bound * (1 + 1e-9)
    if mode == "changes":
        check_last_sent(projected, (first, second), fast.events, happened, adopted)


def check_last_sent(schema, demands, events, happened, adopted):
    """Check that the last sent event is within the tolerance at every event, and that its headers are exact."""
    sent = {(event.source, event.ordinal): flatten(event, schema) for event in events if not event.virtual}
    for source in {event.source for event in events}:
        last = None
        for ordinal, truth in enumerate(happened[source], start=1):
            seen = sent.get((source, ordinal))
            last = seen or last
            for p in schema.wire if seen is not None else ():
                if p.role is Role.HEADER:
                    assert seen[p.name] == truth.get(p.name)
            for p in schema.wire if last is not None else ():
                if p.role is Role.MEASUREMENT:
                    idle = p.idle_band if p.idle_band and p.name not in demands[0].tolerance else 0
                    allowed = float(sum(tolerance_of(p, demand) for demand in demands)) + idle
                    assert distance(p, last[p.name], truth.get(p.name)) <= allowed * (1 + 1e-9), p.name


ROOMS = Schema(
    "rooms",
    [
        Property("time", "timestamp", "header"),
        Property("id", "string", "dimension"),
        Property("t", "number", step="0.1", maximum=50),
        Property("x", "float"),
        Property("on", "boolean"),
        Property("note", "string"),
    ],
)


def room(k, **more):
    return {"time": 1000 * k, "id": "a", "t": 20.0, "x": 1.0, "on": True, "note": "", **more}


def test_bounds_are_the_exact_sum():
    for p, c, total in ((0.1, 0.2, 0.3), (0.3, 0.4, 0.7), (0.7, 0.1, 0.8), (0, 0.5, 0.5), (0.5, 0, 0.5)):
        chain = Chain(ROOMS, Demand(default_tolerance=p))
        served = chain.open(ROOMS, Demand(default_tolerance=c))
        chain.publish(room(1))
        (event,) = served.events
        assert event.bound == {"time": 0, "t": total, "x": total, "on": 0, "note": 0}


def test_a_source_starts_with_the_ordinal_of_its_first_event():
    link = StreamEncoder(ROOMS, name="p", incarnation=3, validated=True, compiled=False)
    reader = StreamDecoder([ROOMS], publisher="p")
    frames = link.start(0)
    for ordinal in (41, 42):
        source_event = Event({**room(ordinal), "unknown": 7}, bound={}, source=("a",), ordinal=ordinal)
        frames += link.publish(source_event, 0)
    frames += link.heartbeat(0)
    seen = [item for frame in frames for item in reader.receive(frame, now=0) if isinstance(item, Event)]
    assert [event.identity for event in seen] == [("p", 3, ("a",), 41), ("p", 3, ("a",), 42)]


def test_sequences_start_at_the_given_number():
    chain = Chain(ROOMS, Demand())
    served = chain.open(ROOMS, Demand(), sequence=7 << 32)
    chain.publish(room(1))
    assert served.reader.decoder_state.sequence == served.link.sequence == (7 << 32) + len(served.frames)


def test_a_validated_encoder_sends_heartbeats_only_on_request():
    chain = Chain(ROOMS, Demand(), max_silence=1e9)
    served = chain.open(ROOMS, Demand())
    served.take(served.link.reconfigure(StreamConfig(version=2), 500.0, over=chain.rules))
    chain.publish(room(1))
    assert served.link.publish(Event(room(1), bound={}, source=("a",), ordinal=2), 1_000.0) == []
    chain.pass_on(chain.publisher.heartbeat(12.345))
    marks = [item.time for item in served.deliveries if isinstance(item, Watermark)]
    assert marks == [0.0, 1.0, 12.345]


def test_forwarded_audits_measure_the_error_of_both_streams():
    chain = Chain(ROOMS, Demand(tolerance={"t": 0.5}, predictor="last"), audit_every=1)
    served = chain.open(project(ROOMS, {"x"}), Demand(tolerance={"t": 0.3}, predictor="last"))
    for k, t in enumerate((20.0, 20.4, 20.8, 20.7), start=1):
        chain.publish(room(k, t=t))
    audits = [item for item in served.deliveries if isinstance(item, Audit)]
    assert [audit.ordinal for audit in audits] == [1, 2, 3, 4]
    assert audits[1].errors["t"] == 0.4
    assert audits[0].exacts == {"time": 1000, "t": 200, "on": True, "note": ""}
    assert {audit.bound["t"] for audit in audits} == {0.8}
    assert all(audit.errors["t"] <= 0.8 for audit in audits)
    assert served.link.audit(("nobody",), {}) == []


def test_decoded_values_are_flagged_only_if_the_true_value_is_out_of_range():
    chain = Chain(ROOMS, Demand(tolerance={"t": 0.5}, predictor="last"), max_silence=1e9)
    served = chain.open(ROOMS, Demand(tolerance={"t": 0.3}, mode="hold", changes=True))
    for k, t in enumerate((20.0, 49.9, 49.8, 50.2, 50.0, 49.9, 50.0), start=1):
        chain.publish(room(k, t=t))
    chain.finish()
    upstream = [event["t"] for event in chain.decoder.current_events()]
    assert upstream[0] > 50
    assert [event.flags for event in served.events if event.flags] == [("t",)]
    assert [event.ordinal for event in served.events if event.flags] == [4]
    assert sum(not event.virtual for event in served.events) == 3


def test_a_channel_is_reconfigured_without_a_gap():
    chain = Chain(ROOMS, Demand(tolerance={"t": 0.5}))
    served = chain.open(ROOMS, Demand(tolerance={"t": 0.5}))
    for k in range(1, 40):
        chain.publish(room(k, t=20 + (k * 7 % 11) / 10))
    config = StreamConfig(version=2, demand=Demand(tolerance={"t": 0.1}))
    chain.pass_on(chain.publisher.reconfigure(config, chain.now))
    served.take(
        served.link.reconfigure(StreamConfig(version=2, demand=Demand(tolerance={"t": 0.9})), 0, over=chain.rules)
    )
    for k in range(40, 80):
        chain.publish(room(k, t=20 + (k * 7 % 11) / 10))
    chain.finish()
    assert [event.ordinal for event in served.events] == list(range(1, 80))
    assert {event.bound["t"] for event in served.events} == {1.0}
    for event in served.events:
        assert abs(event["t"] - (20 + (event.ordinal * 7 % 11) / 10)) <= 1.0 + 1e-9


def test_adopting_respects_the_source_limit():
    chain = Chain(ROOMS, Demand())
    for name in "abc":
        chain.publish(room(1, id=name))
    link = StreamEncoder(ROOMS, StreamConfig(max_sources=2), over=chain.rules, validated=True)
    with pytest.raises(TooManySources):
        link.adopt(chain.decoder.decoder_state)
    link.adopt(chain.decoder.decoder_state, lambda source: source != ("b",))
    assert link.frame_encoder.reducer.keys == [("a",), ("c",)]
    with pytest.raises(ValueError, match="already has sources"):
        link.adopt(chain.decoder.decoder_state)


def test_an_adopted_approximated_source_stays_approximated():
    chain = Chain(ROOMS, Demand())
    chain.publish(room(1, t=20.04))
    served = chain.open(ROOMS, Demand())
    (event,) = served.events
    assert (event["t"], set(event.bound.values())) == (20.0, {None})
    chain.publish(room(2, t=20.1))
    assert served.events[-1].bound["t"] == 0


def test_rules_over_thinned_out_events_are_rejected():
    for demand in (Demand(min_interval=5), Demand(mode="hold", changes=True)):
        with pytest.raises(DemandError, match="thinned"):
            resolve(ROOMS, Demand(), over=resolve(ROOMS, demand))


@pytest.mark.parametrize("payload", [[1, [2.5, None]], 3, "3", None, {"k": []}, b"\x00"])
def test_an_audit_compares_opaque_values(payload):
    schema = Schema("s", [Property("id", "string", "dimension"), Property("o", "opaque")])
    chain = Chain(schema, Demand(), audit_every=1)
    served = chain.open(schema, Demand())
    chain.publish({"id": "a", "o": payload})
    (audit,) = (item for item in served.deliveries if isinstance(item, Audit))
    assert audit.errors == {"o": 0}
