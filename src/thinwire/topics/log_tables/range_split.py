"""Splitting an offset range into parts for concurrent tasks, each of which needs a short seek."""

from __future__ import annotations

from thinwire.brokers.protocol import LogSource, Stored
from thinwire.errors import PeerFault
from thinwire.topics.log_tables.offset_range import Range
from thinwire.topics.log_tables.source_broker import SourceSeeker, run_inline
from thinwire.topics.names import is_key, publisher_in
from thinwire.wire.key_frame import place_in_round

MAX_CHECKED = 64
"""publishers whose key frames are checked to estimate the cost of a split point"""
MAX_SEEK_SHARE = 0.25
"""messages that a seek may read, as a share of the part"""


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
        self._checkpoints = [one.offset + 1 for one in run_inline(seeker.checkpoints())]
        subjects = source.subjects(self._selection.log, self._selection.keys())
        self._publishers = sorted(map(publisher_in, subjects))[:MAX_CHECKED]

    def near(self, offset: int) -> int | None:
        """Return the split point nearest to an offset, or None if every seek near it would be long."""
        checkpoint = min(self._checkpoints, key=lambda first: abs(first - offset), default=None)
        if checkpoint is not None and abs(checkpoint - offset) <= self._width // 2:
            return checkpoint
        key = self._source.last(self._selection.log, self._selection.keys(), up_to=offset)
        if key is None or offset - key.offset > self._width // 2:
            return None
        first = key.offset + 1
        start = min(self._seek_start(name, first) for name in self._publishers)
        return first if first - start <= self._width * MAX_SEEK_SHARE else None

    def _seek_start(self, publisher: str, offset: int) -> int:
        start = run_inline(self._seeker.start_offset(publisher, offset))
        stored = self._source.last(self._selection.log, self._selection.keys(publisher), up_to=offset - 1)
        if stored is None or stored.offset != start or _covers_all_sources(stored):
            return start
        return run_inline(self._seeker.start_offset(publisher, start))


def _covers_all_sources(stored: Stored) -> bool:
    """Whether a message contains a complete key frame round."""
    try:
        place = place_in_round(stored.payload) if is_key(stored.subject) else None
    except PeerFault:
        return False
    return place is not None and place.begins and place.ends
