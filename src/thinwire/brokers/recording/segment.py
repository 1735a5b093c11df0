"""Segments of a recorded log, and their indexes.

A segment is a file of consecutive blocks, which are not changed after writing. Its index lists the blocks and the
subjects of each block (48 bytes per block, 28 per subject in a block). With it the newest message of a subject before
an offset, and thereby the last key frame round, is found by reading one block.

A segment whose writer was killed has no index and can end within a block. It is scanned once; the complete blocks are
used and the truncated bytes are reported.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any
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
    [("first", "<i8"), ("last", "<i8"), ("position", "<i8"), ("size", "<i8"), ("messages", "<i8"), ("newest", "<f8")]
)
"""of a block: first and last offset, position and size in the segment, messages, newest time"""
ROW = np.dtype([("subject", "<u4"), ("block", "<u4"), ("first", "<i8"), ("last", "<i8"), ("messages", "<u4")])
"""of a subject in a block: first and last offset, messages"""

Table = npt.NDArray[Any]

_MAGIC = b"twidx\0"
_HEADER = struct.Struct("<6sHQIIII")
MAX_INDEX = 1 << 28


@dataclass(frozen=True)
class Index:
    """Index of a segment. `length`: bytes of complete blocks; `rows`: one row per subject of a block."""

    length: int
    blocks: Table
    rows: Table
    subjects: list[str]

    def encode(self) -> bytes:
        """Return the bytes of the index file."""
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
    def decode(cls, data: bytes, location: ByteLocation) -> Index:
        """Parse and check an index file."""
        if len(data) < _HEADER.size + 4 or data[:6] != _MAGIC:
            raise location.corrupt("not an index of a segment")
        if crc32(memoryview(data)[:-4]) != int.from_bytes(data[-4:], "little"):
            raise location.corrupt("invalid checksum of an index")
        _, version, length, block_count, row_count, subject_count, names_size = _HEADER.unpack_from(data)
        check_version(version, location)
        at_rows = _HEADER.size + block_count * BLOCK.itemsize
        at_name_lengths = at_rows + row_count * ROW.itemsize
        if len(data) != at_name_lengths + 2 * subject_count + names_size + 4:
            raise location.corrupt("wrong length of an index", bytes=len(data))
        lengths = np.frombuffer(data, "<u2", subject_count, at_name_lengths)
        index = cls(
            length,
            np.frombuffer(data, BLOCK, block_count, _HEADER.size),
            np.frombuffer(data, ROW, row_count, at_rows),
            split_names(data[at_name_lengths + lengths.nbytes : -4], lengths, location),
        )
        index._check(location)
        return index

    def _check(self, location: ByteLocation) -> None:
        """Raise `CorruptRecording` for entries outside the file or out of order."""
        blocks, rows = self.blocks, self.rows
        ends = blocks["position"] + blocks["size"]
        inside = (blocks["position"] > 0) & (blocks["size"] > 0) & (ends <= self.length) & (blocks["messages"] > 0)
        ordered = (blocks["first"] <= blocks["last"]).all() and (blocks["first"][1:] > blocks["last"][:-1]).all()
        known = (rows["block"] < len(blocks)).all() and (rows["subject"] < len(self.subjects)).all()
        if not (inside.all() and ordered and known):
            raise location.corrupt("inconsistent entries of an index")


class IndexBuilder:
    """Builds the index of a segment, block by block."""

    def __init__(self) -> None:
        self._blocks: list[tuple[int, int, int, int, int, float]] = []
        self._rows: list[tuple[int, int, int, int, int]] = []
        self._subject_numbers: dict[str, int] = {}

    def add(self, position: int, columns: BlockColumns) -> None:
        """Add the next block, which begins at byte `position` of the segment."""
        offsets, block = columns.offsets, len(self._blocks)
        newest = float(columns.times.max())
        self._blocks.append((int(offsets[0]), int(offsets[-1]), position, len(columns.data), len(offsets), newest))
        ids, first_indexes, counts = np.unique(columns.ids, return_index=True, return_counts=True)
        last_indexes = len(offsets) - 1 - np.unique(columns.ids[::-1], return_index=True)[1]
        for id, first_index, last_index, count in zip(ids, first_indexes, last_indexes, counts, strict=True):
            subject = self._subject_numbers.setdefault(columns.names[id], len(self._subject_numbers))
            self._rows.append((subject, block, int(offsets[first_index]), int(offsets[last_index]), int(count)))

    def build(self, length: int) -> Index:
        """Return the index of a segment with `length` bytes."""
        return Index(length, np.array(self._blocks, BLOCK), np.array(self._rows, ROW), list(self._subject_numbers))


_SEGMENT_MAGIC = b"twseg\0"
_SEGMENT_HEADER = struct.Struct("<6sH")
SEGMENT_HEADER = _SEGMENT_HEADER.pack(_SEGMENT_MAGIC, VERSION)
"""first bytes of every segment"""


@dataclass(frozen=True)
class Segment:
    """A segment and its index. `truncated` is the number of bytes after the last complete block."""

    file: Path
    index: Index
    truncated: int = 0


def load_segment(file: Path) -> Segment:
    """Return a segment with its index. A segment without an index file is scanned."""
    index_file = file.with_suffix(INDEX)
    if not index_file.is_file():
        return scan_segment(file)
    size = index_file.stat().st_size
    if size > MAX_INDEX:
        raise ByteLocation(index_file).corrupt("an index exceeds its limit", bytes=size, limit=MAX_INDEX)
    index = Index.decode(index_file.read_bytes(), ByteLocation(index_file))
    if file.stat().st_size < index.length:
        raise ByteLocation(file, file.stat().st_size).corrupt("unexpected end of file", expected=index.length)
    return Segment(file, index)


def scan_segment(file: Path) -> Segment:
    """Build the index of a segment from its blocks."""
    builder, end, size = IndexBuilder(), len(SEGMENT_HEADER), file.stat().st_size
    if size < len(SEGMENT_HEADER):
        return Segment(file, builder.build(0), truncated=size)
    with open_segment(file) as segment:
        while size - end >= HEADER.size:
            header = _read_bytes(segment, ByteLocation(file, end), HEADER.size)
            block_size = read_header(header, ByteLocation(file, end)).size
            if block_size > size - end:
                break
            builder.add(end, read_block(segment, ByteLocation(file, end), block_size))
            end += block_size
    return Segment(file, builder.build(end), truncated=size - end)


def write_index(segment: Segment, *, sync: bool) -> None:
    """Write the index file, which completes the segment."""
    put_file(segment.file.with_suffix(INDEX), segment.index.encode(), sync=sync)


def open_segment(file: Path) -> IO[bytes]:
    """Open a segment for `read_block`."""
    segment = file.open("rb")
    try:
        header = segment.read(len(SEGMENT_HEADER))
        if len(header) < len(SEGMENT_HEADER) or not header.startswith(_SEGMENT_MAGIC):
            raise ByteLocation(file).corrupt("not a segment of a recording")
        check_version(_SEGMENT_HEADER.unpack(header)[1], ByteLocation(file))
    except BaseException:
        segment.close()
        raise
    return segment


def read_block(segment: IO[bytes], location: ByteLocation, size: int) -> BlockColumns:
    """Read the block of `size` bytes at a position."""
    return decode(_read_bytes(segment, location, size), location)


def _read_bytes(segment: IO[bytes], location: ByteLocation, size: int) -> bytes:
    segment.seek(location.byte)
    found = segment.read(size)
    if len(found) < size:
        raise location.corrupt("unexpected end of file", bytes=len(found), expected=size)
    return found
