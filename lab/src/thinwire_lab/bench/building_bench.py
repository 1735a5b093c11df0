"""Benchmarks of the generated building: calibration against the original, and the size of its frames.

The original stream of about a million events took 885 MB as JSON, 390 gzipped event by event, 392 as Avro and 505 as
Thrift; sending only changed values took less than a tenth of the JSON. The generator was calibrated to these sizes
before any codec of this project was measured on it, and is frozen: names, steps, noise and plant are constants.

>>> [row.what for row in compare_with_original(100, seed=1) if row.published]
['JSON', 'gzip of each JSON', 'Avro', 'Thrift']
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from thinwire.analysis import json_baseline as references
from thinwire.codec import Demand, StreamConfig
from thinwire.demo import building
from thinwire.demo.building import schema
from thinwire.demo.building.building_stream import events as building_events
from thinwire.errors import ConfigError
from thinwire.schema import Role
from thinwire_lab.bench.benchmark import Benchmark, Row, Setting, Unit
from thinwire_lab.streams.checked_stream import CheckedLink, seconds_of
from thinwire_lab.streams.formats import FORMATS

MAX_DEVIATION = 0.05
"""of a generated size from the published one"""

_PUBLISHED = {
    "json": ("JSON", 885.0),
    "gzip-json": ("gzip of each JSON", 390.0),
    "avro": ("Avro", 392.0),
    "thrift": ("Thrift", 505.0),
}


@dataclass(frozen=True)
class CalibrationRow:
    """One line of the calibration.

    what, unit: what was measured; sizes are per event
    published: the size of the original, if there is one
    low, high: the limits of the calibration; None if the value is only reported
    """

    what: str
    measured: float
    unit: str
    published: float | None = None
    low: float | None = None
    high: float | None = None

    @property
    def within(self) -> bool:
        """Whether the value is within its limits."""
        return (self.low is None or self.low <= self.measured) and (self.high is None or self.measured <= self.high)


def compare_with_original(events: int = 20_000, seed: int = 1) -> list[CalibrationRow]:
    """Return the mean sizes of the building's events and those of the original.

    Partial JSON has the properties whose value differs from the previous event; the timestamp always differs. A million
    events take some minutes, nearly all of it for gzip and Avro.
    """
    if events < 2:
        raise ConfigError("at least two events are needed", field="events", value=events, lowest=2)
    totals = _sum_sizes(building_events(events, seed))
    sizes = [_size_row(name, totals[name] / events) for name in _PUBLISHED]
    measurements = sum(p.role is Role.MEASUREMENT for p in schema())
    return [
        *sizes,
        CalibrationRow("partial JSON, only what changed", totals["partial"] / events, "bytes"),
        CalibrationRow("partial JSON to JSON", totals["partial"] / totals["json"], "ratio", low=1 / 14, high=1 / 10),
        CalibrationRow("measured values that changed", totals["values"] / (events - 1) / measurements, "share"),
        CalibrationRow("events in which any changed", totals["changed"] / (events - 1), "share"),
    ]


def _size_row(name: str, measured: float) -> CalibrationRow:
    what, published = _PUBLISHED[name]
    return CalibrationRow(
        what, measured, "bytes", published, published * (1 - MAX_DEVIATION), published * (1 + MAX_DEVIATION)
    )


def _sum_sizes(events: Iterable[Mapping[str, Any]]) -> Counter[str]:
    building = schema()
    header = {p.name for p in building if p.role is Role.HEADER}
    totals: Counter[str] = Counter()
    previous: Mapping[str, Any] = {}
    for event in events:
        for name in _PUBLISHED:
            totals[name] += len(FORMATS[name].encode(event, building))
        partial = {name: value for name, value in event.items() if name not in previous or previous[name] != value}
        totals["partial"] += len(FORMATS["json"].encode(partial, building))
        if previous:
            values = len(partial.keys() - header)
            totals["values"] += values
            totals["changed"] += values > 0
        previous = event
    return totals


_UNITS: dict[str, Unit] = {"bytes": "bytes", "ratio": "part", "share": "share"}

STREAMS = {
    "building, exact, compact: frames to JSON": (StreamConfig(), 1 / 30),
    "building, exact, json: frames to JSON": (StreamConfig(format="json"), 1 / 10),
    "building, within 1.0, compact: frames to JSON": (StreamConfig(demand=Demand(default_tolerance=1.0)), 1 / 60),
}
"""row -> settings of the stream and the required part of JSON"""


def calibration(setting: Setting) -> Iterator[Row]:
    """Compare the sizes of generated events with the published ones."""
    events = setting.size(100_000, 20_000)
    for row in compare_with_original(events):
        how = f"{events:,} events" + (f", original {row.published:g}" if row.published else "")
        yield Row(f"building, {row.what}", _UNITS[row.unit], row.measured, row.low, row.high, how)


def frames(setting: Setting) -> Iterator[Row]:
    """Encode the same events as three streams."""
    # a small run is one complete day, because more values change by day than at night
    total = setting.size(1_000_000, 86_400)
    schema = building.schema()
    seconds = seconds_of(schema)
    streams: dict[str, CheckedLink] = {}
    raw = 0
    for done, event in enumerate(building.events(total)):
        now = seconds(event)
        streams = streams or {name: CheckedLink(schema, config, start=now) for name, (config, _) in STREAMS.items()}
        raw += len(references.compact_json(event))
        for stream in streams.values():
            stream.publish(event, now)
        if not done % 1000:
            setting.progress(done / total)
    for name, stream in streams.items():
        stream.close()
        yield _row(name, stream, raw)


def _row(name: str, stream: CheckedLink, raw: int) -> Row:
    counts, checker = stream.counts, stream.checker
    how = f"{counts.events:,} events, {counts.frame_bytes / counts.events:.2f} bytes each"
    how += f" against {raw / counts.events:.1f}, largest error {100 * checker.worst:.0f} % of its bound"
    how += f"; auto switched {stream.switches:,} times"
    return Row(name, "part", counts.frame_bytes / raw, high=STREAMS[name][1], how=how, invalid=stream.breach)


BENCHMARKS = [Benchmark("building calibration", calibration), Benchmark("building frames", frames)]
