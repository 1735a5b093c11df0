"""Events that were asked for and cannot be had: an error that says where, or a number and a line in the log.

Blocks of a log taken apart: where offsets jump, and by publisher.

Ranges of a log, and what a log holds.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from thinwire.brokers.protocol import Block, LogSource, Span
from thinwire.codec import EventsMissed
from thinwire.errors import DataLoss, UnknownLog
from thinwire.topics.names import is_key, publisher_in


def pieces(block: Block, expected: int) -> Iterator[Block]:
    """The block, cut wherever messages are missing; those before `expected` are left out, for they came before."""
    start = int(np.searchsorted(block.offsets, expected))
    jumps = np.flatnonzero(np.diff(block.offsets[start:]) != 1) + start + 1
    cuts = [start, *jumps.tolist(), len(block.payloads)]
    for first, last in pairwise(cuts):
        if first < last:
            yield part(block, first, last)


def by_publisher(piece: Block) -> dict[str, Block]:
    """The messages of each publisher, in their order; the very block where there is only one."""
    names = {subject: publisher_in(subject) for subject in set(piece.subjects)}
    if len(set(names.values())) == 1:
        return {next(iter(names.values())): piece}
    places: dict[str, list[int]] = {}
    for place, subject in enumerate(piece.subjects):
        places.setdefault(names[subject], []).append(place)
    return {name: _chosen(piece, chosen) for name, chosen in sorted(places.items())}


def key_places(block: Block) -> list[int]:
    """Which messages begin a round of key frames?"""
    if not any(map(is_key, set(block.subjects))):
        return []
    return [place for place, subject in enumerate(block.subjects) if is_key(subject)]


def part(block: Block, first: int, last: int) -> Block:
    """Some of the messages one after the other; the very block where it is all of them."""
    if last - first == len(block.payloads):
        return block
    offsets, times, subjects, payloads = block
    return Block(offsets[first:last], times[first:last], subjects[first:last], payloads[first:last])


def _chosen(block: Block, places: list[int]) -> Block:
    return Block(
        block.offsets[places],
        block.times[places],
        [block.subjects[place] for place in places],
        [block.payloads[place] for place in places],
    )


NOTHING = Span(1, 0, 0, 0)


@dataclass(frozen=True)
class Range:
    """The messages from an offset to another, both included; nothing where `last` comes before `first`.

    >>> len(Range(3, 5)), bool(Range(3, 2))
    (3, False)
    """

    first: int
    last: int

    def __len__(self) -> int:
        return max(0, self.last - self.first + 1)

    def __bool__(self) -> bool:
        return self.last >= self.first


def span_of(source: LogSource, log: str) -> Span:
    """What a log holds; nothing, where there is no log."""
    try:
        return source.span(log)
    except UnknownLog:
        return NOTHING


OPTION = "failOnDataLoss"
REMADE = "the log was deleted, and perhaps made again"

_log = logging.getLogger("thinwire.landing")


class Losses:
    """The losses of one topic.

    fail: raise `DataLoss` at the first; else count and warn
    log: of which log the messages are meant to be, by when it was made; empty for the one that is there
    gone: messages that are no longer in the log; unreadable: places at which a publisher could not be followed;
    unfit: values that their column cannot hold

    >>> losses = Losses("rooms", fail=False)
    >>> losses.record_removed(3, 7)
    >>> losses.gone, losses.unreadable
    (5, 0)
    """

    def __init__(self, topic: str, *, fail: bool, log: str = "") -> None:
        self.topic = topic
        self.fail = fail
        self.log = log
        self.gone = 0
        self.unreadable = 0
        self.unfit = 0

    def held(self, wanted: Range, span: Span) -> Range:
        """What the log holds of what is asked for; the rest is gone, and all of it where this is another log."""
        if wanted and self.log not in ("", span.made):
            self.gone += len(wanted)
            self._report(DataLoss(REMADE, topic=self.topic, offset=wanted.first, last=wanted.last))
            return Range(wanted.first, wanted.first - 1)
        if wanted and wanted.first < span.first:
            self.record_removed(wanted.first, min(wanted.last, span.first - 1))
        if wanted and wanted.last > span.last:
            self.record_removed(max(wanted.first, span.last + 1), wanted.last)
        return Range(max(wanted.first, span.first), min(wanted.last, span.last))

    def record_removed(self, first: int, last: int) -> None:
        """These messages are no longer in the log, or never were."""
        self.gone += last - first + 1
        self._report(DataLoss("messages are no longer in the log", topic=self.topic, offset=first, last=last))

    def note_missed(self, offset: int, missed: EventsMissed) -> None:
        """A publisher could not be followed at this message."""
        self.note_unreadable(offset, missed.publisher, missed.reason)

    def note_unreadable(self, offset: int, publisher: str, reason: str) -> None:
        """A message, and perhaps those behind it up to the next key frames, cannot be read."""
        self.unreadable += 1
        detail = "a message cannot be read, nor what follows it up to the publisher's next key frames"
        self._report(DataLoss(detail, topic=self.topic, offset=offset, publisher=publisher, reason=reason))

    def note_unfit(self, offset: int, publisher: str, name: str) -> None:
        """A value has no place in its column, such as a fraction among counts; it is null there."""
        self.unfit += 1
        detail = "a value does not fit into its column, which would be null"
        self._report(DataLoss(detail, topic=self.topic, offset=offset, publisher=publisher, property=name))

    def _report(self, loss: DataLoss) -> None:
        if self.fail:
            raise DataLoss(loss.detail, **loss.facts, option=OPTION)
        _log.warning("%s", loss)
