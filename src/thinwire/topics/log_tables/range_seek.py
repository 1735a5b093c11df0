"""Bringing receiving ends to a place of a log: where a reader from the beginning would stand, without having read it.

The nearest start before the place is a checkpoint of the publisher's link or the beginning of a round of key frames.
From there everything is read in silence. Where a round was not complete by the place, the one before it is tried.

Cutting a range into parts that can be read side by side, each from a place near which its links can begin.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import NamedTuple

from thinwire.brokers.protocol import LogSource, Span, Stored
from thinwire.codec import State, StreamDecoder
from thinwire.codec.stream_snapshot import into_subscriber
from thinwire.errors import CorruptCheckpoint, PeerFault, RegistryError, UnknownSchema
from thinwire.topics.checkpoint_store import Checkpoint, index_key, read_index
from thinwire.topics.log_position import LogSelection
from thinwire.topics.log_seek import ROUNDS
from thinwire.topics.log_tables.offset_range import Range
from thinwire.topics.log_tables.table_layout import TopicSchemas
from thinwire.topics.names import CHECKPOINTS, is_key, log_of, publisher_in, publisher_subjects
from thinwire.wire.key_frame import place_in_round

FILTERED = 64
"""publishers to ask the broker for by name; of more, everything is read"""

_log = logging.getLogger("thinwire.landing")


class RangeStart(NamedTuple):
    """Where a link begins to read, what it is then, and whether there may be an earlier place that tells more."""

    link: StreamDecoder
    first: int
    by_keys: bool


class Seeker:
    """The ways into one topic's log.

    read: messages read in silence so far
    """

    def __init__(self, source: LogSource, topic: str, schemas: TopicSchemas, span: Span) -> None:
        self.read = 0
        self._source = source
        self._track = LogSelection(topic)
        self._schemas = schemas
        self._whole = span.messages == span.last - span.first + 1
        self._checkpoints = _checkpoints(source, topic, span)

    def fresh(self, publisher: str) -> StreamDecoder:
        """A link that knows nothing."""
        schemas = self._schemas
        return StreamDecoder(schemas.lookup, publisher=publisher, resync="wait", dictionaries=schemas.dictionary)

    def bring(self, publishers: Iterable[str], place: int) -> dict[str, StreamDecoder]:
        """Links of those publishers that the log or a checkpoint tells of before the place, brought there."""
        found = {name: self._start(name, place) for name in publishers}
        started = {name: start for name, start in found.items() if start is not None}
        waiting = dict(started)
        for _ in range(ROUNDS):
            self._run_up(waiting, place)
            waiting = self._earlier(waiting)
            if not waiting:
                break
            started |= waiting
        for start in started.values():
            start.link.include_suppressed = True
        return {name: start.link for name, start in started.items()}

    def reach(self, publisher: str, place: int) -> int:
        """The offset from which this publisher's link would have to read to stand at a place; the place itself where
        nothing has to be read."""
        key = self._source.last(self._track.log, self._track.keys(publisher), up_to=place - 1)
        kept = self._kept(publisher, place)
        return max(key.offset if key is not None else 0, kept.offset + 1 if kept is not None else 0) or place

    @property
    def kept(self) -> list[int]:
        """The offsets of the checkpoints that can be used."""
        return [one.offset for one in self._checkpoints]

    def _start(self, publisher: str, before: int) -> RangeStart | None:
        """The last start before a place."""
        key = self._source.last(self._track.log, self._track.keys(publisher), up_to=before - 1)
        kept = self._kept(publisher, before)
        if kept is not None and (key is None or kept.offset >= key.offset):
            restored = self._restored(publisher, kept)
            if restored is not None:
                return RangeStart(restored, kept.offset + 1, by_keys=False)
        return RangeStart(self.fresh(publisher), key.offset, by_keys=True) if key is not None else None

    def _kept(self, publisher: str, before: int) -> Checkpoint | None:
        usable = (
            one
            for one in reversed(self._checkpoints)
            if one.offset < before and self._track.part(publisher) in one.parts
        )
        return next(usable, None)

    def _restored(self, publisher: str, kept: Checkpoint) -> StreamDecoder | None:
        name = self._track.part(publisher)
        pieces = [self._source.document(CHECKPOINTS, key) for key in kept.pieces(name)]
        try:
            return restored(self.fresh, publisher, kept.assembled(name, pieces), self._schemas)
        except (CorruptCheckpoint, UnknownSchema) as problem:
            _log.warning("%s: the checkpoint at %d is left aside: %s", kept.topic, kept.offset, problem)
            return None

    def _earlier(self, starts: dict[str, RangeStart]) -> dict[str, RangeStart]:
        """For those that key frames have not told everything, the start before, if there is one."""
        lost = {name: one for name, one in starts.items() if one.by_keys and one.link.state is not State.READY}
        found = {name: self._start(name, one.first) for name, one in lost.items()}
        return {name: one for name, one in found.items() if one is not None}

    def _run_up(self, starts: dict[str, RangeStart], place: int) -> None:
        """Feed the links everything from their starts up to the place, which is not fed itself."""
        first = min((one.first for one in starts.values()), default=place)
        if first >= place:
            return
        filtered = self._whole and len(starts) <= FILTERED
        subjects = [self._track.subjects(name) for name in sorted(starts)] if filtered else ()
        for one in starts.values():
            one.link.include_suppressed = False
        before = first - 1
        for block in self._source.read_blocks(self._track.log, first, place - 1, subjects=subjects):
            self.read += len(block.payloads)
            for offset, subject, payload in zip(block.offsets.tolist(), block.subjects, block.payloads, strict=True):
                if not filtered and offset > before + 1:
                    _lose(starts, before)
                before = offset
                start = starts.get(publisher_in(subject))
                if start is not None and offset >= start.first:
                    self._feed(start.link, payload, offset)

    def _feed(self, link: StreamDecoder, payload: bytes, offset: int) -> None:
        """One message in silence; a link that cannot read it is lost, and stays so until the next key frames."""
        try:
            link.receive(payload, now=0.0)
        except UnknownSchema as unknown:
            if self._schemas.learn(bytes.fromhex(unknown.fingerprint)):
                link.receive(payload, now=0.0)
        except PeerFault as fault:
            link.lose("refused")
            _log.warning("%s: the message at %d cannot be read: %s", link.publisher, offset, fault)


def restored(
    fresh: Callable[[str], StreamDecoder], publisher: str, data: bytes, schemas: TopicSchemas
) -> StreamDecoder:
    """A link as it was when its state was kept; raises `CorruptCheckpoint` or `UnknownSchema`."""
    link = fresh(publisher)
    try:
        into_subscriber(link, data)
    except UnknownSchema as unknown:
        schemas.learn(bytes.fromhex(unknown.fingerprint))
        into_subscriber(link, data)
    return link


def _lose(starts: dict[str, RangeStart], offset: int) -> None:
    """Messages after this offset are gone: whoever had begun to read knows nothing any more."""
    for one in starts.values():
        if one.first <= offset:
            one.link.lose("gap")


def _checkpoints(source: LogSource, topic: str, span: Span) -> list[Checkpoint]:
    """The checkpoints from which this log can be read on."""
    value = source.document(CHECKPOINTS, index_key(topic))
    try:
        found = read_index(topic, value) if value is not None else []
    except RegistryError as problem:
        _log.warning("%s: the index of checkpoints cannot be read: %s", topic, problem)
        return []
    usable = [one for one in found if one.complete and span.first - 1 <= one.offset <= span.last]
    return [one for one in usable if _is_of_this_log(source, topic, one)]


def _is_of_this_log(source: LogSource, topic: str, checkpoint: Checkpoint) -> bool:
    """Was the message before it there when it was taken? A log may have been deleted and made again."""
    stored = source.last(log_of(topic), publisher_subjects(topic), up_to=checkpoint.offset)
    return stored is None or stored.time <= checkpoint.time


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
        self._track = LogSelection(topic)
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
        if stored is None or stored.offset != first or _covers_all_sources(stored):
            return first
        return self._seeker.reach(publisher, first)


def _covers_all_sources(stored: Stored) -> bool:
    """Do these key frames tell of every source in one message?"""
    try:
        place = place_in_round(stored.payload) if is_key(stored.subject) else None
    except PeerFault:
        return False
    return place is not None and place.begins and place.ends
