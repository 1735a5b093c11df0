"""Offset ranges: splitting for concurrent tasks, contiguous blocks of messages, and lost messages."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from thinwire.brokers.protocol import Block, LogSource, Span, StoredMessage, is_same_log, run_inline
from thinwire.errors import DataLoss, PeerFault
from thinwire.topics.log_tables.source_broker import SourceSeeker
from thinwire.topics.names import is_key, publisher_in
from thinwire.wire import read_key_frame

OPTION = "failOnDataLoss"
LOG_REPLACED = "the log was deleted, or deleted and created again"
MAX_CHECKED = 64
"""publishers whose key frames are checked to estimate the cost of a split point"""
MAX_SEEK_SHARE = 0.25
"""messages that a seek may read, as a share of the part"""

_log = logging.getLogger("thinwire.log_tables")


@dataclass(frozen=True)
class Range:
    """Offsets from `first` to `last`, both included; empty if `last` is less than `first`.

    >>> len(Range(3, 5)), bool(Range(3, 2))
    (3, False)
    """

    first: int
    last: int

    def __len__(self) -> int:
        return max(0, self.last - self.first + 1)

    def __bool__(self) -> bool:
        return self.last >= self.first


def contiguous_blocks(block: Block, first: int) -> Iterator[Block]:
    """Split a block where offsets are missing. Messages before offset `first` are left out."""
    start = int(np.searchsorted(block.offsets, first))
    gaps = np.flatnonzero(np.diff(block.offsets[start:]) != 1) + start + 1
    for begin, end in pairwise([start, *gaps.tolist(), len(block.payloads)]):
        if begin < end:
            yield block.slice(begin, end)


def read_contiguous(source: LogSource, log: str, present: Range, losses: Losses) -> Iterator[Block]:
    """Yield the messages of a range in blocks without gaps between their offsets. Missing messages are reported."""
    expected = present.first
    for block in source.read_blocks(log, present.first, present.last) if present else ():
        for part in contiguous_blocks(block, expected):
            if int(part.offsets[0]) > expected:
                losses.report_removed(expected, int(part.offsets[0]) - 1)
            expected = int(part.offsets[-1]) + 1
            yield part
    if expected <= present.last:
        losses.report_removed(expected, present.last)


def by_publisher(block: Block) -> dict[str, Block]:
    """Return the messages of each publisher, in order."""
    names = {subject: publisher_in(subject) for subject in set(block.subjects)}
    if len(set(names.values())) == 1:
        return {next(iter(names.values())): block}
    indices: dict[str, list[int]] = {}
    for index, subject in enumerate(block.subjects):
        indices.setdefault(names[subject], []).append(index)
    return {name: _select(block, chosen) for name, chosen in sorted(indices.items())}


def key_frame_indices(block: Block) -> list[int]:
    """Return the indices of the messages that start a key frame round."""
    if not any(map(is_key, set(block.subjects))):
        return []
    return [index for index, subject in enumerate(block.subjects) if is_key(subject)]


def _select(block: Block, indices: list[int]) -> Block:
    return Block(
        block.offsets[indices],
        block.times[indices],
        [block.subjects[index] for index in indices],
        [block.payloads[index] for index in indices],
    )


class Losses:
    """Reports lost messages and values of one topic.

    fail: raise `DataLoss` at the first loss; else log a warning for each
    log_id: identity of the log that the ranges belong to, "" for the existing one

    >>> Losses("rooms", fail=True).report_removed(3, 7)
    Traceback (most recent call last):
    thinwire.errors.DataLoss: ...: messages are no longer in the log: topic='rooms', offset=3, last=7, ...
    """

    def __init__(self, topic: str, *, fail: bool, log_id: str = "") -> None:
        self.topic = topic
        self.fail = fail
        self.log_id = log_id

    def clip(self, requested: Range, span: Span) -> Range:
        """Return the part of a range that the log contains and report the rest as removed."""
        if requested and not is_same_log(self.log_id, span.log_id):
            self._report(LOG_REPLACED, offset=requested.first, last=requested.last)
            return Range(requested.first, requested.first - 1)
        if requested and requested.first < span.first:
            self.report_removed(requested.first, min(requested.last, span.first - 1))
        if requested and requested.last > span.last:
            self.report_removed(max(requested.first, span.last + 1), requested.last)
        return Range(max(requested.first, span.first), min(requested.last, span.last))

    def report_removed(self, first: int, last: int) -> None:
        """Report messages that are not in the log."""
        self._report("messages are no longer in the log", offset=first, last=last)

    def report_unreadable(self, offset: int, publisher: str, reason: str) -> None:
        """Report a message that cannot be decoded. The publisher's events are lost up to its next key frames."""
        detail = "a message cannot be decoded, nor what follows it up to the publisher's next key frames"
        self._report(detail, offset=offset, publisher=publisher, reason=reason)

    def report_unfit(self, offset: int, publisher: str, name: str) -> None:
        """Report a value that does not fit its column, such as a fraction in an integer column. It becomes null."""
        self._report("a value does not fit the type of its column", offset=offset, publisher=publisher, property=name)

    def _report(self, detail: str, **facts: Any) -> None:
        if self.fail:
            raise DataLoss(detail, topic=self.topic, **facts, option=OPTION)
        _log.warning("%s", DataLoss(detail, topic=self.topic, **facts))


