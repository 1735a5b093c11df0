"""The benchmarks of Spark: equal events in all logs, equal references, and a valid quick run."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.errors import StreamingQueryException

from thinwire.codec import StreamDecoder
from thinwire.schema import Event
from thinwire.spark.reconstruction import fill_table
from thinwire.topics.names import publisher_in
from thinwire.wire import split
from thinwire_lab.bench.spark import process_usage as counting
from thinwire_lab.bench.spark.bench_site import (
    CYCLE_EVENTS,
    FRAMES,
    EncodedCounts,
    all_events,
    encode_frames,
    encode_json,
)
from thinwire_lab.bench.spark.process_usage import measure_usage, race
from thinwire_lab.bench.spark.reconstruction_bench import KEY, ORDER, VALUES, forward_fill, write_partials
from thinwire_lab.bench.spark.source_bench import SLOW_START, TRIES, run_stream
from thinwire_lab.live.live_feed import READINGS, TOLERANCE, feed_schema


def test_our_log_covers_every_event_with_half_a_frame() -> None:
    counts, links = EncodedCounts(), dict[str, StreamDecoder]()
    found: dict[tuple[Any, Any], Event] = {}
    messages = list(encode_frames(CYCLE_EVENTS, counts))
    for message in messages:
        name = publisher_in(message.subject)
        link = links.setdefault(name, StreamDecoder([feed_schema()], publisher=name))
        events = [one for one in link.receive(message.payload, now=0.0) if isinstance(one, Event)]
        found |= {(event["sensor"], event["time"]): event for event in events}
    true = list(all_events(CYCLE_EVENTS))
    assert counts == EncodedCounts(len(true), sum(len(split(m.payload)) for m in messages), len(messages))
    assert 0.5 <= counts.share < 0.52
    assert max(len(split(message.payload)) for message in messages) == FRAMES
    assert len(found) == len(true)
    for event in true:
        near = found[event["sensor"], event["time"]]
        assert all(abs(near[name] - event[name]) <= TOLERANCE + 1e-9 for name in READINGS)


@pytest.mark.parametrize("together", [1, 37])
def test_the_json_logs_hold_the_same_events(together: int) -> None:
    lines = [m.payload.decode().split("\n") for m in encode_json(2_000, "bench.json", together)]
    assert max(map(len, lines)) == together
    found = [json.loads(line) for message in lines for line in message]
    assert sorted(found, key=_place) == sorted(all_events(2_000), key=_place)


def _place(event: dict[str, Any]) -> tuple[Any, ...]:
    return event["time"], event["sensor"]


def test_the_references_fill_in_as_we_do(tmp_path: Path) -> None:
    write_partials(tmp_path, 4_000)
    table = pq.read_table(tmp_path)
    assert forward_fill(table, VALUES) == fill_table(table, source=[KEY], order=[ORDER], properties=VALUES)


def test_processor_time_of_children_that_have_ended_counts() -> None:
    work = "import time\nwhile time.process_time() < 0.3: pass"
    assert measure_usage(lambda: subprocess.run([sys.executable, "-c", work], check=True)).cpu > 0.25


def test_workers_without_a_waiting_parent_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counting, "SAMPLE_INTERVAL", 0.02)
    work = """
import os, signal, time
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
if os.fork():
    try:
        os.wait()
    except ChildProcessError:
        pass
else:
    while time.process_time() < 0.5: pass
"""
    usage = measure_usage(lambda: subprocess.run([sys.executable, "-c", work, counting.WORKER], check=True))
    assert usage.cpu > 0.3


def test_methods_take_turns() -> None:
    calls: list[str] = []
    methods = {"a": lambda: calls.append("a"), "b": lambda: calls.append("b")}
    found = race(methods, 2, lambda share: None)
    assert calls == ["a", "b", "b", "a", "a", "b"]
    assert [len(runs) for runs in found.values()] == [2, 2]


class LateStream:
    """A stream that fails `times` times before it starts."""

    def __init__(self, times: int, reason: str) -> None:
        self.times = times
        self.reason = reason
        self.begun = 0

    def start(self) -> LateStream:
        self.begun += 1
        return self

    def awaitTermination(self) -> None:
        if self.begun <= self.times:
            raise StreamingQueryException(self.reason)


@pytest.mark.parametrize(
    ("times", "reason", "begun"), [(2, SLOW_START, 3), (9, SLOW_START, TRIES), (9, "no such topic", 1)]
)
def test_only_a_stream_with_a_slow_start_is_started_again(times: int, reason: str, begun: int) -> None:
    stream = LateStream(times, reason)
    with pytest.raises(StreamingQueryException) if times == 9 else nullcontext():
        run_stream(stream, TRIES)
    assert stream.begun == begun


@pytest.mark.slow
def test_a_quick_run_is_sound() -> None:
    """In a process of its own, because a benchmark has its own session."""
    command = [sys.executable, "-m", "thinwire", "bench", "spark", "--quick", "--json", "--only", "source"]
    rows = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=False).stdout)["rows"]
    assert rows
    for row in rows:
        assert row["value"] > 0, row
        assert not row["note"], row
