"""The figures of a strategy against a sequential evaluation, event by event and frame by frame."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest

from thinwire.analysis import EXACT, Level, Strategy, evaluate
from thinwire.analysis.json_baseline import compact_json, measure_json, merge_baselines
from thinwire.analysis.message_batches import MessageBatcher, SocketByteCounter
from thinwire.analysis.property_cost import find_ranges
from thinwire.analysis.strategies import merge_outcomes
from thinwire.codec import StreamDecoder, StreamEncoder
from thinwire.errors import ConfigError
from thinwire.ledger import RowTally
from thinwire.schema import Event, Property, Schema
from thinwire.testing.guarantee_checker import GuaranteeChecker
from thinwire.wire import begins_round
from thinwire_lab.streams.sensor_stream import sensor_batch, sensor_schema

SCHEMA = sensor_schema()
WHOLE = sensor_batch(1_200, sources=6)
RANGES = find_ranges([WHOLE], SCHEMA)
HALF = Level("0.5 %", 0.005)
STARTING = 2
"""frames before the first event: a key frame and a heartbeat"""
BUSY = Strategy(HALF, linger=0.1, max_silence=5.0, key_frame_interval=40.0)


def batches(batch, size=250):
    return [batch.slice(at, size) for at in range(0, batch.num_rows, size)]


def run_event_by_event(batch, schema, strategy, ranges):
    """Publisher, frames, messages, subscriber and checker, one event at a time."""
    config = strategy.stream_config(schema, ranges)
    events = batch.to_pylist()
    now = events[0]["time"] / 1000
    publisher, subscriber = StreamEncoder(schema, config, now=now), StreamDecoder([schema])
    tally = RowTally("plain")
    checker = GuaranteeChecker(schema, config.demand, tally)
    frames = [(now, frame) for frame in publisher.start(now)]
    for event in events:
        now = max(now, event["time"] / 1000)
        while publisher.due <= now:
            due = publisher.due
            frames += [(due, frame) for frame in publisher.poll(due)]
        checker.sent(event)
        frames += [(now, frame) for frame in publisher.publish(event, now)]
    if publisher.has_unsent_suppressed:
        frames += [(now, frame) for frame in publisher.heartbeat(now)]
    for _, frame in frames:
        for delivery in subscriber.receive(frame, now=0.0):
            if isinstance(delivery, Event):
                checker.delivered(delivery)
    return frames, publisher, checker, tally.row()


@pytest.mark.parametrize("strategy", [BUSY, replace(BUSY, level=EXACT), replace(BUSY, format="json", linger=0.005)])
def test_every_byte_is_counted_once(strategy):
    frames, publisher, checker, row = run_event_by_event(WHOLE, SCHEMA, strategy, RANGES)
    found = evaluate(batches(WHOLE), SCHEMA, [strategy], RANGES)[0]
    counts, total = publisher.counts, found.total
    assert (total.data, total.key, total.control) == (counts.data_bytes, counts.key_bytes, counts.control_bytes)
    assert total.frame == sum(len(frame) for _, frame in frames)
    assert total.frames == len(frames)
    assert (found.events, found.rejected) == (WHOLE.num_rows, 0)
    assert found.suppressed_events == publisher.suppressed_events
    assert found.is_guarantee_met == checker.is_guarantee_met is True
    for name, error in row.errors.items():
        assert found.errors[name].worst == pytest.approx(error.worst)
        assert found.errors[name].ratios.count == WHOLE.num_rows


def test_messages_and_sockets_follow_from_the_frames():
    frames, *_ = run_event_by_event(WHOLE, SCHEMA, BUSY, RANGES)
    found = evaluate(batches(WHOLE), SCHEMA, [BUSY], RANGES)[0]
    # the frames of the start and of the end are sent in messages of their own
    batcher, sockets = MessageBatcher(BUSY.linger), SocketByteCounter.for_topic(SCHEMA.name)
    messages = []
    ending = len(frames) - found.end.frames
    for part in (frames[:STARTING], frames[STARTING:ending], frames[ending:]):
        round_starts = [index for index, (_, frame) in enumerate(part) if begins_round(frame)]
        batcher.put((time for time, _ in part), (len(frame) for _, frame in part), round_starts)
        messages += batcher.advance()
    assert found.total.messages == len(messages)
    assert found.total.message == sum(message.size for message in messages)
    assert found.total.link == sum(
        sockets.count_message(m.size, idle=m.idle, starts_round=m.starts_round) for m in messages
    )
    assert found.running.messages < found.running.frames


def test_strategies_that_share_frames_share_a_run():
    swift, slow = replace(BUSY, linger=0.0), replace(BUSY, linger=1.0)
    one, other = evaluate(batches(WHOLE), SCHEMA, [swift, slow], RANGES)
    assert one.total.frame == other.total.frame
    assert one.total.messages > other.total.messages
    assert one.total.link > other.total.link
    assert replace(one, publish_cpu=None, receive_cpu=None) == replace(
        evaluate(batches(WHOLE), SCHEMA, [swift], RANGES)[0], publish_cpu=None, receive_cpu=None
    )
    with pytest.raises(ConfigError, match="same frames"):
        evaluate([WHOLE], SCHEMA, [swift, replace(slow, format="json")], RANGES)


def test_segments_add_up_to_the_complete_stream():
    complete = evaluate([WHOLE], SCHEMA, [BUSY], RANGES)[0]
    cuts = [0, 400, 700, WHOLE.num_rows]
    parts = [
        evaluate(
            [WHOLE.slice(a, b - a)],
            SCHEMA,
            [BUSY],
            RANGES,
            warm_up=[WHOLE.slice(0, a)] if a else [],
            stream_begin=complete.begin,
        )[0]
        for a, b in pairwise(cuts)
    ]
    [merged] = merge_outcomes(reversed(parts))
    for name in ("data", "key", "control", "frames"):
        assert getattr(merged.running, name) == getattr(complete.running, name), name
    assert (merged.start, merged.end.frame) == (complete.start, complete.end.frame)
    assert merged.errors == complete.errors
    assert (merged.events, merged.seconds, merged.is_guarantee_met) == (complete.events, complete.seconds, True)
    assert merged.running.messages <= complete.running.messages + len(parts)


def test_a_short_warm_up_gives_similar_figures():
    complete = evaluate([WHOLE], SCHEMA, [BUSY], RANGES)[0]
    first = evaluate([WHOLE.slice(0, 600)], SCHEMA, [BUSY], RANGES)
    second = evaluate(
        [WHOLE.slice(600)], SCHEMA, [BUSY], RANGES, warm_up=[WHOLE.slice(480, 120)], stream_begin=complete.begin
    )
    [merged] = merge_outcomes([*first, *second])
    assert merged.total.frame == pytest.approx(complete.total.frame, rel=0.02)


def test_rejected_events_are_counted_and_the_rest_is_evaluated():
    schema = Schema("rooms", [Property("room", "string", "dimension"), Property("time", "timestamp", "header", step=1)])
    column = pa.array(["a", None, "b"] * 50)
    batch = pa.RecordBatch.from_pydict({"room": column, "time": np.arange(150) + 1_700_000_000})
    [found] = evaluate([batch], schema, [Strategy()], {})
    assert (found.events, found.rejected, found.is_guarantee_met) == (100, 50, True)


def test_nothing_held_out_is_an_error():
    with pytest.raises(ConfigError, match="held-out part is empty"):
        evaluate([], SCHEMA, [BUSY], RANGES)


def test_json_baselines_have_the_bytes_of_compact_json():
    plain, batched = measure_json(batches(WHOLE), SCHEMA, [0.1])
    lines = [
        compact_json({name: int(v) if isinstance(v, float) and v.is_integer() else v for name, v in event.items()})
        for event in WHOLE.to_pylist()
    ]
    assert (plain.events, plain.messages, plain.raw) == (len(lines), len(lines), sum(map(len, lines)))
    assert plain.message == plain.raw
    sockets = SocketByteCounter.for_json(SCHEMA.name)
    assert plain.link == sum(sockets.count_message(len(line)) for line in lines)
    assert batched.message == plain.raw + len(lines) + batched.messages
    assert batched.messages < plain.messages
    assert batched.deflated_message < batched.message
    halves = [measure_json([part], SCHEMA, [0.1]) for part in (WHOLE.slice(0, 600), WHOLE.slice(600))]
    merged = {one.linger: one for half in [merge_baselines(one for half in halves for one in half)] for one in half}
    assert (merged[None].raw, merged[None].message) == (plain.raw, plain.message)
