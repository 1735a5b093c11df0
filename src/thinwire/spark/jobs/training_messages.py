"""Bodies of frames out of a topic's log: what its publishers pack, and what a dictionary for them must know.

A frame that is packed with a dictionary names a slot, and the slot means what its publisher's last binding before the
frame says. Parts of a log are read side by side, so the bindings are found first and go to every task.

Messages to train on, as rows: what a message says, and where it stood. A sample is drawn by place, so it does not
depend on how many tasks read them.

A message is a line of a text file; a row of a table, as compact JSON or one column of it; or, of a topic, the body of a
frame (`train_frames`).
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import PurePosixPath
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from thinwire.brokers.protocol import LogSource
from thinwire.codec.frame_encoder import WORTH_TRYING
from thinwire.dictionaries import Codec, Dictionary, codec_of
from thinwire.errors import ConfigError, CorruptDictionary, PeerFault
from thinwire.schema.schema import PAYLOAD
from thinwire.spark.jobs.analyze_input import LineLocation, numbered
from thinwire.spark.jobs.ingest import BY
from thinwire.spark.jobs.time_columns import named, seconds_of
from thinwire.topics.dictionary_store import SAMPLED, fetched
from thinwire.topics.names import DICTIONARIES
from thinwire.wire import FrameKind, bindings_in, read
from thinwire.wire.frame import DEFLATE_SLOT, MAX_FRAME

BODIES = "file string, block long, line long, message binary"
"""a row a frame: the topic, the place of the frame in its message, the offset of the message, and the body"""
_PLACE = ("_publisher", "_offset", "_frame")


class Bound(NamedTuple):
    """Behind this frame of this message, a publisher's slot names this dictionary."""

    publisher: str
    offset: int
    frame: int
    slot: int
    hash: bytes


class SlotHistory:
    """What every slot of every publisher names at every place of a log."""

    def __init__(self, bound: Iterable[Bound]) -> None:
        self._bound: dict[tuple[str, int], list[tuple[int, int, bytes]]] = defaultdict(list)
        for one in sorted(bound):
            self._bound[one.publisher, one.slot].append((one.offset, one.frame, one.hash))

    def named(self, publisher: str, slot: int, offset: int, frame: int) -> bytes | None:
        """The hash that a slot names before this frame; None where nothing is bound to it.

        >>> slots = SlotHistory([Bound("p", 3, 0, 7, b"old"), Bound("p", 9, 2, 7, b"new")])
        >>> slots.named("p", 7, 3, 0), slots.named("p", 7, 9, 1), slots.named("p", 7, 9, 3)
        (None, b'old', b'new')
        """
        known = self._bound.get((publisher, slot), [])
        place = bisect_left(known, (offset, frame, b""))
        return known[place - 1][2] if place else None

    @property
    def hashes(self) -> set[bytes]:
        """Everything that was ever bound."""
        return {hash for known in self._bound.values() for *_, hash in known}


def bindings_of(frames: DataFrame) -> SlotHistory:
    """The bindings of a log that was read with `columns=frames`."""
    rows = _of_kinds(frames, [FrameKind.BINDING]).collect()
    found = ((row, one) for row in rows for one in bindings_in(bytes(row.payload)))
    return SlotHistory(
        Bound(row["_publisher"], row["_offset"], row["_frame"], one.slot, one.hash) for row, one in found
    )


def known_of(source: LogSource, hashes: Iterable[bytes]) -> dict[bytes, Dictionary]:
    """The dictionaries of these hashes that the store has; frames that need others are not looked at."""
    found = {}
    for hash in hashes:
        try:
            dictionary = fetched(hash, partial(source.document, DICTIONARIES))
        except CorruptDictionary:
            continue
        if dictionary is not None:
            found[hash] = dictionary
    return found


def bodies_of(frames: DataFrame, topic: str, slots: SlotHistory, known: dict[bytes, Dictionary]) -> DataFrame:
    """The unpacked bodies that a publisher would try a dictionary on, each with its place."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        reader = _Reader(slots, known)
        for batch in batches:
            bodies = [reader.body(*row) for row in zip(*(column.to_pylist() for column in batch.columns), strict=True)]
            told = pa.array(bodies, pa.binary())
            arrays = [pa.repeat(topic, len(told)), batch.column(2).cast(pa.int64()), batch.column(1), told]
            made = pa.RecordBatch.from_arrays(arrays, names=["file", "block", "line", "message"])
            yield made.filter(told.is_valid())

    return _of_kinds(frames, SAMPLED).mapInArrow(run, BODIES)


class _Reader:
    """Unpacks frames that come in any order."""

    def __init__(self, slots: SlotHistory, known: dict[bytes, Dictionary]) -> None:
        self._slots = slots
        self._known = known
        self._codecs: dict[bytes, Codec] = {}

    def body(self, publisher: str, offset: int, place: int, raw: bytes) -> bytes | None:
        """The body; None where it is too short, or broken, which is a subscriber's to complain about."""
        try:
            frame = read(raw)
            if frame.slot is None or frame.slot == DEFLATE_SLOT:
                body = frame.body
            else:
                codec = self._codec(self._slots.named(publisher, frame.slot, offset, place))
                body = codec.unpack(frame.carried, MAX_FRAME) if codec is not None else b""
        except PeerFault:
            return None
        return body if len(body) >= WORTH_TRYING else None

    def _codec(self, hash: bytes | None) -> Codec | None:
        if hash is None or hash not in self._known:
            return None
        if hash not in self._codecs:
            self._codecs[hash] = codec_of(self._known[hash])
        return self._codecs[hash]


def _of_kinds(frames: DataFrame, kinds: Iterable[Any]) -> DataFrame:
    names = sorted(FrameKind(kind).name.lower() for kind in kinds)
    return frames.where(F.col("_kind").isin(names)).select(*_PLACE, "payload")


