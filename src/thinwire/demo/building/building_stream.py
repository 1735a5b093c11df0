"""The building's plants at work: blocks of events, several plants side by side.

Batches and single events tell the same truth, memory holds one block of each plant, and a seed gives the same stream
on every machine: the random words are the raw output of PCG64, whose sequence NumPy promises not to change.

From what is so to what is reported: noise, steps, inertia of the display, and polling.

A reading is the true value plus a slowly wandering error. What is reported is a whole count of the sensor's step, and
stays as it is until the reading has left it by more than half a step and a margin; without the margin a value on the
edge between two steps would flicker. Meters on a bus report only when they are polled.

Several sources in one stream: they take turns, and memory holds one block of each.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
from numba import njit
from numpy.typing import NDArray

from thinwire.demo.building.plant_model import CHANCES, DAY, Build, Luck, Status, Vector, first_state, run
from thinwire.demo.building.sensor_tags import ALARMS, CHILLER_MODES, PLANT_MODES, SENSORS, schema
from thinwire.errors import ConfigError

Counts = NDArray[np.int64]

MARGIN = 0.3
"""fraction of a step by which a reading must pass the middle between two steps"""

STEPS = np.array([s.numerator / s.denominator for s in SENSORS])
NOISE = np.array([s.noise for s in SENSORS])
POLLS = np.array([s.poll for s in SENSORS])
LOWEST = np.array([int(s.minimum * s.denominator) // s.numerator for s in SENSORS])


class PlantSensors:
    """All sensors of one plant, with what they last reported.

    >>> sensors = PlantSensors()
    >>> still = np.full((3, len(SENSORS)), 21.04)
    >>> int(sensors.read(still, np.full(still.shape, 0.5), second=0)[2, 1])
    210
    """

    def __init__(self) -> None:
        self._wander = np.zeros(len(SENSORS))
        self._shown: Counts | None = None

    def read(self, signals: Vector, chances: Vector, second: int) -> Counts:
        """What is reported for each row of true values, in counts of each sensor's step."""
        if self._shown is None:
            self._shown = np.floor(signals[0, : len(SENSORS)] / STEPS + 0.5).astype(np.int64)
        ticks = np.empty((len(signals), len(SENSORS)), np.int64)
        _report(signals, chances, second, STEPS, NOISE, POLLS, LOWEST, self._wander, self._shown, ticks)
        return ticks


@njit(cache=True)
def _report(
    signals: Vector,
    chances: Vector,
    second: int,
    steps: Vector,
    noise: Vector,
    polls: Counts,
    lowest: Counts,
    wander: Vector,
    shown: Counts,
    ticks: Counts,
) -> None:
    for row in range(len(ticks)):
        for j in range(len(steps)):
            wander[j] += 0.1 * (2.0 * chances[row, j] - 1.0 - wander[j])
            # a sensor of something that stands still reads zero, and its noise with it
            error = noise[j] * wander[j] if signals[row, j] != 0.0 else 0.0
            if (second + row + j) % polls[j] == 0:
                counts = (signals[row, j] + error) / steps[j]
                if abs(counts - shown[j]) > 0.5 + MARGIN:
                    shown[j] = max(lowest[j], int(np.floor(counts + 0.5)))
            ticks[row, j] = shown[j]


BLOCK = 10_000
"""rows of a batch"""
MAX_SOURCES = 1_000


class Maker(Protocol):
    """Makes the events of one source."""

    def block(self, rows: int = BLOCK) -> pa.RecordBatch:
        """The next `rows` events."""


