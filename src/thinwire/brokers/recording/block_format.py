"""A block: some messages in columns, so that reading them costs nothing for a single one.

    header    32 bytes: magic, messages, subjects, bytes of their names, bytes of all payloads, CRC of the body, CRC of
              the 28 bytes before it
    body      offsets (int64), times (float64), lengths of payloads (uint32), subjects by number (uint16), lengths of
              the subjects' names (uint16), the names, the payloads

Everything is little-endian, and a block knows its own subjects: it can be read when all others are lost.

Where the parts of a recording lie: the names of docs/recordings.md.

>>> segment_name(17)
'00000000000000000017.seg'
"""

from __future__ import annotations

import json
import os
import re
import struct
from collections.abc import Callable, Sequence
from itertools import starmap
from pathlib import Path
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np
import numpy.typing as npt

from thinwire.brokers.protocol import Block, Stored
from thinwire.errors import ConfigError, CorruptRecording, NoRecording, UnsupportedVersion

VERSION = 1
KIND = "thinwire recording"
MARKER = "recording.json"
LOGS, BUCKETS = "logs", "buckets"
SEGMENT, INDEX, UNFINISHED = ".seg", ".idx", ".tmp"

_NAME = re.compile(r"[A-Za-z0-9_~-]{1,240}")
_MAX_MARKER = 4_096


class ByteLocation(NamedTuple):
    """A byte of a file: where something was found that cannot be."""

    file: Path
    byte: int = 0

    def corrupt(self, detail: str, **facts: Any) -> CorruptRecording:
        """The error to raise: it names the file in full, for facts are shortened."""
        return CorruptRecording(f"{self.file}: {detail}", byte=self.byte, **facts)


def log_folder(path: Path, log: str) -> Path:
    """Where the segments of a log are."""
    return path / LOGS / _checked(log, "log")


def bucket_folder(path: Path, bucket: str) -> Path:
    """Where the documents of a bucket are."""
    return path / BUCKETS / _checked(bucket, "bucket")


def segment_name(first: int) -> str:
    """The file of the segment that begins with an offset: names sort as offsets do."""
    return f"{first:020d}{SEGMENT}"


def segments(folder: Path) -> list[Path]:
    """The segments of a log, in order; an index whose segment is missing tells of a loss."""
    files = sorted(folder.iterdir()) if folder.is_dir() else []
    found = [file for file in files if file.suffix == SEGMENT]
    for file in files:
        if file.suffix == INDEX and file.with_suffix(SEGMENT) not in found:
            raise ByteLocation(file).corrupt("the segment of this index is missing")
    return found


def names(path: Path, kind: str) -> list[str]:
    """The logs or the buckets of a recording."""
    folder = path / kind
    return sorted(entry.name for entry in folder.iterdir() if entry.is_dir()) if folder.is_dir() else []


def write_marker(path: Path) -> None:
    """Say that this folder is a recording."""
    document = json.dumps({"kind": KIND, "version": VERSION}) + "\n"
    put_file(path / MARKER, document.encode(), sync=True)


def check_marker(path: Path) -> None:
    """Refuse a folder that is no recording, or one of a later version."""
    marker = path / MARKER
    if not marker.is_file():
        raise NoRecording(path=str(path))
    try:
        with marker.open("rb") as file:
            document = json.loads(file.read(_MAX_MARKER))
        kind, version = document["kind"], document["version"]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise ByteLocation(marker).corrupt("this does not say what the folder is") from None
    if kind != KIND:
        raise ByteLocation(marker).corrupt("this does not say what the folder is")
    check_version(version, ByteLocation(marker))


def check_version(version: object, place: ByteLocation) -> None:
    """Refuse what a later thinwire wrote."""
    if version != VERSION:
        raise UnsupportedVersion(f"{place.file}: of a recording", version=version, known=VERSION)


def put_file(file: Path, data: bytes, *, sync: bool) -> None:
    """Write a whole file: either it is there and complete, or it is not there."""
    unfinished = file.with_name(file.name + UNFINISHED)
    with unfinished.open("wb") as out:
        out.write(data)
        if sync:
            out.flush()
            os.fsync(out.fileno())
    unfinished.replace(file)
    if sync:
        sync_folder(file.parent)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder last."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _checked(name: str, what: str) -> str:
    if not _NAME.fullmatch(name):
        raise ConfigError("use 1 to 240 letters, digits, _, ~ and -", **{what: name})
    return name


HEADER = struct.Struct("<4sIIIQII")
MAX_SUBJECTS = 1 << 16
MAX_BODY = 1 << 30
"""bytes of a block behind its header, at most"""

_MAGIC = b"TWB1"
_PER_MESSAGE, _PER_SUBJECT = 8 + 8 + 4 + 2, 2


class BlockHeader(NamedTuple):
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


class BlockColumns(NamedTuple):
    """The messages of a block; `ids` count into `names`, the n-th payload is `data[starts[n]:ends[n]]`."""

    offsets: npt.NDArray[np.int64]
    times: npt.NDArray[np.float64]
    ids: npt.NDArray[np.uint16]
    names: list[str]
    starts: npt.NDArray[np.int64]
    ends: npt.NDArray[np.int64]
    data: bytes

    def where(self, first: int, last: int, wanted: Callable[[str], bool] | None) -> BlockColumns:
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

    def _taken(self, chosen: slice | npt.NDArray[np.bool_]) -> BlockColumns:
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


def read_header(data: bytes, place: ByteLocation) -> BlockHeader:
    """The header at the beginning of a block."""
    magic, messages, subjects, names, payload, crc, check = HEADER.unpack_from(data)
    if crc32(data[: HEADER.size - 4]) != check or magic != _MAGIC:
        raise place.corrupt("the header of a block is not what was written")
    header = BlockHeader(messages, subjects, names, payload, crc)
    if not 0 < subjects <= min(messages, MAX_SUBJECTS) or header.size - HEADER.size > MAX_BODY:
        raise place.corrupt("a block outside its limits", **header._asdict())
    return header


def decode(data: bytes, place: ByteLocation) -> BlockColumns:
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
    return BlockColumns(offsets, times, ids, names, ends - lengths, ends, data)


def _names(data: bytes, at: int, header: BlockHeader, place: ByteLocation) -> list[str]:
    lengths = np.frombuffer(data, "<u2", header.subjects, at)
    return split_names(data[at + lengths.nbytes : at + lengths.nbytes + header.names], lengths, place)


def split_names(text: bytes, lengths: npt.NDArray[np.uint16], place: ByteLocation) -> list[str]:
    """Names that were written one behind the other."""
    ends = lengths.cumsum(dtype=np.int64).tolist()
    if (ends[-1] if ends else 0) != len(text):
        raise place.corrupt("the lengths of subjects contradict each other")
    try:
        return [text[start:end].decode() for start, end in zip([0, *ends], ends, strict=False)]
    except UnicodeDecodeError:
        raise place.corrupt("a subject that is no text") from None
