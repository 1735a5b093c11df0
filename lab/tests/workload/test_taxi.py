"""The taxi city keeps to its schema and its seed; the centre is busier than the outskirts."""

import numpy as np
import pyarrow as pa
import pytest

from thinwire.errors import ConfigError
from thinwire_lab.workload.samples import taxi


def table(events=3000, seed=1, sources=30):
    return pa.Table.from_batches(taxi.batches(events, seed, sources))


def test_a_seed_gives_one_stream():
    assert table(seed=3).equals(table(seed=3))
    assert not table(seed=3).equals(table(seed=4))


def test_a_longer_stream_begins_with_the_shorter_one():
    assert table(3000).slice(0, 700).equals(table(700).combine_chunks())


def test_a_taxi_does_not_care_how_many_there_are():
    few, many = table(200, sources=2).to_pylist(), table(1000, sources=10).to_pylist()
    assert few[::2] == many[::10]


def test_events_fit_the_schema():
    schema = taxi.schema()
    assert [p.name for p in schema] == table().column_names
    for event in taxi.events(40, sources=4):
        assert 0 <= event["speed"] <= 200
        assert event["latitude"] == round(event["latitude"], 6)


def test_taxis_drive_and_never_jump():
    rows = table(30 * 400, sources=30)
    north = np.array(rows["latitude"]).reshape(-1, 30) * 1e6 / 9
    east = np.array(rows["longitude"]).reshape(-1, 30) * 1e6 / 12
    steps = np.abs(np.diff(north, axis=0)) + np.abs(np.diff(east, axis=0))
    assert steps.max() <= 15.5
    assert (steps.max(axis=0) > 0).all()


def test_the_centre_is_busier():
    found = taxi.regions(sources=300, seconds=20)
    assert sum(found.values()) == pytest.approx(300)
    middle = sum(rate for name, rate in found.items() if all(8 <= int(part) < 16 for part in name.split("-")[1:]))
    assert middle > 300 * (8 / 24) ** 2 * 2


def test_limits_are_named():
    with pytest.raises(ConfigError, match="sources"):
        taxi.batches(1, sources=0)
    with pytest.raises(ConfigError, match="events"):
        taxi.batches(-1)
