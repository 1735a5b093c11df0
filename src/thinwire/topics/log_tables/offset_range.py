"""Offset ranges, contiguous blocks of messages, and lost messages."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from thinwire.brokers.protocol import Block, Span, is_same_log
from thinwire.codec import EventsMissed
from thinwire.errors import DataLoss
from thinwire.topics.names import is_key, publisher_in

OPTION = "failOnDataLoss"
LOG_REPLACED = "the log was deleted, or deleted and created again"

_log = logging.getLogger("thinwire.landing")


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
            yield slice_block(block, begin, end)


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


def slice_block(block: Block, first: int, last: int) -> Block:
    """Return the messages with indices from `first` up to, but not including, `last`."""
    if last - first == len(block.payloads):
        return block
    offsets, times, subjects, payloads = block
    return Block(offsets[first:last], times[first:last], subjects[first:last], payloads[first:last])


def _select(block: Block, indices: list[int]) -> Block:
    return Block(
        block.offsets[indices],
        block.times[indices],
        [block.subjects[index] for index in indices],
        [block.payloads[index] for index in indices],
    )


class Losses:
    """Lost messages and values of one topic.

    fail: raise `DataLoss` at the first loss; else count it and log a warning
    log_id: identity of the log that the ranges belong to, "" for the existing one
    removed: messages that are not in the log; unreadable: messages that a decoder refused or could not follow
    unfit: values that do not fit the type of their column

    >>> losses = Losses("rooms", fail=False)
    >>> losses.record_removed(3, 7)
    >>> losses.removed, losses.unreadable
    (5, 0)
    """

    def __init__(self, topic: str, *, fail: bool, log_id: str = "") -> None:
        self.topic = topic
        self.fail = fail
        self.log_id = log_id
        self.removed = 0
        self.unreadable = 0
        self.unfit = 0

    def clip(self, requested: Range, span: Span) -> Range:
        """Return the part of a range that the log contains and record the rest as removed."""
        if requested and not is_same_log(self.log_id, span.log_id):
            self.removed += len(requested)
            self._report(DataLoss(LOG_REPLACED, topic=self.topic, offset=requested.first, last=requested.last))
            return Range(requested.first, requested.first - 1)
        if requested and requested.first < span.first:
            self.record_removed(requested.first, min(requested.last, span.first - 1))
        if requested and requested.last > span.last:
            self.record_removed(max(requested.first, span.last + 1), requested.last)
        return Range(max(requested.first, span.first), min(requested.last, span.last))

    def record_removed(self, first: int, last: int) -> None:
        """Record messages that are not in the log."""
        self.removed += last - first + 1
        self._report(DataLoss("messages are no longer in the log", topic=self.topic, offset=first, last=last))

    def record_missed(self, offset: int, missed: EventsMissed) -> None:
        """Record a loss that a decoder found at this message."""
        self.record_unreadable(offset, missed.publisher, missed.reason)

    def record_unreadable(self, offset: int, publisher: str, reason: str) -> None:
        """Record a message that cannot be decoded. The publisher's events are lost up to its next key frames."""
        self.unreadable += 1
        detail = "a message cannot be decoded, nor what follows it up to the publisher's next key frames"
        self._report(DataLoss(detail, topic=self.topic, offset=offset, publisher=publisher, reason=reason))

    def record_unfit(self, offset: int, publisher: str, name: str) -> None:
        """Record a value that does not fit its column, such as a fraction in an integer column. It becomes null."""
        self.unfit += 1
        detail = "a value does not fit the type of its column"
        self._report(DataLoss(detail, topic=self.topic, offset=offset, publisher=publisher, property=name))

    def _report(self, loss: DataLoss) -> None:
        if self.fail:
            raise DataLoss(loss.detail, **loss.facts, option=OPTION)
        _log.warning("%s", loss)
