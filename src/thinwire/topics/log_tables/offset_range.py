"""Events that were asked for and cannot be had: an error that says where, or a number and a line in the log."""

from __future__ import annotations

import logging

from thinwire.brokers.protocol_broker import Span
from thinwire.codec import Missed
from thinwire.errors import DataLoss
from thinwire.topics.log_tables.offset_range_ranges import Range

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
    >>> losses.note_gone(3, 7)
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
            self._tell(DataLoss(REMADE, topic=self.topic, offset=wanted.first, last=wanted.last))
            return Range(wanted.first, wanted.first - 1)
        if wanted and wanted.first < span.first:
            self.note_gone(wanted.first, min(wanted.last, span.first - 1))
        if wanted and wanted.last > span.last:
            self.note_gone(max(wanted.first, span.last + 1), wanted.last)
        return Range(max(wanted.first, span.first), min(wanted.last, span.last))

    def note_gone(self, first: int, last: int) -> None:
        """These messages are no longer in the log, or never were."""
        self.gone += last - first + 1
        self._tell(DataLoss("messages are no longer in the log", topic=self.topic, offset=first, last=last))

    def note_missed(self, offset: int, missed: Missed) -> None:
        """A publisher could not be followed at this message."""
        self.note_unreadable(offset, missed.publisher, missed.reason)

    def note_unreadable(self, offset: int, publisher: str, reason: str) -> None:
        """A message, and perhaps those behind it up to the next key frames, cannot be read."""
        self.unreadable += 1
        detail = "a message cannot be read, nor what follows it up to the publisher's next key frames"
        self._tell(DataLoss(detail, topic=self.topic, offset=offset, publisher=publisher, reason=reason))

    def note_unfit(self, offset: int, publisher: str, name: str) -> None:
        """A value has no place in its column, such as a fraction among counts; it is null there."""
        self.unfit += 1
        detail = "a value does not fit into its column, which would be null"
        self._tell(DataLoss(detail, topic=self.topic, offset=offset, publisher=publisher, property=name))

    def _tell(self, loss: DataLoss) -> None:
        if self.fail:
            raise DataLoss(loss.detail, **loss.facts, option=OPTION)
        _log.warning("%s", loss)
