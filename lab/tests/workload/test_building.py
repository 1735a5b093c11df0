"""The building keeps to its schema, its seed and its calibration."""

from __future__ import annotations

import hashlib
import json
from fractions import Fraction
from itertools import islice, pairwise

import numpy as np
import pyarrow as pa
import pytest

from thinwire.demo import building
from thinwire.errors import ConfigError
from thinwire.schema import Kind, Property
from thinwire.schema.timestamps import to_ticks
from thinwire_lab.bench.building_bench import CalibrationRow, compare_with_original

SAMPLE = 20_000


@pytest.fixture(scope="module")
def sample() -> pa.Table:
    return pa.Table.from_batches(building.batches(SAMPLE, seed=1))


@pytest.fixture(scope="module")
def days() -> pa.Table:
    return pa.Table.from_batches(building.batches(200_000, seed=1))


def test_calibration_is_near_on_a_short_sample() -> None:
    """A morning and a noon have slightly larger and more frequent changes than the full days that limits are for."""
    rows = compare_with_original(SAMPLE, seed=1)
    assert [row.published for row in rows[:4]] == [885, 390, 392, 505]
    assert [row for row in rows[:4] if abs(row.measured / row.published - 1) > 0.07] == []
    assert [row for row in rows[4:] if not row.within] == []


@pytest.mark.slow
def test_calibration_holds_over_a_day() -> None:
    assert [row for row in compare_with_original(86_400, 2) if not row.within] == []


def test_row_outside_its_limits_is_reported() -> None:
    assert not CalibrationRow("JSON", 930, "bytes", 885, 840, 929).within
    assert CalibrationRow("share", 930, "share").within


def test_calibration_counts_like_a_hand_count() -> None:
    events = list(building.events(50, seed=3))
    partials = [events[0]] + [{k: v for k, v in b.items() if a[k] != v} for a, b in pairwise(events)]
    written = sum(len(json.dumps(p, separators=(",", ":"))) for p in partials)
    rows = {row.what: row.measured for row in compare_with_original(50, seed=3)}
    assert rows["partial JSON, only what changed"] == pytest.approx(written / 50)
    changed = sum(len(p) - 1 for p in partials[1:])
    assert rows["measured values that changed"] == pytest.approx(changed / 49 / 37)


def test_the_stream_is_frozen() -> None:
    """Every figure printed so far rests on these bytes; a change here makes them incomparable."""
    text = "\n".join(json.dumps(event) for event in building.events(SAMPLE, seed=1))
    assert hashlib.sha256(text.encode()).hexdigest()[:16] == "d8d963c57528e010"


def test_columns_are_those_of_the_schema(sample: pa.Table) -> None:
    assert sample.column_names == [p.name for p in building.schema()]
    assert sample.num_rows == SAMPLE
    assert sum(column.null_count for column in sample.columns) == 0


@pytest.mark.parametrize("p", [p for p in building.schema() if p.kind is Kind.NUMBER], ids=lambda p: p.name)
def test_numbers_lie_on_their_grid_and_in_their_range(days: pa.Table, p: Property) -> None:
    values = days[p.name].unique().to_pylist()
    assert p.minimum <= min(values)
    assert max(values) <= p.maximum
    for value in values:
        assert (Fraction(repr(value)) / p.step).denominator == 1, value
        assert len(repr(value)) <= 8, value


def test_texts_are_declared(days: pa.Table) -> None:
    schema = building.schema()
    for name in ("plant_mode", "chiller_mode"):
        assert set(days[name].unique().to_pylist()) <= set(schema[name].members)
    assert len(days["alarm"].unique()) > 1


def test_timestamps_advance_with_jitter(sample: pa.Table) -> None:
    ticks = np.array([to_ticks(text, "iso:T3Z") for text in sample["timestamp"].to_pylist()])
    gaps = np.diff(ticks)
    assert gaps.min() >= 975
    assert gaps.max() <= 1025
    assert len(np.unique(gaps)) > 5


def test_the_plant_is_plausible(days: pa.Table) -> None:
    """Over two days the sun rises and sets, machines switch, rooms stay habitable and heat flows downhill."""
    column = {name: days[name].to_numpy() for name in days.column_names}
    assert column["solar_irradiance"].min() == 0
    assert column["solar_irradiance"].max() > 600
    assert 4 < np.count_nonzero(np.diff(column["solar_pump"].astype(int))) < 500
    assert len(set(column["chiller_mode"])) == 4
    assert column["room_temp_1"].min() > 18
    assert column["room_temp_1"].max() < 30
    assert np.all(np.diff(column["solar_energy"]) >= 0)
    running = column["chiller_power_out"] > 5
    assert np.mean((column["chiller_temp_5"] < column["cold_tank_2"])[running]) > 0.95


def test_at_a_tolerance_of_one_most_temperature_changes_vanish(days: pa.Table) -> None:
    exact = coarse = 0
    for name in (p.name for p in building.schema() if p.unit == "qudt:DEG_C"):
        values = days[name].to_numpy()
        exact += np.count_nonzero(np.diff(values))
        coarse += _sent(values.tolist(), 1.0)
    assert coarse < exact / 10


def _sent(values: list[float], tolerance: float) -> int:
    held, count = values[0], 1
    for value in values:
        if abs(value - held) > tolerance:
            held, count = value, count + 1
    return count


def test_events_and_batches_are_equal(sample: pa.Table) -> None:
    assert list(building.events(500, seed=1)) == sample.slice(0, 500).to_pylist()


def test_a_longer_stream_begins_like_a_shorter_one(sample: pa.Table) -> None:
    assert sample.slice(0, 12_345).equals(pa.Table.from_batches(building.batches(12_345, seed=1)))


def test_blocks_of_any_size_give_the_same_rows() -> None:
    complete, parts = building.BuildingPlant(seed=5), building.BuildingPlant(seed=5)
    rows = [row for size in (1, 7, 92) for row in parts.block(size).to_pylist()]
    assert rows == complete.block(100).to_pylist()


def test_seeds_and_sources_differ() -> None:
    streams = [building.BuildingPlant(1, 0), building.BuildingPlant(2, 0), building.BuildingPlant(1, 1)]
    heat = [stream.block(3000)["solar_temp_1"].to_pylist() for stream in streams]
    assert heat[0] != heat[1]
    assert heat[0] != heat[2]


def test_sources_take_turns_and_are_the_plants_themselves() -> None:
    mixed = list(building.events(30_003, seed=1, sources=3, first=4))
    names = [event["plant"] for event in mixed[:3]]
    assert names == [f"karlsruhe-solar-cooling-{k:02d}" for k in (5, 6, 7)]
    assert [event["plant"] for event in mixed] == names * 10_001
    assert mixed[1::3] == list(building.events(10_001, seed=1, first=5))


def test_memory_is_bounded_by_the_block() -> None:
    sizes = [batch.num_rows for batch in islice(building.batches(10**12, seed=1, sources=7), 2)]
    assert sizes == [9_996, 9_996]


def test_no_events() -> None:
    assert list(building.batches(0)) == []


@pytest.mark.parametrize(
    ("field", "arguments"),
    [
        ("events", {"events": -1}),
        ("sources", {"events": 1, "sources": 0}),
        ("sources", {"events": 1, "sources": 1001}),
        ("seed", {"events": 1, "seed": -1}),
        ("first", {"events": 1, "first": -1}),
    ],
)
def test_limits_are_named(field: str, arguments: dict[str, int]) -> None:
    with pytest.raises(ConfigError, match=field):
        building.batches(**arguments)
    with pytest.raises(ConfigError, match="events"):
        compare_with_original(1)
