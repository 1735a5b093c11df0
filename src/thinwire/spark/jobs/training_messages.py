"""Training messages as rows: the content and the location of each message.

A message is a line of a text file, a row of a table (as compact JSON, or one column of it), or the body of a frame of a
topic log. Samples are drawn by location, so they do not depend on the number of tasks.

A packed frame refers to a slot, which is bound to a dictionary by the publisher's last binding before the frame. Parts
of a log are read concurrently, so all bindings are collected first and sent to every task.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from pathlib import PurePosixPath
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from thinwire.brokers.protocol import LogSource, run_inline
from thinwire.codec.dictionary_bindings import MIN_PACKED_BYTES
from thinwire.dictionaries import Codec, Dictionary, codec_of
from thinwire.errors import ConfigError, CorruptDictionary, PeerFault
from thinwire.schema.schema import PAYLOAD
from thinwire.spark.jobs.ingest import BY
from thinwire.spark.jobs.input_files import add_line_numbers, number_in_files, read_lines, report_missing_file
from thinwire.spark.jobs.time_columns import named, seconds_of
from thinwire.topics.dictionary_store import DictionaryStore
from thinwire.topics.frame_bodies import SAMPLED
from thinwire.topics.log_tables.source_broker import source_broker
from thinwire.topics.names import DICTIONARIES
from thinwire.wire import FrameKind, bindings_in, read
from thinwire.wire.frame import DEFLATE_SLOT, MAX_FRAME

_BODIES = "file string, block long, line long, message binary"
"""one row per frame: topic, index of the frame in its message, offset of the message, body"""
_LOCATION = ("_publisher", "_offset", "_frame")


class SlotBinding(NamedTuple):
    """After this frame of this message, a publisher's slot is bound to this dictionary."""

    publisher: str
    offset: int
    frame: int
    slot: int
    hash: bytes


class SlotHistory:
    """Bindings of all slots of all publishers over a log."""

    def __init__(self, bindings: Iterable[SlotBinding]) -> None:
        self._bindings: dict[tuple[str, int], list[tuple[int, int, bytes]]] = defaultdict(list)
        for publisher, offset, frame, slot, hash in sorted(bindings):
            self._bindings[publisher, slot].append((offset, frame, hash))

    def hash_before(self, publisher: str, slot: int, offset: int, frame: int) -> bytes | None:
        """Return the hash that a slot is bound to before this frame, or None.

        >>> slots = SlotHistory([SlotBinding("p", 3, 0, 7, b"old"), SlotBinding("p", 9, 2, 7, b"new")])
        >>> slots.hash_before("p", 7, 3, 0), slots.hash_before("p", 7, 9, 1), slots.hash_before("p", 7, 9, 3)
        (None, b'old', b'new')
        """
        known = self._bindings.get((publisher, slot), [])
        index = bisect_left(known, (offset, frame, b""))
        return known[index - 1][2] if index else None

    @property
    def hashes(self) -> set[bytes]:
        """Hashes of all bindings."""
        return {hash for known in self._bindings.values() for *_, hash in known}


def collect_bindings(frames: DataFrame) -> SlotHistory:
    """Return the bindings of a log read with `columns=frames`."""
    rows = _select_kinds(frames, [FrameKind.BINDING]).collect()
    return SlotHistory(
        SlotBinding(row["_publisher"], row["_offset"], row["_frame"], binding.slot, binding.hash)
        for row in rows
        for binding in bindings_in(bytes(row.payload))
    )


def load_dictionaries(source: LogSource, hashes: Iterable[bytes]) -> dict[bytes, Dictionary]:
    """Return the dictionaries with these hashes that the store has. Frames that need others are skipped."""
    found = {}
    store = DictionaryStore(run_inline(source_broker(source).bucket(DICTIONARIES)))
    for hash in hashes:
        try:
            dictionary = run_inline(store.get(hash))
        except CorruptDictionary:
            continue
        if dictionary is not None:
            found[hash] = dictionary
    return found


