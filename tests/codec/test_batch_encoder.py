"""A batch gives the frames that publishing its rows one at a time gives."""

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from thinwire.codec import Demand, StreamConfig, StreamEncoder
from thinwire.codec.batch_encoder import publish_batch
from thinwire.demo import building
from thinwire.errors import EventRejected
from thinwire.schema import Property, Schema

SCHEMA = Schema(
    "machines",
    [
        Property("time", "timestamp", "header", form="iso:T3Z"),
        Property("site", "string", "dimension"),
        Property("unit", "integer", "dimension"),
        Property("level", "number", step="0.1", minimum=-50, maximum=50),
        Property("count", "integer"),
        Property("raw", "float"),
        Property("on", "boolean"),
        Property("state", "enum", members=("idle", "busy")),
    ],
)
TYPES = pa.schema(
    [
        ("time", pa.string()),
        ("site", pa.string()),
        ("unit", pa.int64()),
        ("level", pa.float64()),
        ("count", pa.int64()),
        ("raw", pa.float64()),
        ("on", pa.bool_()),
        ("state", pa.string()),
    ]
)
DEMANDS = [
    Demand(predictor="last"),
    Demand(predictor="auto", default_tolerance=0.5),
    Demand(predictor={"level": "trend", "count": "linear"}, tolerance={"level": 0.3}),
    Demand(mode="hold", tolerance={"level": 1, "count": 2}),
    Demand(mode="hold", tolerance={"level": 1, "count": 2}, changes=True),
]

# includes absent, off-grid, out-of-range, infinite and unwritable values
levels = st.sampled_from([1.0, 1.1, 1.2, 3.4, None, 0.05, 77.0, float("nan")])
events = st.fixed_dictionaries(
    {
        "site": st.sampled_from("ab"),
        "unit": st.integers(1, 2),
        "level": levels,
        "count": st.integers(-3, 3) | st.none(),
        "raw": st.sampled_from([0.5, 0.25, 1e300, -0.0]),
        "on": st.booleans(),
        "state": st.sampled_from(["idle", "busy", "broken", None]),
    }
)
jitters = st.integers(0, 40)


def timed(rows: list[dict], jitter: list[int]) -> list[dict]:
    stamps = (f"2026-01-23T11:{n // 60:02d}:{n % 60:02d}.{late:03d}Z" for n, late in enumerate(jitter))
    return [{"time": stamp, **row} for stamp, row in zip(stamps, rows, strict=True)]


def publish_rows(publisher: StreamEncoder, rows: list[dict]) -> tuple[list[bytes], list[int]]:
    frames, refused = [], []
    for number, row in enumerate(rows):
        try:
            frames += publisher.publish(row, 1.0)
        except EventRejected:
            refused.append(number)
    return frames, refused


@pytest.mark.parametrize("demand", DEMANDS, ids=lambda d: str(d.predictor) + d.mode)
@given(rows=st.lists(st.tuples(events, jitters), min_size=1, max_size=60))
@settings(max_examples=40)
def test_a_batch_gives_the_frames_of_its_rows(demand, rows):
    rows = timed([row for row, _ in rows], [late for _, late in rows])
    singly, batched = (StreamEncoder(SCHEMA, StreamConfig(demand=demand)) for _ in range(2))
    assert singly.start(0.0) == batched.start(0.0)
    frames, refused = publish_rows(singly, rows)
    half = len(rows) // 2
    table = pa.RecordBatch.from_pylist(rows, schema=TYPES)
    first, second = (publish_batch(batched, part, 1.0) for part in (table.slice(0, half), table.slice(half)))
    assert first.frames + second.frames == frames
    assert [row for row, _ in first.rejected] + [half + row for row, _ in second.rejected] == refused
    assert batched.counts == singly.counts
    assert batched.suppressed_values == singly.suppressed_values


@pytest.mark.parametrize("tolerance", [0, 1.0])
def test_building_events_in_batches_give_the_frames_of_their_rows(tolerance):
    config = StreamConfig(demand=Demand(default_tolerance=tolerance))
    singly, batched = StreamEncoder(building.schema(), config), StreamEncoder(building.schema(), config)
    frames = singly.start(0.0)
    for event in building.events(3_000, sources=3):
        frames += singly.publish(event, 1.0)
    batch_frames = batched.start(0.0)
    for batch in building.batches(3_000, sources=3):
        batch_frames += publish_batch(batched, batch, 1.0).frames
    assert batch_frames == frames


def test_rows_of_a_column_with_another_type_are_rejected():
    publisher = StreamEncoder(SCHEMA, StreamConfig(demand=DEMANDS[0]))
    publisher.start(0.0)
    row = {"site": "a", "unit": 1, "level": "warm", "count": 1, "raw": 0.5, "on": True, "state": "idle"}
    batch = pa.RecordBatch.from_pylist(timed([row, row], [0, 1]))
    done = publish_batch(publisher, batch, 1.0)
    assert done.frames == []
    assert [(number, problem.property) for number, problem in done.rejected] == [(0, "level"), (1, "level")]


def test_batches_with_audits_or_json_are_published_row_by_row():
    for config in (StreamConfig(demand=DEMANDS[0], audit_every=2), StreamConfig(demand=DEMANDS[0], format="json")):
        singly, batched = StreamEncoder(building.schema(), config), StreamEncoder(building.schema(), config)
        frames = [frame for event in building.events(50) for frame in singly.publish(event, 1.0)]
        batch_frames = [frame for batch in building.batches(50) for frame in publish_batch(batched, batch, 1.0).frames]
        assert batch_frames == frames
