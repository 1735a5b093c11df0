"""The messages of a range as they are: a table of bytes, for those who look at the log itself."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from thinwire.control.landing.losses import Losses
from thinwire.control.landing.pieces import pieces
from thinwire.control.landing.ranges import Range, span_of
from thinwire.control.names import is_key, log_of, publisher_in
from thinwire.transports.source import Block, LogSource

FRAMES = pa.schema(
    [
        ("_topic", pa.string()),
        ("_publisher", pa.string()),
        ("_offset", pa.int64()),
        ("_time", pa.timestamp("us", tz="UTC")),
        ("_kind", pa.string()),
        ("payload", pa.binary()),
    ]
)
"""a row a message; `_kind` is "key" where a round of key frames begins, else "data" """


def messages(
    source: LogSource, topic: str, wanted: Range, *, fail_on_data_loss: bool = True
) -> Iterator[pa.RecordBatch]:
    """The messages of a range, in their order."""
    log, losses = log_of(topic), Losses(topic, fail=fail_on_data_loss)
    span = span_of(source, log)
    losses.check_span(wanted, span)
    held = Range(max(wanted.first, span.first), min(wanted.last, span.last))
    expected = held.first
    for block in source.read_blocks(log, held.first, held.last) if held else ():
        for piece in pieces(block, expected):
            if int(piece.offsets[0]) > expected:
                losses.note_gone(expected, int(piece.offsets[0]) - 1)
            expected = int(piece.offsets[-1]) + 1
            yield _table(topic, piece)
    if held and expected <= held.last:
        losses.note_gone(expected, held.last)


def _table(topic: str, piece: Block) -> pa.RecordBatch:
    subjects = pa.array(piece.subjects).dictionary_encode()
    names = subjects.dictionary.to_pylist()
    columns = [
        pa.repeat(topic, len(piece.payloads)),
        pa.array([publisher_in(name) for name in names]).take(subjects.indices),
        pa.array(piece.offsets),
        pa.array(np.rint(piece.times * 1e6).astype(np.int64)).cast(FRAMES.field("_time").type),
        pa.array(["key" if is_key(name) else "data" for name in names]).take(subjects.indices),
        pa.array(piece.payloads, type=pa.binary()),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=FRAMES)
