"""The messages of a range as they are: a table of bytes, for those who look at the log itself."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from thinwire.brokers.protocol_source import Block, LogSource
from thinwire.topics.log_tables.offset_range import Losses
from thinwire.topics.log_tables.offset_range_pieces import pieces
from thinwire.topics.log_tables.offset_range_ranges import Range, span_of
from thinwire.topics.names import is_key, log_of, publisher_in

TIME = pa.timestamp("us", tz="UTC")
MESSAGES = pa.schema(
    [
        pa.field("_topic", pa.string(), nullable=False),
        pa.field("_publisher", pa.string(), nullable=False),
        pa.field("_offset", pa.int64(), nullable=False),
        pa.field("_time", TIME, nullable=False),
        pa.field("_kind", pa.string(), nullable=False),
        pa.field("payload", pa.binary(), nullable=False),
    ]
)
"""a row a message; `_kind` is "key" where a round of key frames begins, else "data" """


def messages(
    source: LogSource, topic: str, wanted: Range, *, fail_on_data_loss: bool = True, log: str = ""
) -> Iterator[pa.RecordBatch]:
    """The messages of a range, in their order."""
    for piece in unbroken(source, topic, wanted, Losses(topic, fail=fail_on_data_loss, log=log)):
        yield pa.RecordBatch.from_arrays(_columns(topic, piece), schema=MESSAGES)


def unbroken(source: LogSource, topic: str, wanted: Range, losses: Losses) -> Iterator[Block]:
    """The messages of a range in pieces without gaps; what is missing before, between and behind them is noted."""
    log = log_of(topic)
    span = span_of(source, log)
    held = losses.held(wanted, span)
    expected = held.first
    for block in source.read_blocks(log, held.first, held.last) if held else ():
        for piece in pieces(block, expected):
            if int(piece.offsets[0]) > expected:
                losses.note_gone(expected, int(piece.offsets[0]) - 1)
            expected = int(piece.offsets[-1]) + 1
            yield piece
    if held and expected <= held.last:
        losses.note_gone(expected, held.last)


def publishers_of(piece: Block) -> pa.Array:
    """Who said each of the messages."""
    subjects = pa.array(piece.subjects).dictionary_encode()
    return pa.array([publisher_in(name) for name in subjects.dictionary.to_pylist()]).take(subjects.indices)


def times_of(piece: Block) -> pa.Array:
    """When the broker stored each of the messages."""
    return pa.array(np.rint(piece.times * 1e6).astype(np.int64)).cast(TIME)


def _columns(topic: str, piece: Block) -> list[pa.Array]:
    subjects = pa.array(piece.subjects).dictionary_encode()
    kinds = pa.array(["key" if is_key(name) else "data" for name in subjects.dictionary.to_pylist()])
    return [
        pa.repeat(topic, len(piece.payloads)),
        publishers_of(piece),
        pa.array(piece.offsets),
        times_of(piece),
        kinds.take(subjects.indices),
        pa.array(piece.payloads, type=pa.binary()),
    ]