def split_range(source: LogSource, seeker: SourceSeeker, requested: Range, parts: int) -> list[Range]:
    """Split a range into at most `parts` ranges, in order; into fewer if starts of a seek are far apart."""
    width = len(requested) // max(parts, 1)
    if parts <= 1 or width < 2:
        return [requested] if requested else []
    finder = _SplitPoints(source, seeker, width)
    firsts = [requested.first]
    for number in range(1, parts):
        first = finder.near(requested.first + number * len(requested) // parts)
        if first is not None and firsts[-1] < first <= requested.last:
            firsts.append(first)
    return [Range(first, end - 1) for first, end in zip(firsts, [*firsts[1:], requested.last + 1], strict=True)]


class _SplitPoints:
    """Finds offsets directly after a checkpoint, or after key frames that contain every source in one message."""

    def __init__(self, source: LogSource, seeker: SourceSeeker, width: int) -> None:
        self._source = source
        self._selection = seeker.selection
        self._seeker = seeker
        self._width = width
        self._checkpoints = [checkpoint.offset + 1 for checkpoint in run_inline(seeker.checkpoints())]
        subjects = source.subjects(self._selection.log, self._selection.key_subject())
        self._publishers = sorted(map(publisher_in, subjects))[:MAX_CHECKED]

    def near(self, offset: int) -> int | None:
        """Return the split point nearest to an offset, or None if every seek near it would be long."""
        checkpoint = min(self._checkpoints, key=lambda first: abs(first - offset), default=None)
        if checkpoint is not None and abs(checkpoint - offset) <= self._width // 2:
            return checkpoint
        key = self._source.last(self._selection.log, self._selection.key_subject(), up_to=offset)
        if key is None or offset - key.offset > self._width // 2:
            return None
        first = key.offset + 1
        start = min(self._seek_start(name, first) for name in self._publishers)
        return first if first - start <= self._width * MAX_SEEK_SHARE else None

    def _seek_start(self, publisher: str, offset: int) -> int:
        start = run_inline(self._seeker.start_offset(publisher, offset))
        stored = self._source.last(self._selection.log, self._selection.key_subject(publisher), up_to=offset - 1)
        if stored is None or stored.offset != start or _covers_all_sources(stored):
            return start
        return run_inline(self._seeker.start_offset(publisher, start))


def _covers_all_sources(stored: StoredMessage) -> bool:
    """Return whether a message contains a complete key frame round."""
    try:
        key = read_key_frame(stored.payload) if is_key(stored.subject) else None
    except PeerFault:
        return False
    return key is not None and key.is_first and key.is_last
