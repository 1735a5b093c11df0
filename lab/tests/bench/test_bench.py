"""Benchmarks: rows that hold, do not hold or are not measured; the wire area at a small size."""

import json
import zlib
from itertools import pairwise

import pytest

from thinwire.analysis import json_baseline as references
from thinwire.codec import StreamDecoder, StreamEncoder
from thinwire.errors import ConfigError
from thinwire.schema import Event
from thinwire_lab.bench import AREAS, building_bench, find_benchmarks
from thinwire_lab.bench import stream_speed as memory
from thinwire_lab.bench import stream_speed as speed
from thinwire_lab.bench.benchmark import Benchmark, Row, Setting, run_benchmark, unmeasured
from thinwire_lab.bench.machine import this_machine
from thinwire_lab.streams import sensor_stream as stream


@pytest.mark.parametrize(
    ("row", "holds", "required"),
    [
        (Row("r", "part", 1 / 15, high=1 / 14), True, "at most 1/14"),
        (Row("r", "part", 1 / 13, high=1 / 14), False, "at most 1/14"),
        (Row("r", "values/s", 2e7, low=3e7), False, "at least 30,000,000"),
        (Row("r", "bytes", 400, low=370.5, high=409.5), True, "370 to 410"),
        (Row("r", "share", 0.5), None, ""),
        (Row("r", "part", None, high=0.1), None, "at most 1/10"),
        (Row("r", "part", 0.01, high=0.1, invalid="a fault"), False, "at most 1/10"),
    ],
)
def test_a_row_states_whether_it_holds(row, holds, required):
    assert row.holds is holds
    assert row.required == required


def test_an_error_in_a_benchmark_is_a_failed_row():
    def measure(setting):
        raise ZeroDivisionError("nothing happened")

    (row,) = run_benchmark(Benchmark("odd", measure), Setting())
    assert row.holds is False
    assert "ZeroDivisionError: nothing happened" in row.invalid


def test_unmeasured_rows_keep_their_required_result():
    (row,) = unmeasured([Row("r", "part", 0.5, high=0.1)])
    assert (row.value, row.holds, row.required) == (None, None, "at most 1/10")


def test_unknown_areas_are_refused():
    with pytest.raises(ConfigError, match="wire"):
        find_benchmarks("nowhere")


def test_every_benchmark_of_every_area_is_found():
    for area in AREAS:
        found = find_benchmarks(area)
        assert len({benchmark.name for benchmark in found}) == len(found) > 0


def test_the_machine_is_named():
    assert "cores" in this_machine()


def test_references_match_their_names():
    event = {"room": "11.1", "t": 20.5}
    assert speed.pack_json(event) == zlib.compress(json.dumps(event).encode(), 6, wbits=-15)
    assert speed.unpack_json(speed.pack_json(event)) == event
    assert references.compact_json(event) == b'{"room":"11.1","t":20.5}'


def test_the_fixed_stream_is_fixed_and_half_of_it_changes():
    schema, events = stream.sensor_events(4000, sources=10)
    assert stream.sensor_events(4000, sources=10)[1] == events
    assert len(schema.wire) == 10
    assert 0.4 < stream.changed_share(events, 10) < 0.6
    own = [event["time"] for event in events if event["machine"] == "m3"]
    assert all(980 <= later - earlier <= 1020 for earlier, later in pairwise(own))


def test_the_fixed_stream_lies_on_its_steps():
    schema, events = stream.sensor_events(200, sources=3)
    publisher, subscriber = StreamEncoder(schema, compiled=False), StreamDecoder([schema], compiled=False)
    frames = publisher.start(0.0) + [f for e in events for f in publisher.publish(e, 0.0)] + publisher.heartbeat(0.0)
    seen = [dict(d) for f in frames for d in subscriber.receive(f, now=0.0) if isinstance(d, Event)]
    assert seen == events


def test_times_are_ratios_of_both_methods(monkeypatch):
    monkeypatch.setattr(speed, "ROUNDS", 2)
    shares = []
    setting = Setting(quick=True, progress=shares.append)
    rows = [row for benchmark in speed.SPEED_BENCHMARKS for row in benchmark.measure(setting)]
    assert [row.unit for row in rows] == ["times"] * 4 + ["values/s"] * 4
    assert all(row.value > 0 for row in rows)
    beside = ("predictor trend", "batches of 1,000")
    assert all(bool(row.required) != any(part in row.name for part in beside) for row in rows)
    assert "switches" in rows[1].how
    assert shares[-1] == 1.0


def test_building_frames_are_checked_while_measured():
    class Small(Setting):
        def size(self, full, quick):
            return 300

    rows = list(building_bench.frames(Small()))
    assert [row.name for row in rows] == list(building_bench.STREAMS)
    assert all(not row.invalid and 0 < row.value < 1 for row in rows)
    calibration = list(building_bench.calibration(Small()))
    assert "original 885" in calibration[0].how


@pytest.mark.slow
def test_memory_is_measured_in_fresh_processes():
    (row,) = memory.many_sources(Setting(quick=True))
    assert row.holds
