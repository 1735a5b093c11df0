"""Packed frames of an analysis against a publisher that packs them itself."""

from dataclasses import replace

import pyarrow as pa
import pytest

from thinwire.analysis import EXACT, EventClock, Strategy, Wanted, evaluate_together, grid, plan_of
from thinwire.analysis.analysis_run import one_by_one, staged
from thinwire.analysis.packed_frames import EXPIRES, SLOT, Packing, learn
from thinwire.analysis.publisher_run import TimedPublisher
from thinwire.analysis.report import AnalysisReport
from thinwire.analysis.work_folder import Stood, write_sorted
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
    return learn([batch(EVENTS[:450])], SCHEMA, JSON.link_config(SCHEMA, {}), EventClock(SCHEMA))


def really(events, packing, used):
    """The frames of a publisher that packs, and how many events a subscriber makes of them."""
    config, now = JSON.link_config(SCHEMA, {}), float(events[0]["time"])
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
    told = [delivery for frame in frames for delivery in subscriber.receive(frame, now=0.0)]
    return frames, sum(isinstance(one, dict) for one in told)


@pytest.mark.parametrize("packing", ["none", "deflate", "dictionary"])
def test_frames_are_as_long_as_those_of_a_publisher_that_packs(packing):
    used = dictionary() if packing == "dictionary" else None
    held_out = EVENTS[450:]
    pace, packed, made = TimedPublisher(SCHEMA, JSON.link_config(SCHEMA, {}), BEGIN + 450.0), Packing(packing, used), []
    rows = batch(held_out)
    for told in [pace.start(), *pace.publish(rows, EventClock(SCHEMA).read(rows))]:
        found = packed.packed(told)
        assert len(found.times) == len(found.frames)
        assert [found.frames[place][0] & 0x0F for place in found.alone] == [FrameKind.KEY] * len(found.alone)
        made += found.frames
    expected, events = really(held_out, packing, used)
    assert [frame[0] & 0x0F for frame in made] == [frame[0] & 0x0F for frame in expected]
    differing = [(one[0] & 0x0F, len(other) - len(one)) for one, other in zip(made, expected, strict=True)]
    assert {kind for kind, longer in differing if longer} <= {FrameKind.HEARTBEAT}, (
        "which tell how many frames there were"
    )
    assert max(longer for _, longer in differing) <= 1
    assert events == len(held_out)


def test_a_dictionary_saves_and_is_paid_for_once():
    used = dictionary()
    strategies = [replace(JSON, packing=packing) for packing in ("none", "deflate", "dictionary")]
    plain, deflated, packed = evaluate_together(
        [batch(EVENTS[450:])], SCHEMA, strategies, {}, timed=False, dictionary=used
    )
    assert packed.total.frame < deflated.total.frame <= plain.total.frame
    assert packed.total.data < plain.total.data / 2
    assert packed.start.dictionary > 0
    assert packed.running.dictionary == packed.end.dictionary == plain.total.dictionary == 0
    assert packed.total.link < plain.total.link
    assert all(one.kept for one in (plain, deflated, packed))
    nothing = evaluate_together([batch(EVENTS[450:])], SCHEMA, strategies[1:], {}, timed=False)
    assert nothing[0].total.frame == nothing[1].total.frame, "without a dictionary it is deflate"


def test_nothing_is_learnt_from_too_little():
    assert learn([batch(EVENTS[:5])], SCHEMA, JSON.link_config(SCHEMA, {}), EventClock(SCHEMA)) is None


def test_an_analysis_learns_from_the_first_part_and_plans_with_it(tmp_path):
    rows = [Stood(float(BEGIN + n), "doors.jsonl", n + 1, event) for n, event in enumerate(EVENTS)]
    write_sorted(tmp_path / "sorted", rows)
    strategies = grid([EXACT], (("json", "auto"),), (0.005,))
    wanted = Wanted("doors", strategies, schema=SCHEMA, chunk=200)
    report = staged(tmp_path, wanted, one_by_one)
    assert [one.name for one in report.judged] == [one.name for one in strategies]
    assert report.chosen.outcome.strategy.packing == "dictionary"
    assert report.chosen.outcome.publish_cpu is not None
    assert report.chosen.outcome.kept
    plan = plan_of(AnalysisReport([report]))
    assert plan.topic("doors").settings.dictionaries