PLACED = ("seconds", "file", "line", "block", "message")
"""the columns of a message: when it was, the file or topic, where it stands there, and its bytes; sorted by the first
four, messages are in the order in which they were"""
_LINES = "file string, block long, line long, message binary"


@dataclass(frozen=True)
class Sample:
    """Messages in the order in which they were; seen, bytes: how many there are altogether, and how large."""

    messages: Sequence[bytes]
    seen: int
    bytes: int


def messages_in(
    spark: SparkSession, paths: Sequence[str], *, column: str | None = None, time: str | None = None
) -> DataFrame:
    """The messages of files and tables; a path without an ending is a folder of Parquet.

    column: of tables, the one that holds the message; time: the one that tells when it was
    """
    found = [_of_path(spark, path, column, time) for path in paths]
    if not found:
        raise ConfigError("name what to train from", paths=[])
    every = found[0]
    for one in found[1:]:
        every = every.union(one)
    return every


def placed(bodies: DataFrame) -> DataFrame:
    """Messages that tell no time of their own."""
    return bodies.withColumn("seconds", F.lit(None).cast("double")).select(*PLACED)


def without(messages: DataFrame, hidden: Sequence[str]) -> DataFrame:
    """JSON messages without these properties; what is no JSON object may hide them anywhere, and is left out."""
    names = frozenset(hidden)

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            shown = [_shown(text, names) for text in batch.column("message").to_pylist()]
            yield batch.set_column(batch.schema.get_field_index("message"), "message", pa.array(shown, pa.binary()))

    return messages.mapInArrow(run, messages.schema) if names else messages


def sampled(messages: DataFrame, *, seed: int, most: int, size: int) -> Sample:
    """At most so many messages of at most so many bytes together, the same ones whatever the number of tasks."""
    good = messages.where(F.length("message").between(1, MAX_FRAME))
    total = good.agg(F.count("*").alias("seen"), F.coalesce(F.sum(F.length("message")), F.lit(0)).alias("bytes"))
    [(seen, bytes_)] = total.collect()
    if not seen:
        return Sample([], 0, 0)
    wanted = max(1, min(most, size * seen // bytes_))
    place = (F.element_at(F.split("file", "/"), -1), F.col("line"), F.col("block"))
    drawn = F.xxhash64(F.lit(seed), *place)
    rows = good.orderBy(drawn, *PLACED[1:4]).limit(wanted).select(*PLACED).collect()
    rows.sort(key=lambda row: (row.seconds is not None, row.seconds or 0.0, row.file, row.line, row.block))
    return Sample([bytes(row.message) for row in rows], seen, bytes_)


def _of_path(spark: SparkSession, path: str, column: str | None, time: str | None) -> DataFrame:
    name = PurePosixPath(path).name
    table = "." not in name or name.endswith(".parquet")
    try:
        return (
            _of_table(spark.read.option("mergeSchema", "true").parquet(path), column, time)
            if table
            else _of_text(spark, path)
        )
    except AnalysisException as problem:
        if problem.getCondition() == "PATH_NOT_FOUND":
            raise ConfigError("there is no such file", path=path) from None
        raise ConfigError(f"this cannot be read: {str(problem).splitlines()[0]}", path=path) from None


def _of_text(spark: SparkSession, path: str) -> DataFrame:
    where = (F.col("_metadata.file_path").alias("file"), F.col("_metadata.file_block_start").alias("block"))
    lines = spark.read.text(path).select(F.col("value").cast("binary"), *where)
    return placed(numbered(lines.mapInArrow(_lines, _LINES)))


def _lines(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Every line with its number in the block that a task reads."""
    place = LineLocation("", 0, 0)
    for batch in batches:
        numbers = []
        for file, block in zip(batch.column(1).to_pylist(), batch.column(2).to_pylist(), strict=True):
            place = place.next(file, block)
            numbers.append(place.line)
        arrays = [batch.column(1), batch.column(2), pa.array(numbers, pa.int64()), batch.column(0)]
        yield pa.RecordBatch.from_arrays(arrays, names=["file", "block", "line", "message"])


def _of_table(rows: DataFrame, column: str | None, time: str | None) -> DataFrame:
    for name in (column, time):
        if name is not None and name not in rows.columns:
            raise ConfigError("the table has no such column", column=name, choose_from=rows.columns)
    file, row = F.col("_metadata.file_path").alias("file"), F.col("_metadata.row_index")
    landed = "_offset" in rows.columns and "_ordinal" in rows.columns
    line, block = (F.col("_offset"), F.col("_ordinal")) if landed else (row, F.lit(0))
    told = time or ("_time" if landed else None)
    seconds = seconds_of(named(told), rows.schema[told].dataType) if told else F.lit(None).cast("double")
    columns = (seconds.alias("seconds"), file, line.cast("long").alias("line"), block.cast("long").alias("block"))
    return rows.select(*columns, _message(rows, column).cast("binary").alias("message"))


def _message(rows: DataFrame, column: str | None) -> Column:
    """The column that holds the message, else the whole row as JSON but for what the table says about it."""
    if column is not None or PAYLOAD in rows.columns:
        return named(column or PAYLOAD)
    about = BY if "_topic" in rows.columns else ()
    names = [name for name in rows.columns if not name.startswith("_") and name not in about]
    return F.to_json(F.struct(*map(named, names)))


def _shown(message: bytes, hidden: frozenset[str]) -> bytes | None:
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
    """Take a property out, wherever its dotted name leads."""
    event.pop(path, None)
    first, dot, rest = path.partition(".")
    if dot and isinstance(event.get(first), dict):
        _hide(event[first], rest)
