"""How the generated building compares with the original, of which only sizes were published.

The original stream of about a million events took 885 MB as JSON, 390 gzipped event by event, 392 as Avro and 505 as
Thrift, and sending only what changed took less than a tenth of the JSON. The generator was set to these figures, then
frozen, before any codec of this project saw it: names, steps, noise and plant are constants and stay what they are.

>>> [row.what for row in calibration(100, seed=1) if row.published]
['JSON', 'gzip of each JSON', 'Avro', 'Thrift']
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from thinwire.demo.building.building_stream import events as building_events
from thinwire.demo.building.sensor_tags import schema
from thinwire.errors import ConfigError
from thinwire.schema import Role
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
class Row:
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


def calibration(events: int = 20_000, seed: int = 1) -> list[Row]:
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
        Row("partial JSON, only what changed", totals["partial"] / events, "bytes"),
        Row("partial JSON to JSON", totals["partial"] / totals["json"], "ratio", low=1 / 14, high=1 / 10),
        Row("measured values that changed", totals["values"] / (events - 1) / measurements, "share"),
        Row("events in which any changed", totals["changed"] / (events - 1), "share"),
    ]


def _size_row(name: str, measured: float) -> Row:
    what, published = _PUBLISHED[name]
    return Row(what, measured, "bytes", published, published * (1 - CLOSE), published * (1 + CLOSE))


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
