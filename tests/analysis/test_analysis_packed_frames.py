"""Packed frames of an analysis against a publisher that packs them itself."""

from dataclasses import replace

import pyarrow as pa
import pytest

from thinwire.analysis import EXACT, AnalysisRequest, Strategy, analyze_sorted, evaluate, grid
from thinwire.analysis.event_columns import EventClock
from thinwire.analysis.event_files import RecordedEvent
from thinwire.analysis.publisher_run import EXPIRES, SLOT, FramePacking, TimedPublisher, train_dictionary
from thinwire.analysis.work_folder import WorkFolder, write_sorted
from thinwire.codec import StreamDecoder, StreamEncoder
from thinwire.schema import Property, Schema
from thinwire.wire import FrameKind

SCHEMA = Schema(
    "doors",
    [
        Property("time", "timestamp", "header", form="epoch"),
        Property("door", "string", "dimension"),
        Property("said", "string"),
        Property("n", "integer"),
    ],
)
BEGIN = 1_700_000_000
EVENTS = [
    {"time": BEGIN + n, "door": f"cold store {n % 3}", "said": f"opened by somebody who left it open, {n % 17}", "n": n}
    for n in range(900)
]
JSON = Strategy(EXACT, "json", max_silence=5.0, key_frame_interval=200.0)


def batch(events):
    return pa.RecordBatch.from_pylist(events)


def dictionary():
    return train_dictionary([batch(EVENTS[:450])], SCHEMA, JSON.stream_config(SCHEMA, {}), EventClock(SCHEMA))


def publish_packed(events, packing, used):
    """Return the frames of a publisher that packs, and the number of events decoded from them."""
    config, now = JSON.stream_config(SCHEMA, {}), float(events[0]["time"])
    publisher = StreamEncoder(SCHEMA, config, now=now)
    subscriber = StreamDecoder([SCHEMA], dictionaries=lambda hash: used)
    if packing != "none":
        publisher.await_dictionaries()
    if used is not None:
        publisher.use(used, SLOT, EXPIRES)
    frames = publisher.start(now)
    for event in events:
        while publisher.due <= event["time"]:
            frames += publisher.poll(publisher.due)
        frames += publisher.publish(event, event["time"])
    deliveries = [delivery for frame in frames for delivery in subscriber.receive(frame, now=0.0)]
    return frames, sum(isinstance(delivery, dict) for delivery in deliveries)


@pytest.mark.parametrize("packing", ["none", "deflate", "dictionary"])
def test_frames_are_as_long_as_those_of_a_publisher_that_packs(packing):
    used = dictionary() if packing == "dictionary" else None
    held_out = EVENTS[450:]
    publisher = TimedPublisher(SCHEMA, JSON.stream_config(SCHEMA, {}), BEGIN + 450.0)
    frame_packing, frames = FramePacking(packing, used), []
    rows = batch(held_out)
    for run in [publisher.start(), *publisher.publish(rows, EventClock(SCHEMA).read(rows))]:
        found = frame_packing.pack(run)
        assert len(found.times) == len(found.frames)
        assert {found.frames[index][0] & 0x0F for index in found.round_starts} <= {FrameKind.KEY}
        frames += found.frames
    expected, events = publish_packed(held_out, packing, used)
    assert [frame[0] & 0x0F for frame in frames] == [frame[0] & 0x0F for frame in expected]
    differing = [(one[0] & 0x0F, len(other) - len(one)) for one, other in zip(frames, expected, strict=True)]
    assert {kind for kind, longer in differing if longer} <= {FrameKind.HEARTBEAT}, (
        "heartbeats contain the number of frames"
    )
    assert max(longer for _, longer in differing) <= 1
    assert events == len(held_out)


def test_a_dictionary_saves_and_is_paid_for_once():
    used = dictionary()
    strategies = [replace(JSON, packing=packing) for packing in ("none", "deflate", "dictionary")]
    plain, deflated, packed = evaluate([batch(EVENTS[450:])], SCHEMA, strategies, {}, with_cpu=False, dictionary=used)
    assert packed.total.frame < deflated.total.frame <= plain.total.frame
    assert packed.total.data < plain.total.data / 2
    assert packed.start.dictionary > 0
    assert packed.running.dictionary == packed.end.dictionary == plain.total.dictionary == 0
    assert packed.total.link < plain.total.link
    assert all(one.is_guarantee_met for one in (plain, deflated, packed))
    nothing = evaluate([batch(EVENTS[450:])], SCHEMA, strategies[1:], {}, with_cpu=False)
    assert nothing[0].total.frame == nothing[1].total.frame, "without a dictionary it is deflate"


def test_too_few_events_train_no_dictionary():
    assert train_dictionary([batch(EVENTS[:5])], SCHEMA, JSON.stream_config(SCHEMA, {}), EventClock(SCHEMA)) is None


def test_a_dictionary_is_trained_on_the_training_part_if_the_first_chunk_has_no_rows(tmp_path, monkeypatch):
    monkeypatch.setattr("thinwire.analysis.analysis_run.TRAINING_EVENTS", 300)
    events = [event if not 450 <= n < 750 else {**event, "n": "many"} for n, event in enumerate(EVENTS)]
    rows = [RecordedEvent(float(BEGIN + n), "doors.jsonl", n + 1, event) for n, event in enumerate(events)]
    write_sorted(WorkFolder(tmp_path).sorted_folder, rows)
    strategies = [replace(JSON, packing="dictionary")]
    report = analyze_sorted(WorkFolder(tmp_path), AnalysisRequest("doors", strategies, schema=SCHEMA, chunk=300))
    assert (report.rejected, report.chosen.outcome.events) == (300, 150)
    assert report.chosen.outcome.start.dictionary > 0


def test_an_analysis_trains_on_the_first_part_and_plans_with_the_dictionary(tmp_path):
    rows = [RecordedEvent(float(BEGIN + n), "doors.jsonl", n + 1, event) for n, event in enumerate(EVENTS)]
    folder = WorkFolder(tmp_path)
    write_sorted(folder.sorted_folder, rows)
    strategies = grid([EXACT], (("json", "auto"),), (0.005,))
    report = analyze_sorted(folder, AnalysisRequest("doors", strategies, schema=SCHEMA, chunk=200))
    assert [one.name for one in report.strategies] == [one.name for one in strategies]
    assert report.chosen.outcome.strategy.packing == "dictionary"
    assert report.chosen.outcome.publish_cpu is not None
    assert report.chosen.outcome.is_guarantee_met
    assert report.to_plan().topic("doors").settings.dictionaries
