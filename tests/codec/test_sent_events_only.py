"""A decoder that leaves out suppressed events delivers the same sent events."""

import pytest
from event_strategies import histories
from hypothesis import given, settings
from hypothesis import strategies as st

from thinwire.codec import Demand, EventsMissed, State, StreamConfig, StreamDecoder, StreamEncoder
from thinwire.codec.row_snapshot import snapshot_row
from thinwire.schema import Event, Property, Schema

WAYS = pytest.mark.parametrize("compiled", [True, False], ids=["compiled", "plain"])
SCHEMA = Schema(
    "rooms",
    [
        Property("time", "timestamp", "header"),
        Property("id", "string", "dimension"),
        Property("t", "number", step="0.1", period=3),
        Property("n", "integer"),
        Property("on", "boolean"),
        Property("note", "string"),
    ],
)


def described(item):
    return (dict(item), item.identity, item.bound, item.virtual, item.flags) if isinstance(item, Event) else item


@WAYS
@settings(max_examples=25)
@given(data=st.data())
def test_sent_events_and_state_are_equal_without_suppressed_events(compiled, data):
    predictor = data.draw(st.sampled_from(["last", "linear", "trend", "auto", {"t": "seasonal"}]))
    demand = Demand(default_tolerance=data.draw(st.sampled_from([0, 2, 50])), predictor=predictor)
    writer = StreamEncoder(SCHEMA, StreamConfig(demand=demand, audit_every=5, max_silence=4), compiled=False)
    everything, sent_only = (
        StreamDecoder([SCHEMA], publisher="p", compiled=compiled, include_suppressed=wanted) for wanted in (True, False)
    )
    frames = writer.start(0)
    for now, event in enumerate(data.draw(histories(SCHEMA, max_size=40))):
        frames += writer.publish(event, now)
    frames += writer.heartbeat(100)
    every = [item for frame in frames for item in everything.receive(frame, now=0)]
    some = [item for frame in frames for item in sent_only.receive(frame, now=0)]
    wanted = [item for item in every if not isinstance(item, Event) or not item.virtual]
    assert [described(item) for item in some] == [described(item) for item in wanted]
    assert sent_only.counts.events == sum(isinstance(item, Event) for item in some)
    here, there = everything.decoder_state.expander, sent_only.decoder_state.expander
    for row in here.known():
        assert snapshot_row(here.table, row) == snapshot_row(there.table, row)
        assert here.table.ordinal(row) == there.table.ordinal(row)


@WAYS
def test_mark_lost_restarts_at_the_next_key_frame(compiled):
    writer = StreamEncoder(
        SCHEMA, StreamConfig(demand=Demand(predictor="last")), name="p", incarnation=4, compiled=False
    )
    reader = StreamDecoder([SCHEMA], publisher="p", compiled=compiled)
    event = {"time": 1, "id": "a", "t": 20.0, "n": 1, "on": True, "note": ""}
    seen = [item for frame in writer.start(0) + writer.publish(event, 0) for item in reader.receive(frame, now=0)]
    assert [item.identity for item in seen if isinstance(item, Event)] == [("p", 4, ("a",), 1)]
    assert reader.mark_lost("gap") == [EventsMissed("p", None, None, None, "gap")]
    assert reader.mark_lost("gap") == []
    assert reader.state is State.WAITING
    assert reader.counts.resyncs == 1
    assert len(reader.poll(1)) == 1
    (frame,) = writer.publish({**event, "n": 2}, 1)
    assert reader.receive(frame, now=1) == []
    (key,) = writer.start(2)
    (current,) = reader.receive(key, now=2)
    assert (current["n"], current.identity) == (2, ("p", 4, ("a",), 2))


@WAYS
def test_include_suppressed_may_change_at_any_time(compiled):
    schema = Schema("s", [Property("id", "string", "dimension"), Property("n", "integer")])
    writer = StreamEncoder(schema, StreamConfig(demand=Demand(predictor="linear"), max_silence=1e9), compiled=False)
    reader = StreamDecoder([schema], compiled=compiled)
    seen = []
    for wanted in (True, False, True, False):
        reader.include_suppressed = wanted
        frames = writer.start(0)
        for n in (0, 1, 2, 3, 9):
            frames += writer.publish({"id": "a", "n": n}, 0)
        frames += writer.heartbeat(1)
        found = [item for frame in frames for item in reader.receive(frame, now=0) if isinstance(item, Event)]
        seen.append({event.virtual for event in found})
    assert seen == [{False, True}, {False}, {False, True}, {False}]
