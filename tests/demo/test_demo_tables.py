"""The table of the demonstration: which files count, and what makes it differ from a subscriber's events."""

import asyncio
import json
import os

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import thinwire as tw
from thinwire.demo import building
from thinwire.demo.demo_scenario import GUESTS, TOPIC, PlantEvents
from thinwire.demo.spark_table import (
    COLUMNS,
    SINK_LOG,
    STARTS,
    Ingest,
    LandedTable,
    as_rows,
    differing,
    read_subscriber_events,
)

PUBLISHED = 40


async def _heard(default_tolerance):
    async with tw.connect(f"memory://audit-{default_tolerance}") as bus:
        await bus.register(building.schema(), retain=True)
        async with bus.subscribe(TOPIC, default_tolerance=default_tolerance), bus.publisher(TOPIC, name="p") as out:
            plants = [PlantEvents(0), PlantEvents(1)]
            for ordinal in range(1, PUBLISHED + 1):
                for plant in plants:
                    await out.publish(plant.event(ordinal))
            await out.flush()
            last = {plant.name: PUBLISHED for plant in plants} | {PlantEvents(2).name: 0}
            return await read_subscriber_events(bus, last, 30.0)


@pytest.fixture(scope="module")
def heard():
    return asyncio.run(_heard(1.0))


def changed(rows, name, values):
    field = COLUMNS.field(name)
    return rows.set_column(COLUMNS.get_field_index(name), field, pa.array(values, field.type))


def test_a_subscriber_from_the_beginning_is_handed_everything(heard):
    assert heard.schema == COLUMNS
    assert heard.num_rows == 2 * PUBLISHED
    assert heard["_virtual"].to_pylist().count(True) > 0
    assert max(bound["hot_tank_1"] for bound in heard["_bound"].to_pylist()) > 0


def test_the_order_of_rows_is_nothing_that_differs(heard):
    assert differing(heard.sort_by([("_ordinal", "descending")]), heard) == 0


def test_rows_left_out_and_rows_that_come_twice_differ(heard):
    assert differing(heard.slice(3), heard) == 3
    assert differing(pa.concat_tables([heard, heard.slice(0, 2)]), heard) == 2
    assert differing(COLUMNS.empty_table(), heard) == heard.num_rows


def test_a_row_differs_by_its_last_bit_a_bound_or_a_null(heard):
    tank, bounds = heard["hot_tank_1"].to_pylist(), heard["_bound"].to_pylist()
    bit = [tank[0] * (1 + 2**-52), *tank[1:]]
    assert differing(changed(heard, "hot_tank_1", bit), heard) == 1
    assert differing(changed(heard, "hot_tank_1", [*tank[:-2], None, None]), heard) == 2
    wider = [bounds[0] | {"hot_tank_1": 7.0}, *bounds[1:]]
    assert differing(changed(heard, "_bound", wider), heard) == 1
    both = changed(changed(heard, "hot_tank_1", bit), "_bound", wider)
    assert differing(both, heard) == 1


def test_no_events_are_no_rows():
    assert as_rows([]).equals(COLUMNS.empty_table())


def test_only_files_that_the_log_has_are_of_the_table(tmp_path, heard):
    table = LandedTable(tmp_path / "a table")
    table.look()
    assert (table.rows, table.stored_bytes, table.read(COLUMNS).num_rows) == (0, 0, 0)
    folder = table.place / f"topic={TOPIC}" / "date=2018-07-02"
    log = table.place / SINK_LOG
    folder.mkdir(parents=True)
    log.mkdir()
    parts = [folder / f"part-{number}.parquet" for number in range(3)]
    for number, part in enumerate(parts):
        pq.write_table(heard.slice(20 * number, 20), part)
    (log / "0").write_text(_log(parts[0]))
    table.look()
    assert table.rows == 20
    (log / "1.compact").write_text(_log(*parts[:2]))
    (log / ".2.tmp").write_text(_log(*parts))
    table.look()
    assert (table.files, table.rows) == (set(parts[:2]), 40)
    assert table.stored_bytes == sum(part.stat().st_size for part in parts[:2])
    assert differing(table.read(COLUMNS), heard.slice(0, 40)) == 0


def _log(*files):
    return "\n".join(["v1", *(json.dumps({"path": file.as_uri(), "action": "add"}) for file in files)])


@pytest.mark.slow
def test_a_job_that_cannot_run_is_given_up_and_its_last_words_told(tmp_path, monkeypatch):
    """Spark or not: nobody listens at this address."""
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    said, left = asyncio.run(_given_up())
    assert f"ended {STARTS} times by itself" in said
    assert "thinwire:" in said
    assert not os.path.exists(left)


async def _given_up():
    async with Ingest("nats://127.0.0.1:1", GUESTS[0]) as ingest:
        await ingest.land(1, 100.0, asyncio.Event())
        assert await ingest.look() == 0
        return ingest.problem, ingest.table.place.parent
