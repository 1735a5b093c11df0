"""The stream of the speed benchmarks: ten properties on the wire, the time and the nine sensors of a machine.

`time` is in epoch milliseconds: one event per second and source, with up to 20 ms of jitter. `machine` is the
dimension. The nine numbers are random walks around a level, with steps of different sizes, so that about half of all
values change between two events. A seed gives the same stream on every machine.

>>> schema, events = sensor_events(3, sources=2)
>>> [p.name for p in schema][:3], len(schema.wire), [event["machine"] for event in events]
(['time', 'machine', 'flow'], 10, ['m0', 'm1', 'm0'])
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from thinwire.schema import Property, Schema

_START = 1_700_000_000_000


class SimulatedSensor(NamedTuple):
    """A sensor: name, decimals of its step, then level and standard deviation of a change, both in steps."""

    name: str
    decimals: int
    level: int
    deviation: float


SENSORS = (
    SimulatedSensor("flow", 2, 1250, 0.1),
    SimulatedSensor("inlet", 1, 215, 0.2),
    SimulatedSensor("outlet", 1, 436, 0.3),
    SimulatedSensor("pressure", 3, 2100, 0.5),
    SimulatedSensor("level", 1, 700, 0.7),
    SimulatedSensor("power", 2, 730, 1.0),
    SimulatedSensor("speed", 0, 1450, 1.5),
    SimulatedSensor("current", 3, 5320, 2.5),
    SimulatedSensor("vibration", 4, 312, 4.0),
)


def sensor_schema() -> Schema:
    """Return the schema of the stream."""
    numbers = [Property(s.name, "number", step=f"1e-{s.decimals}") for s in SENSORS]
    stamp = Property("time", "timestamp", "header", form="epoch", step=1)
    return Schema("bench.machines", [stamp, Property("machine", "string", "dimension"), *numbers])


def sensor_batch(events: int, sources: int = 10, seed: int = 7) -> pa.RecordBatch:
    """Return `events` events of the sources in turn, as columns."""
    rng = np.random.default_rng(seed)
    rounds = -(-events // sources)
    seconds = np.repeat(np.arange(rounds), sources)
    columns: dict[str, Any] = {
        "time": _START + seconds * 1000 + rng.integers(0, 20, rounds * sources),
        "machine": np.tile([f"m{k}" for k in range(sources)], rounds),
    }
    columns |= {s.name: _readings(s, rng, rounds, sources) for s in SENSORS}
    return pa.RecordBatch.from_pydict({name: column[:events] for name, column in columns.items()})


def sensor_events(events: int, sources: int = 10, seed: int = 7) -> tuple[Schema, list[dict[str, Any]]]:
    """Return the schema, and the events of `sensor_batch` as dicts."""
    return sensor_schema(), sensor_batch(events, sources, seed).to_pylist()


def changed_share(events: list[dict[str, Any]], sources: int) -> float:
    """Return the share of numbers that differ from those of the previous event of the source."""
    names = [s.name for s in SENSORS]
    pairs = list(zip(events, events[sources:], strict=False))
    return sum(bool(a[n] != b[n]) for a, b in pairs for n in names) / (len(pairs) * len(names))


def _readings(sensor: SimulatedSensor, rng: np.random.Generator, rounds: int, sources: int) -> NDArray[np.float64]:
    moves = rng.normal(0.0, sensor.deviation, (rounds, sources))
    paths = np.cumsum(moves, axis=0)
    # The mean of the last minutes is subtracted, so that the walk stays near the level.
    window = min(rounds, 300)
    sums = np.cumsum(paths, axis=0)
    sums[window:] = sums[window:] - sums[:-window]
    mean = sums / np.minimum(np.arange(1, rounds + 1), window)[:, None]
    ticks = np.rint(sensor.level + paths - mean)
    return np.asarray((ticks / 10**sensor.decimals).ravel(), dtype=np.float64)
