"""The building: how the generator compares with the original, then what our frames make of it. It illustrates.

How the generated building compares with the original, of which only sizes were published.

The original stream of about a million events took 885 MB as JSON, 390 gzipped event by event, 392 as Avro and 505 as
Thrift, and sending only what changed took less than a tenth of the JSON. The generator was set to these figures, then
frozen, before any codec of this project saw it: names, steps, noise and plant are constants and stay what they are.

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
from thinwire_lab.bench.benchmark import Bar, Row, Setting, Unit
from thinwire_lab.streams.checked_stream import CheckedLink, seconds_of
from thinwire_lab.streams.formats import FORMATS

CLOSE = 0.05
"""how far from a published size the generated one may be"""

_PUBLISHED = {
    "json": ("JSON", 885.0),
    "gzip-json": ("gzip of each JSON", 390.0),
    "avro": ("Avro", 392.0),
    "thrift": ("Thrift", 505.0),
}


@dataclass(frozen=True)
class CalibrationRow:
    """One line of the calibration.

    what, unit: what was measured, per event where it is a size
    published: the figure of the original, where there is one
    low, high: the limits it was calibrated to; None where it is only reported
    """

    what: str
    measured: float
    unit: str
    published: float | None = None
    low: float | None = None
    high: float | None = None

    @property
    def within(self) -> bool:
        """Is the figure inside its limits?"""
        return (self.low is None or self.low <= self.measured) and (self.high is None or self.measured <= self.high)


def compare_with_original(events: int = 20_000, seed: int = 1) -> list[CalibrationRow]:
    """The sizes of the building's events, averaged over `events`, beside those of the original.

    Partial JSON is an object of the properties whose value differs from the event before, first event in full; the
    timestamp always differs. A million events take some minutes, nearly all of it gzip and Avro.
    """
    if events < 2:
        raise ConfigError("changes need two events at least", field="events", value=events, lowest=2)
    totals = _totals(building_events(events, seed))
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
    return CalibrationRow(what, measured, "bytes", published, published * (1 - CLOSE), published * (1 + CLOSE))


def _totals(events: Iterable[Mapping[str, Any]]) -> Counter[str]:
    building = schema()
    header = {p.name for p in building if p.role is Role.HEADER}
    totals: Counter[str] = Counter()
    before: Mapping[str, Any] = {}
    for event in events:
        for name in _PUBLISHED:
            totals[name] += len(FORMATS[name].encode(event, building))
        partial = {name: value for name, value in event.items() if name not in before or before[name] != value}
        totals["partial"] += len(FORMATS["json"].encode(partial, building))
        if before:
            values = len(partial.keys() - header)
            totals["values"] += values
            totals["changed"] += values > 0
        before = event
    return totals


_UNITS: dict[str, Unit] = {"bytes": "bytes", "ratio": "part", "share": "share"}

LINKS = {
    "building, exact, compact: frames to JSON": (StreamConfig(), 1 / 30),
    "building, exact, json: frames to JSON": (StreamConfig(format="json"), 1 / 10),
    "building, within 1.0, compact: frames to JSON": (StreamConfig(demand=Demand(default_tolerance=1.0)), 1 / 60),
}
"""row -> the link and its bar"""


def calibration(setting: Setting) -> Iterator[Row]:
    """Is the generated building what it claims to be? Frozen before any codec was measured on it."""
    events = setting.size(100_000, 20_000)
    for row in compare_with_original(events):
        how = f"{events:,} events" + (f", original {row.published:g}" if row.published else "")
        yield Row(f"building, {row.what}", _UNITS[row.unit], row.measured, row.low, row.high, how)


def frames(setting: Setting) -> Iterator[Row]:
    """Three links carry the same events side by side."""
    # a small run is one whole day: by day more happens than at night
    total = setting.size(1_000_000, 86_400)
    schema = building.schema()
    seconds = seconds_of(schema)
    links: dict[str, CheckedLink] = {}
    raw = 0
    for done, event in enumerate(building.events(total)):
        now = seconds(event)
        links = links or {name: CheckedLink(schema, config, start=now) for name, (config, _) in LINKS.items()}
        raw += len(references.compact_json(event))
        for link in links.values():
            link.publish(event, now)
        if not done % 1000:
            setting.progress(done / total)
    for name, link in links.items():
        link.close()
        yield _row(name, link, raw)


def _row(name: str, link: CheckedLink, raw: int) -> Row:
    counts, checker = link.counts, link.checker
    how = f"{counts.events:,} events, {counts.frame_bytes / counts.events:.2f} bytes each"
    how += f" against {raw / counts.events:.1f}, largest error {100 * checker.worst:.0f} % of its bound"
    how += f"; auto switched {link.switches:,} times"
    note = "" if checker.is_guarantee_met else f"promise broken: {checker.first_breach or 'events are missing'}"
    return Row(
        name, "part", counts.frame_bytes / raw, high=LINKS[name][1], how=how, note=note, sound=checker.is_guarantee_met
    )


BARS = [Bar("building calibration", calibration), Bar("building frames", frames)]
