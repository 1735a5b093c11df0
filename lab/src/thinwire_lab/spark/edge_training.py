"""Slow work for the edge: land what a topic says in a table, let Spark make a model of it for the topic's function.

Hosts of the edge have little time and little memory; statistics over days and training are for Spark. The stream is
landed as Parquet, a part a call, each named by the offsets in it, so that the next call goes on behind the last.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from thinwire.brokers.protocol import Broker
from thinwire.edge import Carried, read_edge
from thinwire.edge.edge_documents import edge_log, edge_subject
from thinwire.errors import ConfigError

COLUMNS = pa.schema([("offset", pa.int64()), ("due", pa.float64()), ("id", pa.string()), ("body", pa.binary())])
PART = 50_000
"""messages of a part, at most"""
PATIENCE = 10.0

Learning = Callable[[DataFrame], Any]
"""makes a model of a landed stream: bytes, text, or anything that JSON can say"""


async def land(broker: Broker, topic: str, folder: Path) -> int:
    """Add what has come since the last call to a table, up to what the log holds now; how many messages that were."""
    folder.mkdir(parents=True, exist_ok=True)
    await broker.open_log(edge_log(topic), [edge_subject(topic)])
    first, last, count = landed(folder) + 1, (await broker.span(edge_log(topic))).last, 0
    if last < first:
        return 0
    rows: list[tuple[int, Carried]] = []
    async for offset, message in read_edge(broker, topic, first=first, timeout=PATIENCE):
        rows.append((offset, message))
        count += 1
        if len(rows) == PART or offset >= last:
            _write(folder, rows)
            rows = []
        if offset >= last:
            break
    _write(folder, rows)
    return count


def landed(folder: Path) -> int:
    """The last offset that a table has; 0 where it has none."""
    return max((int(part.stem.rpartition("-")[2]) for part in folder.glob("part-*-*.parquet")), default=0)


def model_of(spark: SparkSession, folder: Path, learning: Learning) -> bytes:
    """The model that a function makes of the landed stream."""
    if not landed(folder):
        raise ConfigError("nothing has been landed yet", field="table", value=str(folder))
    made = learning(spark.read.parquet(str(folder)))
    if isinstance(made, bytes):
        return made
    if isinstance(made, str):
        return made.encode()
    try:
        return json.dumps(made, allow_nan=False).encode()
    except (TypeError, ValueError) as problem:
        raise ConfigError(
            f"a model is bytes, text or JSON: {problem}", field="model", value=type(made).__name__
        ) from None


def _write(folder: Path, rows: Sequence[tuple[int, Carried]]) -> None:
    """A part of the table; whoever reads sees all of it or nothing."""
    if not rows:
        return
    columns = [
        [offset for offset, _ in rows],
        [message.due for _, message in rows],
        [message.id for _, message in rows],
        [message.body for _, message in rows],
    ]
    table = pa.table(columns, schema=COLUMNS)
    path = folder / f"part-{rows[0][0]:012d}-{rows[-1][0]:012d}.parquet"
    unfinished = path.with_suffix(".unfinished")
    pq.write_table(table, unfinished)
    unfinished.replace(path)
