"""The index of a segment: where its blocks are, and which subjects are in which of them.

It is small (48 bytes a block, 28 a subject in a block) and answers every question but "what does it say": the newest
message of a subject before an offset, hence the last round of key frames, is found with one block read.

A segment on disk: blocks one behind the other, never changed once they are written, with an index beside them.

A segment whose writer was killed has no index, and may end in the middle of a block. It is read through once: what is
complete counts, and how many bytes at its end do not is known.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, NamedTuple
from zlib import crc32

import numpy as np
import numpy.typing as npt

from thinwire.brokers.recording.block_format import (
    HEADER,
    INDEX,
    VERSION,
    BlockColumns,
    ByteLocation,
    check_version,
    decode,
    put_file,
    read_header,
    split_names,
)

BLOCK = np.dtype(
    [("first", "<i8"), ("last", "<i8"), ("place", "<i8"), ("size", "<i8"), ("messages", "<i8"), ("newest", "<f8")]
)
"""of a block: first and last offset, byte place and size in the segment, messages, the latest time in it"""
ROW = np.dtype([("subject", "<u4"), ("block", "<u4"), ("first", "<i8"), ("last", "<i8"), ("messages", "<u4")])
"""of a subject in a block: first and last offset, messages"""

Table = npt.NDArray[Any]

_MAGIC = b"twidx\0"
_HEADER = struct.Struct("<6sHQIIII")
MAX_INDEX = 1 << 28


@dataclass(frozen=True)
class Index:
    """length: bytes of the segment that count; what a writer that was killed left behind them does not."""

    length: int
    blocks: Table
    rows: Table
    subjects: list[str]

    def encode(self) -> bytes:
        """As it is written beside its segment."""
        names = [name.encode() for name in self.subjects]
        sizes = len(self.blocks), len(self.rows), len(names), sum(map(len, names))
        data = b"".join(
            (
                _HEADER.pack(_MAGIC, VERSION, self.length, *sizes),
                self.blocks.tobytes(),
                self.rows.tobytes(),
                np.array([len(name) for name in names], "<u2").tobytes(),
                *names,
            )
        )
        return data + crc32(data).to_bytes(4, "little")

    @classmethod
    def decode(cls, data: bytes, place: ByteLocation) -> Index:
        """An index as it was written."""
        if len(data) < _HEADER.size + 4 or data[:6] != _MAGIC:
            raise place.corrupt("this is no index of a segment")
        if crc32(memoryview(data)[:-4]) != int.from_bytes(data[-4:], "little"):
            raise place.corrupt("an index is not what was written")
        _, version, length, blocks, rows, subjects, names = _HEADER.unpack_from(data)
        check_version(version, place)
        at_rows = _HEADER.size + blocks * BLOCK.itemsize
        at_names = at_rows + rows * ROW.itemsize
        if len(data) != at_names + 2 * subjects + names + 4:
            raise place.corrupt("an index is not as long as it says", bytes=len(data))
        lengths = np.frombuffer(data, "<u2", subjects, at_names)
        found = cls(
            length,
            np.frombuffer(data, BLOCK, blocks, _HEADER.size),
            np.frombuffer(data, ROW, rows, at_rows),
            split_names(data[at_names + lengths.nbytes : -4], lengths, place),
        )
        found._check(place)
        return found

    def _check(self, place: ByteLocation) -> None:
        """Refuse what would lead outside the file, or round in circles."""
        blocks, rows = self.blocks, self.rows
        ends = blocks["place"] + blocks["size"]
        inside = (blocks["place"] > 0) & (blocks["size"] > 0) & (ends <= self.length) & (blocks["messages"] > 0)
        ordered = (blocks["first"] <= blocks["last"]).all() and (blocks["first"][1:] > blocks["last"][:-1]).all()
        known = (rows["block"] < len(blocks)).all() and (rows["subject"] < len(self.subjects)).all()
        if not (inside.all() and ordered and known):
            raise place.corrupt("the entries of an index contradict each other")


class IndexBuilder:
    """Makes the index of a segment, block by block."""

    def __init__(self) -> None:
        self._blocks: list[tuple[int, int, int, int, int, float]] = []
        self._rows: list[tuple[int, int, int, int, int]] = []
        self._numbers: dict[str, int] = {}

    def add(self, place: int, columns: BlockColumns) -> None:
        """The next block begins at this byte of the segment."""
        offsets, number = columns.offsets, len(self._blocks)
        newest = float(columns.times.max())
        self._blocks.append((int(offsets[0]), int(offsets[-1]), place, len(columns.data), len(offsets), newest))
        ids, firsts, counts = np.unique(columns.ids, return_index=True, return_counts=True)
        lasts = len(offsets) - 1 - np.unique(columns.ids[::-1], return_index=True)[1]
        for name, first, last, count in zip(ids, firsts, lasts, counts, strict=True):
            subject = self._numbers.setdefault(columns.names[name], len(self._numbers))
            self._rows.append((subject, number, int(offsets[first]), int(offsets[last]), int(count)))

    def build(self, length: int) -> Index:
        """The index of a segment of so many bytes."""
        return Index(length, np.array(self._blocks, BLOCK), np.array(self._rows, ROW), list(self._numbers))


_MAGIC_SEGMENTS = b"twseg\0"
_FRONT = struct.Struct("<6sH")
FRONT = _FRONT.pack(_MAGIC_SEGMENTS, VERSION)
"""what every segment begins with"""


@dataclass(frozen=True)
class Segment:
    """A segment and its index; `cut` counts the bytes at its end that are not a whole block."""

    file: Path
    index: Index
    cut: int = 0


class TruncatedTail(NamedTuple):
    """Where a segment was cut off in the middle of a block, and how many bytes there do not count."""

    file: Path
    byte: int
    bytes: int


def cut_of(segment: Segment) -> TruncatedTail | None:
    """Where a segment was cut off; None for a whole one."""
    return TruncatedTail(segment.file, segment.index.length, segment.cut) if segment.cut else None


def find(file: Path) -> Segment:
    """A segment as it is now."""
    beside = file.with_suffix(INDEX)
    if not beside.is_file():
        return scan(file)
    size = beside.stat().st_size
    if size > MAX_INDEX:
        raise ByteLocation(beside).corrupt("an index above its limit", bytes=size, limit=MAX_INDEX)
    index = Index.decode(beside.read_bytes(), ByteLocation(beside))
    if file.stat().st_size < index.length:
        raise ByteLocation(file, file.stat().st_size).corrupt("the file ends too early", says=index.length)
    return Segment(file, index)


def scan(file: Path) -> Segment:
    """Read a segment that has no index."""
    builder, end, size = IndexBuilder(), len(FRONT), file.stat().st_size
    if size < len(FRONT):
        return Segment(file, builder.build(0), cut=size)
    with open_segment(file) as data:
        while size - end >= HEADER.size:
            head = _bytes_at(data, ByteLocation(file, end), HEADER.size)
            whole = read_header(head, ByteLocation(file, end)).size
            if whole > size - end:
                break
            builder.add(end, read_block(data, ByteLocation(file, end), whole))
            end += whole
    return Segment(file, builder.build(end), cut=size - end)


def seal(segment: Segment, *, sync: bool) -> None:
    """Write the index beside the segment: from now on it is finished."""
    put_file(segment.file.with_suffix(INDEX), segment.index.encode(), sync=sync)


def open_segment(file: Path) -> IO[bytes]:
    """A segment to read blocks from."""
    data = file.open("rb", buffering=0)
    front = data.read(len(FRONT))
    if len(front) < len(FRONT) or not front.startswith(_MAGIC_SEGMENTS):
        data.close()
        raise ByteLocation(file).corrupt("this is no segment of a recording")
    try:
        check_version(_FRONT.unpack(front)[1], ByteLocation(file))
    except BaseException:
        data.close()
        raise
    return data


def read_block(data: IO[bytes], place: ByteLocation, size: int) -> BlockColumns:
    """The block of so many bytes at a place."""
    return decode(_bytes_at(data, place, size), place)


def _bytes_at(data: IO[bytes], place: ByteLocation, size: int) -> bytes:
    """So many bytes, however few the file system gives at once."""
    data.seek(place.byte)
    found = data.read(size)
    while len(found) < size:
        more = data.read(size - len(found))
        if not more:
            raise place.corrupt("the file ends too early", bytes=len(found), says=size)
        found += more
    return found
