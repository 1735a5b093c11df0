"""The building's plants at work: blocks of events, several plants side by side.

Batches and single events tell the same truth, memory holds one block of each plant, and a seed gives the same stream
on every machine: the random words are the raw output of PCG64, whose sequence NumPy promises not to change.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from thinwire.demo.building.building_stream_building_sensors import Sensors
from thinwire.demo.building.building_stream_turns import BLOCK, check_request, in_turn
from thinwire.demo.building.plant_model import run
from thinwire.demo.building.plant_model_building_state import CHANCES, DAY, Build, Luck, Status, first_state
from thinwire.demo.building.sensor_tags import ALARMS, CHILLER_MODES, PLANT_MODES, SENSORS, schema

_START = 1_530_507_600
"""2018-07-02T05:00:00Z: a summer morning, so that a short sample already sees the sun rise"""
_WORDS = CHANCES // 4


class Plant:
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
        self._sensors = Sensors()
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
    return in_turn([Plant(seed, first + k) for k in range(sources)], events)


def events(n: int, seed: int = 1, sources: int = 1, *, first: int = 0) -> Iterator[dict[str, Any]]:
    """The same events as dicts."""
    for batch in batches(n, seed, sources, first=first):
        yield from batch.to_pylist()


def _texts(members: tuple[str, ...], numbers: NDArray[np.float64]) -> pa.Array:
    return pa.DictionaryArray.from_arrays(numbers.astype(np.int8), list(members)).dictionary_decode()
