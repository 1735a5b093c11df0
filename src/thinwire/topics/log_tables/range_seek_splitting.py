"""Cutting a range into parts that can be read side by side, each from a place near which its links can begin."""

from __future__ import annotations

from thinwire.brokers.protocol_broker import Stored
from thinwire.brokers.protocol_source import LogSource
from thinwire.errors import PeerFault
from thinwire.topics.log_position_track import Track
from thinwire.topics.log_tables.offset_range_ranges import Range
from thinwire.topics.log_tables.range_seek import Seeker
from thinwire.topics.names import is_key, publisher_in
from thinwire.wire.key_frame_rounds import place_in_round

LOOKED_AT = 64
"""publishers whose key frames are looked at to judge a place to cut"""
SMALL = 0.25
"""what may have to be read before a part, as a share of the part"""


def split(source: LogSource, topic: str, seeker: Seeker, wanted: Range, parts: int) -> list[Range]:
    """At most so many parts, in order, that make up the range; fewer where places to begin are far apart."""
    width = len(wanted) // max(parts, 1)
    if parts <= 1 or width < 2:
        return [wanted] if wanted else []
    cutter = _Cutter(source, topic, seeker, width)
    cuts: list[int] = []
    for number in range(1, parts):
        cut = cutter.near(wanted.first + number * len(wanted) // parts)
        if cut is not None and (cuts or [wanted.first])[-1] < cut <= wanted.last:
            cuts.append(cut)
    return [Range(first, last - 1) for first, last in zip([wanted.first, *cuts], [*cuts, wanted.last + 1], strict=True)]


class _Cutter:
    """Finds places to cut: behind a checkpoint, or behind key frames that tell everything at once."""

    def __init__(self, source: LogSource, topic: str, seeker: Seeker, width: int) -> None:
        self._source = source
        self._track = Track(topic)
        self._seeker = seeker
        self._width = width
        subjects = source.subjects(self._track.log, self._track.keys())
        self._publishers = sorted(publisher_in(subject) for subject in subjects)[:LOOKED_AT]

    def near(self, place: int) -> int | None:
        """The place to cut near this one; None where all would need too much reading before them."""
        kept = min(self._seeker.kept, key=lambda offset: abs(offset + 1 - place), default=None)
        if kept is not None and abs(kept + 1 - place) <= self._width // 2:
            return kept + 1
        key = self._source.last(self._track.log, self._track.keys(), up_to=place)
        if key is None or place - key.offset > self._width // 2:
            return None
        cut = key.offset + 1
        reach = min(self._reach(name, cut) for name in self._publishers)
        return cut if cut - reach <= self._width * SMALL else None

    def _reach(self, publisher: str, cut: int) -> int:
        """From where a publisher would have to be read to stand at the cut."""
        first = self._seeker.reach(publisher, cut)
        stored = self._source.last(self._track.log, self._track.keys(publisher), up_to=cut - 1)
        if stored is None or stored.offset != first or _tells_all(stored):
            return first
        return self._seeker.reach(publisher, first)


def _tells_all(stored: Stored) -> bool:
    """Do these key frames tell of every source in one message?"""
    try:
        place = place_in_round(stored.payload) if is_key(stored.subject) else None
    except PeerFault:
        return False
    return place is not None and place.begins and place.ends
