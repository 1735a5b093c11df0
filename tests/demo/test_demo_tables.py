"""The table of the demonstration: which files belong to it, and how its events are counted."""

import asyncio
import json
import os

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from thinwire.brokers.proxy import Proxy
from thinwire.demo.demo_scenario import TOPIC
from thinwire.demo.spark_table import MAX_STARTS, SINK_LOG, committed_files, count_events, open_spark_table

ROWS = pa.table({"_source": ["a", "b"] * 30, "_ordinal": [number // 2 + 1 for number in range(60)], "t": [20.5] * 60})


def test_only_files_in_the_sink_log_belong_to_the_table(tmp_path):
    table = tmp_path / "a table"
    assert (committed_files(table), count_events(table)) == ([], 0)
    folder, log = table / f"topic={TOPIC}" / "date=2018-07-02", table / SINK_LOG
    folder.mkdir(parents=True)
    log.mkdir()
    parts = [folder / f"part-{number}.parquet" for number in range(3)]
    for number, part in enumerate(parts):
        pq.write_table(ROWS.slice(20 * number, 20), part)
    (log / "0").write_text(_log(parts[0]))
    assert count_events(table) == 20
    (log / "1.compact").write_text(_log(*parts[:2]))
    (log / ".2.tmp").write_text(_log(*parts))
    assert committed_files(table) == parts[:2]
    assert count_events(table) == 40


def test_a_repeated_row_is_no_further_event(tmp_path):
    log, part = tmp_path / SINK_LOG, tmp_path / "part.parquet"
    log.mkdir()
    pq.write_table(pa.concat_tables([ROWS, ROWS.slice(0, 5)]), part)
    (log / "0").write_text(_log(part))
    assert count_events(tmp_path) == 60


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
    async with open_spark_table("test", proxy) as table:
        while not table.problem:
            assert table.view().rows == 0
            await asyncio.sleep(0.1)
        return table.problem, table.table.parent
