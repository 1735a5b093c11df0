"""Benchmarks on real recordings: all bytes are counted, and every event is checked on arrival.

The baselines are compact JSON and the same with raw deflate (level 6) of each message. The size of thinwire is that of
all frames, including key frames, heartbeats and predictor switches, with default settings and a tolerance.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

from thinwire.analysis import json_baseline as references
from thinwire.codec import Counts, Demand, StreamConfig
from thinwire_lab.bench.benchmark import Benchmark, Row, Setting, unmeasured
from thinwire_lab.errors import MissingDataset
from thinwire_lab.streams import datasets
from thinwire_lab.streams.checked_stream import CheckedLink
from thinwire_lab.streams.datasets import Recording

SHARE = 0.005
"""the tolerance, as a share of each property's range"""
FREQUENT = StreamConfig(key_frame_interval=600.0, max_silence=10.0)
"""more frequent key frames and heartbeats, whose sizes are only reported"""


@dataclass(frozen=True)
class RecordingLimit:
    """One row of a recording: tolerance as a share of the range, the baseline, and the required part of it."""

    share: float
    baseline: str
    high: float


EXACT = RecordingLimit(0, "JSON+deflate", 1)
REQUIREMENTS: dict[str, tuple[RecordingLimit, ...]] = {
    "SKAB valves": (RecordingLimit(SHARE, "JSON+deflate", 1 / 14), EXACT),
    "library motes": (RecordingLimit(SHARE, "JSON+deflate", 1 / 10), EXACT),
    "bike share": (RecordingLimit(SHARE, "JSON+deflate", 1 / 10), EXACT, RecordingLimit(0, "JSON", 1 / 10)),
}
READERS: dict[str, Callable[[Path, bool], Recording]] = {
    "SKAB valves": lambda folder, quick: datasets.skab_valves(folder),
    "library motes": lambda folder, quick: datasets.motes(folder),
    "bike share": lambda folder, quick: datasets.bike_share(folder, 20_000 if quick else None),
}


@dataclass
class RecordingSize:
    """The bytes of an encoded recording, and the first fault on arrival."""

    events: int = 0
    data_bytes: int = 0
    key_bytes: int = 0
    control_bytes: int = 0
    switches: int = 0
    fault: str = ""

    @property
    def frame_bytes(self) -> int:
        return self.data_bytes + self.key_bytes + self.control_bytes

    def add(self, stream: CheckedLink) -> None:
        counts: Counts = stream.counts
        self.events += counts.events
        self.data_bytes += counts.data_bytes
        self.key_bytes += counts.key_bytes
        self.control_bytes += counts.control_bytes
        self.switches += stream.switches
        self.fault = self.fault or stream.breach


def encode(recording: Recording, config: StreamConfig) -> RecordingSize:
    """Encode each run of a recording as a stream, and check every event on arrival."""
    size = RecordingSize()
    for run in recording.runs:
        stream = CheckedLink(recording.schema, config, start=recording.seconds(run[0]))
        for event in run:
            stream.publish(event, recording.seconds(event))
        stream.close()
        size.add(stream)
    return size


def baselines(events: Iterable[Any]) -> dict[str, int]:
    """Return the bytes of the references."""
    sizes = {"JSON": 0, "JSON+deflate": 0}
    for event in events:
        text = references.compact_json(event)
        sizes["JSON"] += len(text)
        sizes["JSON+deflate"] += len(references.deflate(text))
    return sizes


def rows(name: str, limits: Sequence[RecordingLimit], read: Callable[[], Recording]) -> Iterator[Row]:
    """Return the rows of one recording. It is encoded once for each tolerance."""
    templates = [Row(_title(name, limit), "part", high=limit.high) for limit in limits]
    try:
        recording = read()
    except MissingDataset:
        yield from unmeasured(templates)
        return
    sizes = baselines(chain(*recording.runs))
    for config, own in ((StreamConfig(), templates), (FREQUENT, [_frequent_row(row) for row in templates])):
        encoded = {share: _encode_within(recording, share, config) for share in {limit.share for limit in limits}}
        for limit, row in zip(limits, own, strict=True):
            size, baseline = encoded[limit.share], sizes[limit.baseline]
            value, fault = size.frame_bytes / baseline, size.fault
            yield replace(row, value=value, how=_describe(size, baseline), invalid=fault)


def _encode_within(recording: Recording, share: float, config: StreamConfig) -> RecordingSize:
    tolerance = recording.tolerances(share) if share else {}
    return encode(recording, replace(config, demand=Demand(tolerance=tolerance)))


def _frequent_row(row: Row) -> Row:
    return Row(f"{row.name}; key frames every 600 s, heartbeats every 10 s", row.unit)


def _title(name: str, limit: RecordingLimit) -> str:
    tolerance = f"{100 * limit.share:g} % of range" if limit.share else "exact"
    return f"{name}, {tolerance}: frames to {limit.baseline}"


def _describe(size: RecordingSize, baseline: int) -> str:
    n = size.events
    parts = f"data {size.data_bytes / n:.2f} + key {size.key_bytes / n:.2f} + control {size.control_bytes / n:.2f}"
    each = f"{size.frame_bytes / n:.2f} bytes each ({parts}) against {baseline / n:.1f}"
    return f"{n:,} events, {each}; auto switched {size.switches:,} times"


def _measure(name: str, setting: Setting) -> Iterator[Row]:
    def read() -> Recording:
        if setting.data is None:
            raise MissingDataset(folder=None)
        return READERS[name](setting.data, setting.quick)

    return rows(name, REQUIREMENTS[name], read)


BENCHMARKS = [Benchmark(name, partial(_measure, name)) for name in REQUIREMENTS]