def frame_bodies(frames: DataFrame, topic: str, slots: SlotHistory, known: dict[bytes, Dictionary]) -> DataFrame:
    """Return the unpacked bodies that are long enough for a dictionary, with their location."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        codecs: dict[bytes | None, Codec] = {}

        def body(publisher: str, offset: int, index: int, raw: bytes) -> bytes | None:
            """Return the body of a frame; None if it is damaged or its dictionary is unknown."""
            try:
                frame = read(raw)
                if frame.slot is None or frame.slot == DEFLATE_SLOT:
                    return frame.body
                hash = slots.hash_before(publisher, frame.slot, offset, index)
                if hash not in codecs and hash in known:
                    codecs[hash] = codec_of(known[hash])
                return codecs[hash].unpack(frame.sent_body, MAX_FRAME) if hash in codecs else None
            except PeerFault:
                return None

        for batch in batches:
            rows = zip(*(column.to_pylist() for column in batch.columns), strict=True)
            column = pa.array([body(*row) for row in rows], pa.binary())
            arrays = [pa.repeat(topic, len(column)), batch.column(2).cast(pa.int64()), batch.column(1), column]
            messages = pa.RecordBatch.from_arrays(arrays, names=["file", "block", "line", "message"])
            yield messages.filter(pc.greater_equal(pc.binary_length(column), MIN_PACKED_BYTES))

    return _select_kinds(frames, SAMPLED).mapInArrow(run, _BODIES)


def _select_kinds(frames: DataFrame, kinds: Iterable[Any]) -> DataFrame:
    names = sorted(FrameKind(kind).name.lower() for kind in kinds)
    return frames.where(F.col("_kind").isin(names)).select(*_LOCATION, "payload")


MESSAGE_COLUMNS = ("seconds", "file", "line", "block", "message")
"""columns of a message: time, file or topic, location there, content; the first four are the order of messages"""
_LINES = "value binary, file string, block long, line long"


@dataclass(frozen=True)
class Sample:
    """Sampled messages in order. seen, bytes: number and size of all messages."""

    messages: Sequence[bytes]
    seen: int
    bytes: int


def load_messages(
    spark: SparkSession, paths: Sequence[str], *, column: str | None = None, time: str | None = None
) -> DataFrame:
    """Return the messages of files and tables. A path without a suffix is a folder of Parquet files.

    column, time: columns of tables with the message and its time
    """
    if not paths:
        raise ConfigError("name at least one file or table", paths=[])
    return reduce(DataFrame.union, [_read_path(spark, path, column, time) for path in paths])


def add_null_time(bodies: DataFrame) -> DataFrame:
    """Return messages with the columns MESSAGE_COLUMNS, without a time."""
    return bodies.withColumn("seconds", F.lit(None).cast("double")).select(*MESSAGE_COLUMNS)


def remove_properties(messages: DataFrame, hidden: Sequence[str]) -> DataFrame:
    """Remove properties from JSON messages. Other messages could contain them anywhere and are dropped."""
    names = frozenset(hidden)

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            kept = [_remove(text, names) for text in batch.column("message").to_pylist()]
            yield batch.set_column(batch.schema.get_field_index("message"), "message", pa.array(kept, pa.binary()))

    return messages.mapInArrow(run, messages.schema) if names else messages


def draw_sample(messages: DataFrame, *, seed: int, most: int, size: int) -> Sample:
    """Draw at most `most` messages, about `size` bytes together by their average size, independent of the number of
    tasks."""
    usable = messages.where(F.length("message").between(1, MAX_FRAME))
    total = usable.agg(F.count("*").alias("seen"), F.coalesce(F.sum(F.length("message")), F.lit(0)).alias("bytes"))
    [(seen, bytes_)] = total.collect()
    if not seen:
        return Sample([], 0, 0)
    count = max(1, min(most, size * seen // bytes_))
    location = (F.element_at(F.split("file", "/"), -1), F.col("line"), F.col("block"))
    rank = F.xxhash64(F.lit(seed), *location)
    rows = usable.orderBy(rank, *MESSAGE_COLUMNS[1:4]).limit(count).select(*MESSAGE_COLUMNS).collect()
    rows.sort(key=lambda row: (row.seconds is not None, row.seconds or 0.0, row.file, row.line, row.block))
    return Sample([bytes(row.message) for row in rows], seen, bytes_)


def _read_path(spark: SparkSession, path: str, column: str | None, time: str | None) -> DataFrame:
    name = PurePosixPath(path).name
    with report_missing_file(path):
        if "." not in name or name.endswith(".parquet"):
            return _read_table(spark.read.option("mergeSchema", "true").parquet(path), column, time)
        lines = read_lines(spark, path).mapInArrow(add_line_numbers, _LINES)
        return add_null_time(number_in_files(lines.withColumnRenamed("value", "message")))


def _read_table(rows: DataFrame, column: str | None, time: str | None) -> DataFrame:
    for name in (column, time):
        if name is not None and name not in rows.columns:
            raise ConfigError("the table has no such column", column=name, choose_from=rows.columns)
    file, row = F.col("_metadata.file_path").alias("file"), F.col("_metadata.row_index")
    is_log_table = "_offset" in rows.columns and "_ordinal" in rows.columns
    line, block = (F.col("_offset"), F.col("_ordinal")) if is_log_table else (row, F.lit(0))
    stamp = time or ("_time" if is_log_table else None)
    seconds = seconds_of(named(stamp), rows.schema[stamp].dataType) if stamp else F.lit(None).cast("double")
    columns = (seconds.alias("seconds"), file, line.cast("long").alias("line"), block.cast("long").alias("block"))
    return rows.select(*columns, _message(rows, column).cast("binary").alias("message"))


def _message(rows: DataFrame, column: str | None) -> Column:
    """Return the message column, or the row as JSON without metadata and partition columns."""
    if column is not None or PAYLOAD in rows.columns:
        return named(column or PAYLOAD)
    partitions = BY if "_topic" in rows.columns else ()
    names = [name for name in rows.columns if not name.startswith("_") and name not in partitions]
    return F.to_json(F.struct(*map(named, names)))


def _remove(message: bytes, hidden: frozenset[str]) -> bytes | None:
    try:
        event: Any = json.loads(message)
    except (ValueError, RecursionError):
        return None
    if not isinstance(event, dict):
        return None
    for path in hidden:
        _hide(event, path)
    return json.dumps(event, separators=(",", ":"), ensure_ascii=False).encode()


def _hide(event: dict[str, Any], path: str) -> None:
    """Remove a property by its dotted name."""
    event.pop(path, None)
    first, dot, rest = path.partition(".")
    if dot and isinstance(event.get(first), dict):
        _hide(event[first], rest)
