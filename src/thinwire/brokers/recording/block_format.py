"""Files of a recording, and the format of a block. docs/recordings.md describes both.

A block holds messages in columns:

    header    32 bytes: magic, number of messages, number of subjects, bytes of their names, bytes of all payloads,
              CRC-32 of the body, CRC-32 of the 28 bytes before it
    body      offsets (int64), times (float64), lengths of payloads (uint32), indexes of subjects (uint16), lengths of
              the subjects' names (uint16), the names, the payloads

All numbers are little-endian. A block contains its own list of subjects, so it can be read without other blocks.

>>> segment_name(17)
'00000000000000000017.seg'
"""

from __future__ import annotations

import json
import os
import re
import struct
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np
import numpy.typing as npt

from thinwire.brokers.protocol import Block, StoredMessage
from thinwire.errors import ConfigError, CorruptRecording, MissingData, UnsupportedVersion

VERSION = 1
KIND = "thinwire recording"
MARKER = "recording.json"
LOGS, BUCKETS = "logs", "buckets"
SEGMENT, INDEX, UNFINISHED = ".seg", ".idx", ".tmp"

_NAME = re.compile(r"[A-Za-z0-9_~-]{1,240}")
_MAX_MARKER = 4_096


class ByteLocation(NamedTuple):
    """Position in a file, for errors."""

    file: Path
    byte: int = 0

    def corrupt(self, detail: str, **facts: Any) -> CorruptRecording:
        """Return the error to raise. The text contains the file because long values of `facts` are shortened."""
        return CorruptRecording(f"{self.file}: {detail}", byte=self.byte, **facts)


def log_folder(path: Path, log: str) -> Path:
    """Return the folder of a log's segments."""
    return path / LOGS / _check_name(log, "log")


def bucket_folder(path: Path, bucket: str) -> Path:
    """Return the folder of a bucket's documents."""
    return path / BUCKETS / _check_name(bucket, "bucket")


def segment_name(first: int) -> str:
    """Return the file name of the segment that begins with an offset. Names sort like offsets."""
    return f"{first:020d}{SEGMENT}"


def segments(folder: Path) -> list[Path]:
    """Return the segments of a log in order. Raise `CorruptRecording` for an index without its segment."""
    files = sorted(folder.iterdir()) if folder.is_dir() else []
    found = [file for file in files if file.suffix == SEGMENT]
    for file in files:
        if file.suffix == INDEX and file.with_suffix(SEGMENT) not in found:
            raise ByteLocation(file).corrupt("the segment of this index is missing")
    return found


def list_names(path: Path, collection: str) -> list[str]:
    """Return the names of a recording's logs or buckets; collection: `LOGS` or `BUCKETS`."""
    folder = path / collection
    return sorted(entry.name for entry in folder.iterdir() if entry.is_dir()) if folder.is_dir() else []


def write_marker(path: Path) -> None:
    """Mark a folder as a recording."""
    document = json.dumps({"kind": KIND, "version": VERSION}) + "\n"
    put_file(path / MARKER, document.encode(), sync=True)


def check_marker(path: Path) -> None:
    """Raise `MissingData` if the folder is not a recording, `UnsupportedVersion` if it has a later version."""
    marker = path / MARKER
    if not marker.is_file():
        raise MissingData(
            "no recording in this folder",
            path=str(path),
            advice="Name the folder that `thinwire record TOPIC --to FOLDER` wrote.",
        )
    try:
        with marker.open("rb") as file:
            document = json.loads(file.read(_MAX_MARKER))
        kind, version = document["kind"], document["version"]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise ByteLocation(marker).corrupt("invalid marker of a recording") from None
    if kind != KIND:
        raise ByteLocation(marker).corrupt("invalid marker of a recording")
    check_version(version, ByteLocation(marker))


def check_version(version: object, location: ByteLocation) -> None:
    """Raise `UnsupportedVersion` unless a file has the version of this module."""
    if version != VERSION:
        raise UnsupportedVersion(f"{location.file}: recording of another version", version=version, known=VERSION)


