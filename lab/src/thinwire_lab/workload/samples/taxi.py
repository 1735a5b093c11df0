"""The taxi sample: taxis that report their position once per second, in regions of 500 m by 500 m.

Taxis drive along the streets of a grid to a destination, wait, and drive to the next one. Destinations are more
frequent in the centre, so that few regions are busy. A region has two topics: positions of its taxis on `gps`, and
fares for them on `update`. Positions are integer metres and all arithmetic is integer arithmetic, so a seed gives the
same stream on each machine.

>>> first, second = events(2, seed=1, sources=2)
>>> first["timestamp"], first["taxi"], second["taxi"]
('2018-07-02T05:00:00.000Z', 'taxi-00001', 'taxi-00002')
>>> round(sum(regions(sources=50, seconds=10, seed=1).values()))
50
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from thinwire.errors import ConfigError
from thinwire.schema import Kind, Property, Role, Schema

REGIONS = 24
"""regions along each side of the city"""
REGION = 500
"""metres along each side of a region"""
SIDE = REGIONS * REGION
BLOCK = 100
"""metres between two streets"""

SOUTH, WEST = 40_700_000, -74_020_000
"""the south-west corner, in millionths of a degree"""
NORTHWARD, EASTWARD = 9, 12
"""millionths of a degree per metre, approximately"""


def region_name(column: int, row: int) -> str:
    """Return the name of a region.

    >>> region_name(3, 11)
    'region-03-11'
    """
    return f"region-{column:02d}-{row:02d}"


def topic_names(region: str) -> tuple[str, str]:
    """Return the two topics of a region: positions of its taxis, and fares for them.

    >>> topic_names("region-03-11")
    ('taxi.region-03-11.gps', 'taxi.region-03-11.update')
    """
    return f"taxi.{region}.gps", f"taxi.{region}.update"


def schema() -> Schema:
    """Return the schema of taxi events.

    >>> [p.name for p in schema()]
    ['timestamp', 'taxi', 'latitude', 'longitude', 'speed', 'occupied', 'region']
    """
    return Schema(
        "taxi.gps",
        [
            Property("timestamp", Kind.TIMESTAMP, Role.HEADER, form="iso:T3Z"),
            Property("taxi", Kind.STRING, Role.DIMENSION),
            Property("latitude", Kind.NUMBER, step="0.000001", minimum=-90, maximum=90),
            Property("longitude", Kind.NUMBER, step="0.000001", minimum=-180, maximum=180),
            Property("speed", Kind.NUMBER, step="1", minimum=0, maximum=200),
            Property("occupied", Kind.BOOLEAN),
            Property("region", Kind.STRING),
        ],
    )


MAX_SOURCES = 10_000
ROWS = 10_000
"""approximate rows per batch"""

_START = 1_530_507_600
"""2018-07-02T05:00:00Z"""
_WAIT = 90
"""maximum seconds between two fares"""

Metres = NDArray[np.int64]


class Fleet:
    """Taxis. The route of a taxi depends on its index and the seed, not on the number of taxis."""

    def __init__(self, seed: int, sources: int) -> None:
        self.sources = sources
        self._words = [np.random.PCG64(np.random.SeedSequence([seed, taxi])) for taxi in range(sources)]
        self._names = [f"taxi-{taxi + 1:05d}" for taxi in range(sources)]
        self._positions = self._draw_corners(np.arange(sources))
        self._destinations = self._positions.copy()
        self._waits = np.zeros(sources, np.int64)
        self._speed = np.zeros(sources, np.int64)
        self._occupied = np.zeros(sources, bool)
        self._second = 0

    def step(self) -> pa.RecordBatch:
        """Return the next second: one event per taxi."""
        self._drive()
        east, north = self._positions
        regions = [
            region_name(x, y) for x, y in zip((east // REGION).tolist(), (north // REGION).tolist(), strict=True)
        ]
        instant = np.datetime64((_START + self._second) * 1000, "ms")
        self._second += 1
        columns = [
            pa.repeat(str(np.datetime_as_string(instant, timezone="UTC")), self.sources),
            pa.array(self._names),
            pa.array((SOUTH + north * NORTHWARD) / 1_000_000),
            pa.array((WEST + east * EASTWARD) / 1_000_000),
            pa.array(self._speed * 18 // 5, pa.float64()),
            pa.array(self._occupied),
            pa.array(regions),
        ]
        return pa.RecordBatch.from_arrays(columns, names=[p.name for p in schema()])

    def _drive(self) -> None:
        """Move along one street, then along the other to the destination; then wait and draw a new destination."""
        arrived = (self._positions == self._destinations).all(axis=0)
        self._waits[arrived] -= 1
        ready = np.flatnonzero(arrived & (self._waits <= 0))
        if len(ready):
            self._destinations[:, ready] = self._draw_corners(ready)
            self._waits[ready] = self._draws(ready)[0] % _WAIT
            self._speed[ready] = 4 + self._draws(ready)[1] % 12
            self._occupied[ready] ^= True
        away = self._destinations - self._positions
        first = away[0] != 0
        moves = np.clip(away, -self._speed, self._speed)
        self._positions[0] += np.where(first, moves[0], 0)
        self._positions[1] += np.where(first, 0, moves[1])

    def _draw_corners(self, taxis: Metres) -> Metres:
        """Return a random street corner for each of these taxis. The sum of two numbers favours the centre."""
        a, b, c, d = self._draws(taxis)
        corners = SIDE // BLOCK // 2
        return np.stack((a % corners + b % corners, c % corners + d % corners)) * BLOCK

    def _draws(self, taxis: Metres) -> Metres:
        """Return four random numbers for each of these taxis."""
        words = np.array([self._words[taxi].random_raw() for taxi in taxis.tolist()], np.uint64)
        return words.astype("<u8").view("<u2").reshape(-1, 4).astype(np.int64).T


def batches(events: int, seed: int = 1, sources: int = 100) -> Iterator[pa.RecordBatch]:
    """Return events of `sources` taxis in time order, as Arrow batches.

    >>> [batch.num_rows for batch in batches(250, seed=1, sources=100)]
    [250]
    """
    for name, value, lowest, highest in (("events", events, 0, math.inf), ("sources", sources, 1, MAX_SOURCES)):
        if not lowest <= value <= highest:
            raise ConfigError("out of range", field=name, value=value, lowest=lowest, highest=highest)
    return _blocks(Fleet(seed, sources), events)


def events(n: int, seed: int = 1, sources: int = 100) -> Iterator[dict[str, Any]]:
    """Yield the same events as dicts."""
    for batch in batches(n, seed, sources):
        yield from batch.to_pylist()


def regions(sources: int = 1000, seconds: int = 60, seed: int = 1) -> dict[str, float]:
    """Return messages per second of each region with messages: the rates of the gps topics."""
    counts: Counter[str] = Counter()
    for batch in batches(sources * seconds, seed, sources):
        counts.update(batch.column("region").to_pylist())
    return {region: count / seconds for region, count in sorted(counts.items())}


def _blocks(fleet: Fleet, events: int) -> Iterator[pa.RecordBatch]:
    rounds = max(1, ROWS // fleet.sources)
    while events > 0:
        table = pa.Table.from_batches([fleet.step() for _ in range(min(rounds, -(-events // fleet.sources)))])
        batch = table.slice(0, events).combine_chunks().to_batches()[0]
        yield batch
        events -= batch.num_rows
