"""The table of the demonstration: which files belong to it, and how it is compared with delivered events."""

import asyncio
import json
import os

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import thinwire as tw
from thinwire.brokers.proxy import Proxy
from thinwire.demo import building
from thinwire.demo.demo_scenario import TOPIC, PlantEvents
from thinwire.demo.spark_table import (
    COLUMNS,
    MAX_STARTS,
    SINK_LOG,
    SparkTable,
    as_table,
    committed_files,
    count_differences,
    read_events,
    read_table,
)

PUBLISHED = 40


async def _deliver(default_tolerance):
    async with tw.connect(f"memory://audit-{default_tolerance}") as bus:
        await bus.register(building.schema(), retain=True)
        async with bus.subscribe(TOPIC, default_tolerance=default_tolerance), bus.publisher(TOPIC, name="p") as out:
            plants = [PlantEvents(0), PlantEvents(1)]
            for ordinal in range(1, PUBLISHED + 1):
                for plant in plants:
                    await out.publish(plant.event(ordinal))
            await out.flush()
            last = {plant.name: PUBLISHED for plant in plants} | {PlantEvents(2).name: 0}
            return as_table(await read_events(bus, last, 30.0))


@pytest.fixture(scope="module")
def delivered():
    return asyncio.run(_deliver(1.0))


def changed(rows, name, values):
    field = COLUMNS.field(name)
    return rows.set_column(COLUMNS.get_field_index(name), field, pa.array(values, field.type))


def test_a_subscriber_from_the_start_gets_every_event(delivered):
    assert delivered.schema == COLUMNS
    assert delivered.num_rows == 2 * PUBLISHED
    assert delivered["_virtual"].to_pylist().count(True) > 0
    assert max(bound["hot_tank_1"] for bound in delivered["_bound"].to_pylist()) > 0


def test_the_order_of_rows_does_not_matter(delivered):
    assert count_differences(delivered.sort_by([("_ordinal", "descending")]), delivered) == 0


def test_missing_and_repeated_rows_are_differences(delivered):
    assert count_differences(delivered.slice(3), delivered) == 3
    assert count_differences(pa.concat_tables([delivered, delivered.slice(0, 2)]), delivered) == 2
    assert count_differences(COLUMNS.empty_table(), delivered) == delivered.num_rows


def test_a_row_differs_by_its_last_bit_a_bound_or_a_null(delivered):
    tank, bounds = delivered["hot_tank_1"].to_pylist(), delivered["_bound"].to_pylist()
    bit = [tank[0] * (1 + 2**-52), *tank[1:]]
    assert count_differences(changed(delivered, "hot_tank_1", bit), delivered) == 1
    assert count_differences(changed(delivered, "hot_tank_1", [*tank[:-2], None, None]), delivered) == 2
    wider = [bounds[0] | {"hot_tank_1": 7.0}, *bounds[1:]]
    assert count_differences(changed(delivered, "_bound", wider), delivered) == 1
    both = changed(changed(delivered, "hot_tank_1", bit), "_bound", wider)
    assert count_differences(both, delivered) == 1


def test_without_events_there_are_no_rows():
    assert as_table([]).equals(COLUMNS.empty_table())


def test_only_files_in_the_sink_log_belong_to_the_table(tmp_path, delivered):
    table = tmp_path / "a table"
    assert (committed_files(table), read_table(table).num_rows) == ([], 0)
    folder, log = table / f"topic={TOPIC}" / "date=2018-07-02", table / SINK_LOG
    folder.mkdir(parents=True)
    log.mkdir()
    parts = [folder / f"part-{number}.parquet" for number in range(3)]
    for number, part in enumerate(parts):
        pq.write_table(delivered.slice(20 * number, 20), part)
    (log / "0").write_text(_log(parts[0]))
    assert read_table(table).num_rows == 20
    (log / "1.compact").write_text(_log(*parts[:2]))
    (log / ".2.tmp").write_text(_log(*parts))
    assert committed_files(table) == parts[:2]
    assert count_differences(read_table(table), delivered.slice(0, 40)) == 0


def _log(*files):
    return "\n".join(["v1", *(json.dumps({"path": file.as_uri(), "action": "add"}) for file in files)])


@pytest.mark.slow
def test_a_job_that_cannot_run_is_given_up_with_the_end_of_its_output(tmp_path, monkeypatch):
    """With or without Spark: no broker listens at the address."""
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    problem, folder = asyncio.run(_give_up())
    assert f"ended {MAX_STARTS} times" in problem
    assert "thinwire:" in problem
    assert not os.path.exists(folder)


async def _give_up():
    proxy = Proxy("127.0.0.1", 1, port=1)  # not started
    async with tw.connect("memory://given-up") as bus, SparkTable("test", proxy, bus) as table:
        while not table.problem:
            assert (await table.view()).rows == 0
            await asyncio.sleep(0.1)
        return table.problem, table.table.parent
