"""The frames of a range as they are: a row a frame, whatever message it shared with others.

The messages of a range as they are: a table of bytes, for those who look at the log itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from thinwire.brokers.protocol import Block, LogSource
from thinwire.errors import PeerFault
from thinwire.topics.log_tables.offset_range import Losses, Range, pieces, span_of
from thinwire.topics.names import is_key, log_of, publisher_in
from thinwire.wire import FrameKind, split
from thinwire.wire.frame import MAX_FRAMES, MAX_MESSAGE, is_known

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
                losses.record_removed(expected, int(piece.offsets[0]) - 1)
            expected = int(piece.offsets[-1]) + 1
            yield piece
    if held and expected <= held.last:
        losses.record_removed(expected, held.last)


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


Ints = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]

FRAMES = pa.schema(
    [
        pa.field("_topic", pa.string(), nullable=False),
        pa.field("_publisher", pa.string(), nullable=False),
        pa.field("_offset", pa.int64(), nullable=False),
        pa.field("_frame", pa.int32(), nullable=False),
        pa.field("_time", TIME, nullable=False),
        pa.field("_kind", pa.string(), nullable=False),
        pa.field("payload", pa.binary(), nullable=False),
    ]
)
"""`_frame` is the place in its message, from 0 on; `_kind` what sort of frame it is, in lower case"""
_KINDS = tuple(FrameKind(kind).name.lower() if is_known(kind) else "unknown" for kind in range(16))
_LONG = 0x80
"""from this length on a frame's length takes more than a byte; here it may take two"""
_ROOM = bytes(2)
"""behind the last message, so that whoever looks a byte too far finds one"""


class FrameBatch(NamedTuple):
    """The frames of some messages one after the other, and how many each message has."""

    frames: pa.Array
    counts: Ints


def frames(
    source: LogSource, topic: str, wanted: Range, *, fail_on_data_loss: bool = True, log: str = ""
) -> Iterator[pa.RecordBatch]:
    """The frames of a range, in their order. A message that cannot be taken apart has none: it is a loss."""
    losses = Losses(topic, fail=fail_on_data_loss, log=log)
    for piece in unbroken(source, topic, wanted, losses):
        found = split_at_once(piece.payloads) or _one_by_one(piece, losses)
        yield pa.RecordBatch.from_arrays(_columns_raw_tables(topic, piece, found), schema=FRAMES)


def split_at_once(messages: Sequence[bytes]) -> FrameBatch | None:
    """The frames of many messages, found side by side; None where one has a very long frame, or is not whole.

    >>> one, two = b"\\x01\\x00\\x00one", b"\\x07\\x01\\x00two"
    >>> found = split_at_once([b"\\x09\\x06" + one + b"\\x06" + two, one])
    >>> found.frames.to_pylist() == [one, two, one], found.counts.tolist()
    (True, [2, 1])
    """
    sizes = np.fromiter(map(len, messages), np.int64, len(messages))
    if not sizes.all() or sizes.max() > MAX_MESSAGE:
        return None
    raw = np.frombuffer(b"".join([*messages, _ROOM]), np.uint8)
    ends = np.cumsum(sizes)
    begins = ends - sizes
    batch = raw[begins] & 0x0F == FrameKind.BATCH
    found = _in_batches(raw, begins[batch] + 1, ends[batch])
    if found is None:
        return None
    starts, widths = (np.concatenate(parts) for parts in zip((begins[~batch], sizes[~batch]), found, strict=True))
    order = np.argsort(starts)
    starts, widths = starts[order], widths[order]
    counts = np.searchsorted(starts, ends) - np.searchsorted(starts, begins)
    return FrameBatch(_binary(raw, starts, widths), counts) if counts.max() <= MAX_FRAMES else None


def _in_batches(raw: Bytes, at: Ints, ends: Ints) -> tuple[Ints, Ints] | None:
    """Where the frames of all batches begin, and how long they are: the first of each batch, the second, and so on."""
    starts, widths = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    while len(at):
        low, high = raw[at].astype(np.int64), raw[at + 1].astype(np.int64)
        long = low >= _LONG
        sizes = np.where(long, low & 0x7F | high << 7, low)
        start = at + 1 + long
        at = start + sizes
        if not ((sizes > 0) & (at <= ends) & ~(long & ((high == 0) | (high >= _LONG)))).all():
            return None
        if (raw[start] & 0x0F == FrameKind.BATCH).any():
            return None
        starts.append(start)
        widths.append(sizes)
        going = at < ends
        at, ends = at[going], ends[going]
    return np.concatenate(starts), np.concatenate(widths)


def _binary(raw: Bytes, starts: Ints, widths: Ints) -> pa.Array:
    """The frames as an array: their bytes without what lies between them."""
    edges = np.zeros(len(raw), dtype=np.int8)
    edges[starts] += 1
    edges[starts + widths] -= 1
    data = raw[np.cumsum(edges, dtype=np.int8).view(np.bool_)]
    offsets = np.zeros(len(widths) + 1, np.int32)
    np.cumsum(widths, out=offsets[1:])
    return pa.Array.from_buffers(pa.binary(), len(widths), [None, pa.py_buffer(offsets), pa.py_buffer(data)])


def _one_by_one(piece: Block, losses: Losses) -> FrameBatch:
    found: list[bytes] = []
    counts: list[int] = []
    for offset, subject, payload in zip(piece.offsets.tolist(), piece.subjects, piece.payloads, strict=True):
        before = len(found)
        try:
            found += split(payload)
        except PeerFault as fault:
            losses.note_unreadable(offset, publisher_in(subject), str(fault))
        counts.append(len(found) - before)
    return FrameBatch(pa.array(found, type=pa.binary()), np.array(counts, dtype=np.int64))


def _columns_raw_tables(topic: str, piece: Block, found: FrameBatch) -> list[pa.Array]:
    messages = np.repeat(np.arange(len(found.counts)), found.counts)
    firsts = np.cumsum(found.counts) - found.counts
    which = pa.array(messages)
    return [
        pa.repeat(topic, len(messages)),
        publishers_of(piece).take(which),
        pa.array(piece.offsets[messages]),
        pa.array((np.arange(len(messages)) - firsts[messages]).astype(np.int32)),
        times_of(piece).take(which),
        pa.array(_KINDS).take(pa.array(_heads(found.frames) & 0x0F)),
        found.frames,
    ]


def _heads(frames: pa.Array) -> Bytes:
    """The first byte of every frame; 0 where a message is empty."""
    _, offsets, data = frames.buffers()
    raw = np.frombuffer(data, np.uint8) if data is not None else np.zeros(0, np.uint8)
    begins = np.frombuffer(offsets, np.int32)[: len(frames)]
    return np.append(raw, np.uint8(0))[begins] if len(begins) else np.zeros(0, np.uint8)
