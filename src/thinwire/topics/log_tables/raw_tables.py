"""Messages and frames of an offset range as tables of bytes, without decoding."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa

from thinwire.brokers.protocol import Block, LogSource
from thinwire.errors import PeerFault
from thinwire.topics.log_tables.offset_range import Losses, Range, read_contiguous
from thinwire.topics.log_tables.source_broker import span_of
from thinwire.topics.names import is_key, log_of, publisher_in
from thinwire.wire import FrameKind, split
from thinwire.wire.frame import is_known

TIME = pa.timestamp("us", tz="UTC")
_TYPES = {
    "_topic": pa.string(),
    "_publisher": pa.string(),
    "_offset": pa.int64(),
    "_frame": pa.int32(),
    "_time": TIME,
    "_kind": pa.string(),
    "payload": pa.binary(),
}
FRAMES = pa.schema([pa.field(name, kind, nullable=False) for name, kind in _TYPES.items()])
"""one row per frame; `_frame` is its index in the message, `_kind` the name of its kind in lower case"""
MESSAGES = pa.schema([field for field in FRAMES if field.name != "_frame"])
"""one row per message; `_kind` is "key" for the start of a key frame round, else "data" """
_KINDS = tuple(FrameKind(kind).name.lower() if is_known(kind) else "unknown" for kind in range(16))


def read_messages(
    source: LogSource, topic: str, requested: Range, *, fail_on_data_loss: bool = True, log_id: str = ""
) -> Iterator[pa.RecordBatch]:
    """Yield the messages of a range, in order."""
    losses = Losses(topic, fail=fail_on_data_loss, log_id=log_id)
    for block in _read(source, topic, requested, losses):
        yield pa.RecordBatch.from_arrays(_message_columns(topic, block), schema=MESSAGES)


def read_frames(
    source: LogSource, topic: str, requested: Range, *, fail_on_data_loss: bool = True, log_id: str = ""
) -> Iterator[pa.RecordBatch]:
    """Yield the frames of a range, in order. A message that cannot be split into frames is a loss."""
    losses = Losses(topic, fail=fail_on_data_loss, log_id=log_id)
    for block in _read(source, topic, requested, losses):
        yield pa.RecordBatch.from_arrays(_frame_columns(topic, block, losses), schema=FRAMES)


def _read(source: LogSource, topic: str, requested: Range, losses: Losses) -> Iterator[Block]:
    log = log_of(topic)
    return read_contiguous(source, log, losses.clip(requested, span_of(source, log)), losses)


def _by_subject(block: Block, function: Callable[[str], str]) -> pa.Array:
    """Return the result of `function` for the subject of each message."""
    subjects = pa.array(block.subjects).dictionary_encode()
    return pa.array([function(name) for name in subjects.dictionary.to_pylist()]).take(subjects.indices)


def _times(block: Block) -> pa.Array:
    return pa.array(np.rint(block.times * 1e6).astype(np.int64)).cast(TIME)


def _message_columns(topic: str, block: Block) -> list[pa.Array]:
    return [
        pa.repeat(topic, len(block.payloads)),
        _by_subject(block, publisher_in),
        pa.array(block.offsets),
        _times(block),
        _by_subject(block, lambda subject: "key" if is_key(subject) else "data"),
        pa.array(block.payloads, type=pa.binary()),
    ]


def _frame_columns(topic: str, block: Block, losses: Losses) -> list[pa.Array]:
    frames: list[bytes] = []
    messages: list[int] = []
    numbers: list[int] = []
    for message, (subject, payload) in enumerate(zip(block.subjects, block.payloads, strict=True)):
        try:
            found = split(payload)
        except PeerFault as fault:
            losses.report_unreadable(int(block.offsets[message]), publisher_in(subject), str(fault))
            continue
        frames += found
        messages += [message] * len(found)
        numbers += range(len(found))
    indices = pa.array(messages, type=pa.int64())
    return [
        pa.repeat(topic, len(frames)),
        _by_subject(block, publisher_in).take(indices),
        pa.array(block.offsets).take(indices),
        pa.array(numbers, type=pa.int32()),
        _times(block).take(indices),
        pa.array([_KINDS[frame[0] & 0x0F if frame else 0] for frame in frames], type=pa.string()),
        pa.array(frames, type=pa.binary()),
    ]