def in_turn(makers: Sequence[Maker], events: int) -> Iterator[pa.RecordBatch]:
    """So many events of all of them, one of each in turn, in batches."""
    rounds = max(1, BLOCK // len(makers))
    while events > 0:
        rows = rounds * len(makers)
        batch = _interleave([maker.block(rounds) for maker in makers])
        yield batch if rows <= events else batch.slice(0, events)
        events -= rows


def check(name: str, value: int, lowest: int, highest: int | None) -> None:
    """Refuse a number outside its limits."""
    if value < lowest or (highest is not None and value > highest):
        raise ConfigError("outside its limits", field=name, value=value, lowest=lowest, highest=highest)


def check_request(events: int, seed: int, sources: int, first: int) -> None:
    """Refuse a stream that nobody can make."""
    check("events", events, 0, None)
    check("sources", sources, 1, MAX_SOURCES)
    check("seed", seed, 0, None)
    check("first", first, 0, None)


def _interleave(blocks: list[pa.RecordBatch]) -> pa.RecordBatch:
    """First row of each, then second row of each, and so on."""
    if len(blocks) == 1:
        return blocks[0]
    order = np.arange(sum(b.num_rows for b in blocks)).reshape(len(blocks), -1).T.ravel()
    return pa.Table.from_batches(blocks).take(order).combine_chunks().to_batches()[0]


_START = 1_530_507_600
"""2018-07-02T05:00:00Z: a summer morning, so that a short sample already sees the sun rise"""
_WORDS = CHANCES // 4


class BuildingPlant:
    """One plant and its controller: what `source` selects.

    Plants differ in size, in their share of clouds, in what the sensors hear, and in the millisecond at which their
    controller samples.
    """

    def __init__(self, seed: int, source: int = 0) -> None:
        self.seed = seed
        self.source = source
        self.name = f"karlsruhe-solar-cooling-{source + 1:02d}"
        self.controller = f"{self.name}-controller"
        self._words = np.random.PCG64(np.random.SeedSequence([seed, source]))
        self._build = 0.9 + 0.2 * self._chances(1)[0, : len(Build)]
        self._state = first_state()
        self._sensors = PlantSensors()
        self._second = 0

    def block(self, rows: int = BLOCK) -> pa.RecordBatch:
        """The next `rows` events."""
        chances = self._chances(rows)
        truth = np.empty((rows, max(Status) + 1))
        clock = _START % DAY + self._second
        run(self._state, self._build, clock, chances, truth)
        ticks = self._sensors.read(truth, chances, clock)
        columns = [
            self._timestamps(chances[:, Luck.JITTER]),
            pa.repeat(self.name, rows),
            pa.repeat(self.controller, rows),
            *(pa.array(ticks[:, j] * s.numerator / s.denominator) for j, s in enumerate(SENSORS)),
            pa.array(truth[:, Status.SOLAR_PUMP] > 0),
            pa.array(truth[:, Status.TANK_HEATER] > 0),
            _texts(PLANT_MODES, truth[:, Status.PLANT_MODE]),
            _texts(CHILLER_MODES, truth[:, Status.CHILLER_MODE]),
            _texts(ALARMS, truth[:, Status.ALARM]),
        ]
        self._second += rows
        return pa.RecordBatch.from_arrays(columns, names=[p.name for p in schema()])

    def _chances(self, rows: int) -> NDArray[np.float64]:
        """For each row its random numbers in [0, 1), four from a word; a row's numbers do not depend on the block."""
        words = self._words.random_raw(rows * _WORDS).astype("<u8")
        return words.view("<u2").reshape(rows, CHANCES) / 65_536.0

    def _timestamps(self, chance: NDArray[np.float64]) -> pa.Array:
        """One a second, late by up to 24 ms, mostly by few."""
        late = np.floor(25.0 * chance * chance * chance).astype(np.int64)
        phase = self.source * 37 % 900
        instants = (_START + self._second + np.arange(len(chance))) * 1_000 + phase + late
        return pa.array(np.datetime_as_string(instants.astype("datetime64[ms]"), timezone="UTC"))


def batches(events: int, seed: int = 1, sources: int = 1, *, first: int = 0) -> Iterator[pa.RecordBatch]:
    """`events` events of `sources` plants, in the order in which they happen, as Arrow batches of at most 10,000 rows.

    Of several plants each reports once a second, in turn. `first` is the index of the first plant: publishers that
    have a plant each ask for `batches(n, seed, first=k)`.

    >>> [batch.num_rows for batch in batches(25_000, seed=1)]
    [10000, 10000, 5000]
    """
    check_request(events, seed, sources, first)
    return in_turn([BuildingPlant(seed, first + k) for k in range(sources)], events)


def events(n: int, seed: int = 1, sources: int = 1, *, first: int = 0) -> Iterator[dict[str, Any]]:
    """The same events as dicts."""
    for batch in batches(n, seed, sources, first=first):
        yield from batch.to_pylist()


def _texts(members: tuple[str, ...], numbers: NDArray[np.float64]) -> pa.Array:
    return pa.DictionaryArray.from_arrays(numbers.astype(np.int8), list(members)).dictionary_decode()