def put_file(file: Path, data: bytes, *, sync: bool) -> None:
    """Write a file atomically: it exists completely or not at all."""
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
    """Write the directory entries to disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _check_name(name: str, what: str) -> str:
    if not _NAME.fullmatch(name):
        raise ConfigError("use 1 to 240 letters, digits, _, ~ and -", **{what: name})
    return name


HEADER = struct.Struct("<4sIIIQII")
MAX_SUBJECTS = 1 << 16
MAX_BODY = 1 << 30
"""bytes of a block after its header"""

_MAGIC = b"TWB1"
_PER_MESSAGE, _PER_SUBJECT = 8 + 8 + 4 + 2, 2


class BlockHeader(NamedTuple):
    """Numbers of messages and of subjects in a block, and the sizes of its parts in bytes."""

    messages: int
    subjects: int
    name_bytes: int
    payload_bytes: int
    crc: int

    @property
    def size(self) -> int:
        """Bytes of the block, header included."""
        columns = self.messages * _PER_MESSAGE + self.subjects * _PER_SUBJECT
        return HEADER.size + columns + self.name_bytes + self.payload_bytes


class BlockColumns(NamedTuple):
    """The messages of a block. `ids` are indexes into `names`; payload n is `data[starts[n]:ends[n]]`."""

    offsets: npt.NDArray[np.int64]
    times: npt.NDArray[np.float64]
    ids: npt.NDArray[np.uint16]
    names: list[str]
    starts: npt.NDArray[np.int64]
    ends: npt.NDArray[np.int64]
    data: bytes

    def select(self, first: int, last: int, is_wanted: Callable[[str], bool] | None) -> BlockColumns:
        """Return the messages between two offsets, both included, under wanted subjects."""
        left, right = np.searchsorted(self.offsets, [first, last + 1])
        part = self if right - left == len(self.offsets) else self._rows(slice(left, right))
        if is_wanted is None:
            return part
        chosen = np.array([is_wanted(name) for name in self.names], bool)
        return part if chosen.all() else part._rows(chosen[part.ids])

    def message(self, index: int) -> StoredMessage:
        payload = self.data[self.starts[index] : self.ends[index]]
        return StoredMessage(int(self.offsets[index]), self.names[self.ids[index]], payload, float(self.times[index]))

    def block(self) -> Block:
        """Return the block as `LogSource.read_blocks` yields it."""
        data = self.data
        payloads = [data[start:end] for start, end in zip(self.starts.tolist(), self.ends.tolist(), strict=True)]
        subjects = list(map(self.names.__getitem__, self.ids.tolist()))
        return Block(self.offsets, self.times, subjects, payloads)

    def _rows(self, chosen: slice | npt.NDArray[np.bool_]) -> BlockColumns:
        return self._replace(
            offsets=self.offsets[chosen],
            times=self.times[chosen],
            ids=self.ids[chosen],
            starts=self.starts[chosen],
            ends=self.ends[chosen],
        )


def encode(messages: Sequence[StoredMessage]) -> bytes:
    """Return the bytes of a block."""
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
    header = HEADER.pack(_MAGIC, len(offsets), len(names), *sizes, crc32(body), 0)[:-4]
    return header + crc32(header).to_bytes(4, "little") + body


def read_header(data: bytes, location: ByteLocation) -> BlockHeader:
    """Parse and check the header of a block."""
    magic, messages, subjects, name_bytes, payload_bytes, crc, check = HEADER.unpack_from(data)
    if crc32(data[: HEADER.size - 4]) != check or magic != _MAGIC:
        raise location.corrupt("invalid checksum or magic in the header of a block")
    header = BlockHeader(messages, subjects, name_bytes, payload_bytes, crc)
    if not 0 < subjects <= min(messages, MAX_SUBJECTS) or header.size - HEADER.size > MAX_BODY:
        raise location.corrupt("a block exceeds its limits", **header._asdict())
    return header


def decode(data: bytes, location: ByteLocation) -> BlockColumns:
    """Parse a block. The checksum is verified first."""
    header = read_header(data, location)
    if len(data) != header.size:
        raise location.corrupt("wrong length of a block", bytes=len(data), expected=header.size)
    if crc32(memoryview(data)[HEADER.size :]) != header.crc:
        raise location.corrupt("invalid checksum of a block", bytes=header.size)
    count, begin = header.messages, HEADER.size
    offsets = np.frombuffer(data, "<i8", count, begin)
    times = np.frombuffer(data, "<f8", count, begin + 8 * count)
    lengths = np.frombuffer(data, "<u4", count, begin + 16 * count)
    ids = np.frombuffer(data, "<u2", count, begin + 20 * count)
    begin += _PER_MESSAGE * count
    name_lengths = np.frombuffer(data, "<u2", header.subjects, begin)
    begin += name_lengths.nbytes
    names = split_names(data[begin : begin + header.name_bytes], name_lengths, location)
    ends = lengths.cumsum(dtype=np.int64) + (header.size - header.payload_bytes)
    if ends[-1] != header.size or ids.max() >= header.subjects or offsets[0] < 0 or (offsets[1:] <= offsets[:-1]).any():
        raise location.corrupt("inconsistent columns of a block")
    return BlockColumns(offsets, times, ids, names, ends - lengths, ends, data)


def split_names(text: bytes, lengths: npt.NDArray[np.uint16], location: ByteLocation) -> list[str]:
    """Split concatenated names."""
    ends = lengths.cumsum(dtype=np.int64).tolist()
    if (ends[-1] if ends else 0) != len(text):
        raise location.corrupt("inconsistent lengths of subjects")
    try:
        return [text[start:end].decode() for start, end in zip([0, *ends], ends, strict=False)]
    except UnicodeDecodeError:
        raise location.corrupt("a subject is not UTF-8") from None
