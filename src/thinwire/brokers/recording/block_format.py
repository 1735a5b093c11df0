"""A block: some messages in columns, so that reading them costs nothing for a single one.

    header    32 bytes: magic, messages, subjects, bytes of their names, bytes of all payloads, CRC of the body, CRC of
              the 28 bytes before it
    body      offsets (int64), times (float64), lengths of payloads (uint32), subjects by number (uint16), lengths of
              the subjects' names (uint16), the names, the payloads

Everything is little-endian, and a block knows its own subjects: it can be read when all others are lost.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from itertools import starmap
from typing import NamedTuple
from zlib import crc32

import numpy as np
import numpy.typing as npt

from thinwire.brokers.protocol_broker import Stored
from thinwire.brokers.protocol_source import Block
from thinwire.brokers.recording.block_format_layout import Place

HEADER = struct.Struct("<4sIIIQII")
MAX_SUBJECTS = 1 << 16
MAX_BODY = 1 << 30
"""bytes of a block behind its header, at most"""

_MAGIC = b"TWB1"
_PER_MESSAGE, _PER_SUBJECT = 8 + 8 + 4 + 2, 2


class Header(NamedTuple):
    """What a block says of itself."""

    messages: int
    subjects: int
    names: int
    payload: int
    crc: int

    @property
    def size(self) -> int:
        """Bytes of the block, header included."""
        return HEADER.size + self._front + self.payload

    @property
    def _front(self) -> int:
        return self.messages * _PER_MESSAGE + self.subjects * _PER_SUBJECT + self.names


class Columns(NamedTuple):
    """The messages of a block; `ids` count into `names`, the n-th payload is `data[starts[n]:ends[n]]`."""

    offsets: npt.NDArray[np.int64]
    times: npt.NDArray[np.float64]
    ids: npt.NDArray[np.uint16]
    names: list[str]
    starts: npt.NDArray[np.int64]
    ends: npt.NDArray[np.int64]
    data: bytes

    def where(self, first: int, last: int, wanted: Callable[[str], bool] | None) -> Columns:
        """Only the messages between two offsets, both included, under subjects that are wanted."""
        left, right = np.searchsorted(self.offsets, [first, last + 1])
        part = self if right - left == len(self.offsets) else self._taken(slice(left, right))
        if wanted is None:
            return part
        chosen = np.array([wanted(name) for name in self.names], bool)
        return part if chosen.all() else part._taken(chosen[part.ids])

    def stored(self, at: int) -> Stored:
        """One message."""
        payload = self.data[self.starts[at] : self.ends[at]]
        return Stored(int(self.offsets[at]), self.names[self.ids[at]], payload, float(self.times[at]))

    def block(self) -> Block:
        """As readers get it."""
        data = self.data
        payloads = [data[start:end] for start, end in zip(self.starts.tolist(), self.ends.tolist(), strict=True)]
        subjects = list(map(self.names.__getitem__, self.ids.tolist()))
        return Block(self.offsets, self.times, subjects, payloads)

    def _taken(self, chosen: slice | npt.NDArray[np.bool_]) -> Columns:
        return self._replace(
            offsets=self.offsets[chosen],
            times=self.times[chosen],
            ids=self.ids[chosen],
            starts=self.starts[chosen],
            ends=self.ends[chosen],
        )


def stored_of(block: Block) -> list[Stored]:
    """The messages of a block, one by one."""
    rows = zip(block.offsets.tolist(), block.subjects, block.payloads, block.times.tolist(), strict=True)
    return list(starmap(Stored, rows))


def encode(messages: Sequence[Stored]) -> bytes:
    """A block of these messages."""
    offsets, subjects, payloads, times = zip(*messages, strict=True)
    numbers = {subject: number for number, subject in enumerate(dict.fromkeys(subjects))}
    names = [subject.encode() for subject in numbers]
    body = b"".join(
        (
            np.array(offsets, "<i8").tobytes(),
            np.array(times, "<f8").tobytes(),
            np.array([len(payload) for payload in payloads], "<u4").tobytes(),
            np.array([numbers[subject] for subject in subjects], "<u2").tobytes(),
            np.array([len(name) for name in names], "<u2").tobytes(),
            *names,
            *payloads,
        )
    )
    sizes = sum(map(len, names)), sum(map(len, payloads))
    front = HEADER.pack(_MAGIC, len(offsets), len(names), *sizes, crc32(body), 0)[:-4]
    return front + crc32(front).to_bytes(4, "little") + body


def read_header(data: bytes, place: Place) -> Header:
    """The header at the beginning of a block."""
    magic, messages, subjects, names, payload, crc, check = HEADER.unpack_from(data)
    if crc32(data[: HEADER.size - 4]) != check or magic != _MAGIC:
        raise place.corrupt("the header of a block is not what was written")
    header = Header(messages, subjects, names, payload, crc)
    if not 0 < subjects <= min(messages, MAX_SUBJECTS) or header.size - HEADER.size > MAX_BODY:
        raise place.corrupt("a block outside its limits", **header._asdict())
    return header


def decode(data: bytes, place: Place) -> Columns:
    """The messages of a block; nothing is believed before its checksum is."""
    header = read_header(data, place)
    if len(data) != header.size:
        raise place.corrupt("a block is not as long as it says", bytes=len(data), says=header.size)
    if crc32(memoryview(data)[HEADER.size :]) != header.crc:
        raise place.corrupt("a block is not what was written", bytes=header.size)
    count, at = header.messages, HEADER.size
    offsets = np.frombuffer(data, "<i8", count, at)
    times = np.frombuffer(data, "<f8", count, at + 8 * count)
    lengths = np.frombuffer(data, "<u4", count, at + 16 * count)
    ids = np.frombuffer(data, "<u2", count, at + 20 * count)
    at += _PER_MESSAGE * count
    names = _names(data, at, header, place)
    ends = lengths.cumsum(dtype=np.int64) + (header.size - header.payload)
    if ends[-1] != header.size or ids.max() >= header.subjects or offsets[0] < 0 or (offsets[1:] <= offsets[:-1]).any():
        raise place.corrupt("the columns of a block contradict each other")
    return Columns(offsets, times, ids, names, ends - lengths, ends, data)


def _names(data: bytes, at: int, header: Header, place: Place) -> list[str]:
    lengths = np.frombuffer(data, "<u2", header.subjects, at)
    return split_names(data[at + lengths.nbytes : at + lengths.nbytes + header.names], lengths, place)


def split_names(text: bytes, lengths: npt.NDArray[np.uint16], place: Place) -> list[str]:
    """Names that were written one behind the other."""
    ends = lengths.cumsum(dtype=np.int64).tolist()
    if (ends[-1] if ends else 0) != len(text):
        raise place.corrupt("the lengths of subjects contradict each other")
    try:
        return [text[start:end].decode() for start, end in zip([0, *ends], ends, strict=False)]
    except UnicodeDecodeError:
        raise place.corrupt("a subject that is no text") from None
