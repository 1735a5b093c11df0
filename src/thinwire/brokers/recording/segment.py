"""The index of a segment: where its blocks are, and which subjects are in which of them.

It is small (48 bytes a block, 28 a subject in a block) and answers every question but "what does it say": the newest
message of a subject before an offset, hence the last round of key frames, is found with one block read.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any
from zlib import crc32

import numpy as np
import numpy.typing as npt

from thinwire.brokers.recording.block_format import Columns, split_names
from thinwire.brokers.recording.block_format_layout import VERSION, Place, check_version

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
    def decode(cls, data: bytes, place: Place) -> Index:
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

    def _check(self, place: Place) -> None:
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

    def add(self, place: int, columns: Columns) -> None:
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
