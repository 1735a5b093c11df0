"""A segment on disk: blocks one behind the other, never changed once they are written, with an index beside them.

A segment whose writer was killed has no index, and may end in the middle of a block. It is read through once: what is
complete counts, and how many bytes at its end do not is known.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path
from typing import IO, NamedTuple

from thinwire.brokers.recording.block_format import HEADER, Columns, decode, read_header
from thinwire.brokers.recording.block_format_layout import INDEX, VERSION, Place, check_version, put_file
from thinwire.brokers.recording.segment import MAX_INDEX, Index, IndexBuilder

_MAGIC = b"twseg\0"
_FRONT = struct.Struct("<6sH")
FRONT = _FRONT.pack(_MAGIC, VERSION)
"""what every segment begins with"""


@dataclass(frozen=True)
class Segment:
    """A segment and its index; `cut` counts the bytes at its end that are not a whole block."""

    file: Path
    index: Index
    cut: int = 0


class Cut(NamedTuple):
    """Where a segment was cut off in the middle of a block, and how many bytes there do not count."""

    file: Path
    byte: int
    bytes: int


def cut_of(segment: Segment) -> Cut | None:
    """Where a segment was cut off; None for a whole one."""
    return Cut(segment.file, segment.index.length, segment.cut) if segment.cut else None


def find(file: Path) -> Segment:
    """A segment as it is now."""
    beside = file.with_suffix(INDEX)
    if not beside.is_file():
        return scan(file)
    size = beside.stat().st_size
    if size > MAX_INDEX:
        raise Place(beside).corrupt("an index above its limit", bytes=size, limit=MAX_INDEX)
    index = Index.decode(beside.read_bytes(), Place(beside))
    if file.stat().st_size < index.length:
        raise Place(file, file.stat().st_size).corrupt("the file ends too early", says=index.length)
    return Segment(file, index)


def scan(file: Path) -> Segment:
    """Read a segment that has no index."""
    builder, end, size = IndexBuilder(), len(FRONT), file.stat().st_size
    if size < len(FRONT):
        return Segment(file, builder.build(0), cut=size)
    with open_segment(file) as data:
        while size - end >= HEADER.size:
            head = _bytes_at(data, Place(file, end), HEADER.size)
            whole = read_header(head, Place(file, end)).size
            if whole > size - end:
                break
            builder.add(end, read_block(data, Place(file, end), whole))
            end += whole
    return Segment(file, builder.build(end), cut=size - end)


def seal(segment: Segment, *, sync: bool) -> None:
    """Write the index beside the segment: from now on it is finished."""
    put_file(segment.file.with_suffix(INDEX), segment.index.encode(), sync=sync)


def open_segment(file: Path) -> IO[bytes]:
    """A segment to read blocks from."""
    data = file.open("rb", buffering=0)
    front = data.read(len(FRONT))
    if len(front) < len(FRONT) or not front.startswith(_MAGIC):
        data.close()
        raise Place(file).corrupt("this is no segment of a recording")
    try:
        check_version(_FRONT.unpack(front)[1], Place(file))
    except BaseException:
        data.close()
        raise
    return data


def read_block(data: IO[bytes], place: Place, size: int) -> Columns:
    """The block of so many bytes at a place."""
    return decode(_bytes_at(data, place, size), place)


def _bytes_at(data: IO[bytes], place: Place, size: int) -> bytes:
    """So many bytes, however few the file system gives at once."""
    data.seek(place.byte)
    found = data.read(size)
    while len(found) < size:
        more = data.read(size - len(found))
        if not more:
            raise place.corrupt("the file ends too early", bytes=len(found), says=size)
        found += more
    return found
