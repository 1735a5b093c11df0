"""Training of models for edge functions: messages of an edge topic as a Parquet table, and a model from that table.

`append_messages` writes new messages to new files. A file is named after its first and last offset, so the next call
continues after the last stored message.
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
from thinwire.edge import EdgeMessage, read_edge
from thinwire.edge.edge_documents import edge_log, edge_subject
from thinwire.errors import ConfigError

COLUMNS = pa.schema([("offset", pa.int64()), ("due", pa.float64()), ("id", pa.string()), ("body", pa.binary())])
MAX_ROWS = 50_000
"""rows of one file, at most"""
READ_TIMEOUT = 10.0

Trainer = Callable[[DataFrame], Any]
"""makes a model of the table: bytes, text, or a JSON value"""


async def append_messages(broker: Broker, topic: str, folder: Path) -> int:
    """Append the messages after the last stored one, up to the current end of the log. Return their number."""
    folder.mkdir(parents=True, exist_ok=True)
    await broker.ensure_log(edge_log(topic), [edge_subject(topic)])
    first, last, count = last_stored(folder) + 1, (await broker.span(edge_log(topic))).last, 0
    if last < first:
        return 0
    rows: list[tuple[int, EdgeMessage]] = []
    async for offset, message in read_edge(broker, topic, first=first, timeout=READ_TIMEOUT):
        rows.append((offset, message))
        count += 1
        if len(rows) == MAX_ROWS or offset >= last:
            _write(folder, rows)
            rows = []
        if offset >= last:
            break
    _write(folder, rows)
    return count


def last_stored(folder: Path) -> int:
    """Return the last offset of the table, 0 for an empty one."""
    return max((int(part.stem.rpartition("-")[2]) for part in folder.glob("part-*-*.parquet")), default=0)


def train_model(spark: SparkSession, folder: Path, trainer: Trainer) -> bytes:
    """Return the model that `trainer` makes of the table, as bytes."""
    if not last_stored(folder):
        raise ConfigError("the table has no rows yet", field="table", value=str(folder))
    model = trainer(spark.read.parquet(str(folder)))
    if isinstance(model, bytes):
        return model
    if isinstance(model, str):
        return model.encode()
    try:
        return json.dumps(model, allow_nan=False).encode()
    except (TypeError, ValueError) as problem:
        raise ConfigError(
            f"a model is bytes, text or JSON: {problem}", field="model", value=type(model).__name__
        ) from None


def _write(folder: Path, rows: Sequence[tuple[int, EdgeMessage]]) -> None:
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
    unfinished.replace(path)  # atomic: a reader never sees an incomplete file
