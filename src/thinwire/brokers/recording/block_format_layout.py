"""Where the parts of a recording lie: the names of docs/recordings.md.

>>> segment_name(17)
'00000000000000000017.seg'
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any, NamedTuple

from thinwire.errors import ConfigError, CorruptRecording, NoRecording, UnsupportedVersion

VERSION = 1
KIND = "thinwire recording"
MARKER = "recording.json"
LOGS, BUCKETS = "logs", "buckets"
SEGMENT, INDEX, UNFINISHED = ".seg", ".idx", ".tmp"

_NAME = re.compile(r"[A-Za-z0-9_~-]{1,240}")
_MAX_MARKER = 4_096


class Place(NamedTuple):
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
            raise Place(file).corrupt("the segment of this index is missing")
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
        raise Place(marker).corrupt("this does not say what the folder is") from None
    if kind != KIND:
        raise Place(marker).corrupt("this does not say what the folder is")
    check_version(version, Place(marker))


def check_version(version: object, place: Place) -> None:
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
