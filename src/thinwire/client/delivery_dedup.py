"""What has been handed out already, where the reader of one feed goes on with another that begins before that.

The events of a log and of a channel carry the same numbers. So a subscription that goes over needs no common place in
both: the new feed begins early enough, and what it tells again is recognised source by source, until it is past.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from thinwire.codec import EventsMissed, State, StreamDecoder
from thinwire.schema import Event
from thinwire.topics.log_decoder import LogDecoder
from thinwire.topics.log_position import ChannelPosition
from thinwire.wire.control_frames import MAX_SKIP

Source = tuple[Any, ...]


class Last(NamedTuple):
    """The last event of a source that was handed out: the life of its publisher, and the event's number in it."""

    life: int
    ordinal: int


DeliveredEvents = dict[str, dict[Source, Last]]
"""the last event handed out, by publisher and source"""


class DeliveryDedup:
    """Events at or below it have been handed out.

    told: by source; positions: by publisher, of a log in which everything up to there was handed out

    >>> floor = DeliveryDedup({"p1": {("T1",): Last(1, 7)}})
    >>> again = [Event({"t": n}, source=("T1",), ordinal=n, incarnation=1, bound={}) for n in (6, 7, 9)]
    >>> kept, missed = floor.above("p1", 120, again)
    >>> [event.ordinal for event in kept], [(gap.first, gap.last) for gap in missed], bool(floor)
    ([9], [], False)
    """

    def __init__(
        self, told: DeliveredEvents | None = None, positions: Mapping[str, ChannelPosition] | None = None
    ) -> None:
        self.told: DeliveredEvents = {
            publisher: dict(sources) for publisher, sources in (told or {}).items() if sources
        }
        self._positions = dict(positions or {})
        self._passed: tuple[int, str, dict[Source, Last]] = 0, "", {}

    def __bool__(self) -> bool:
        return bool(self.told or self._positions)

    def __len__(self) -> int:
        return sum(map(len, self.told.values()))

    def above(
        self, publisher: str, offset: int, events: list[Event], *, whole: bool = True
    ) -> tuple[list[Event], list[EventsMissed]]:
        """Those of a message's events that are new, and what is missing before them.

        offset: of the message; whole: are all events of a source here, so that a jump of its numbers is a loss?
        """
        if publisher in self._positions:
            events = self._behind(publisher, offset, events)
        told = self.told.get(publisher)
        if told is None:
            return events, []
        kept, missed, passed = list[Event](), list[EventsMissed](), dict[Source, Last]()
        self._passed = offset, publisher, passed
        for event in events:
            last = told.get(event.source)
            if last is not None:
                reached = Last(event.incarnation, event.ordinal)
                if reached >= last:
                    passed[event.source] = told.pop(event.source)
                if reached <= last:
                    continue
                if whole and event.incarnation == last.life and event.ordinal > last.ordinal + 1:
                    missed.append(EventsMissed(publisher, event.source, last.ordinal + 1, event.ordinal - 1, "gap"))
            kept.append(event)
        if not told:
            del self.told[publisher]
        return kept, missed

    def lower(self, publisher: str) -> None:
        """Whatever comes of this publisher from now on is new."""
        self.told.pop(publisher, None)
        self._positions.pop(publisher, None)

    def before(self, offset: int) -> DeliveryDedup:
        """The floor as it was before the message at this offset, if that was the last one looked at."""
        at, publisher, passed = self._passed
        if at != offset or not passed:
            return self
        return DeliveryDedup({**self.told, publisher: self.told.get(publisher, {}) | passed}, self._positions)

    def _behind(self, publisher: str, offset: int, events: list[Event]) -> list[Event]:
        """The events behind a position in the log: all of a later message, but for the first few of the next one."""
        position = self._positions[publisher]
        if offset <= position.offset:
            return []
        del self._positions[publisher]
        return events[position.within :]


class FeedReconciliation(NamedTuple):
    """Two feeds side by side: what only the old one can still hand out, by link, what nobody can, and a new floor."""

    rest: list[tuple[StreamDecoder, list[Event]]]
    missed: list[EventsMissed]
    floor: DeliveryDedup


def reconcile_feeds(old: LogDecoder, new: LogDecoder, floor: DeliveryDedup) -> FeedReconciliation:
    """Go over from links that stand somewhere to others that are at their place.

    Where the new feed stands further than the old one was told, its sources were passed over in silence in between: the
    old links know what was expected of them, and hand it out. floor: that of the old feed, as far as it still has one
    """
    told: DeliveredEvents = {}
    meeting = FeedReconciliation([], [], DeliveryDedup())
    for publisher, link in old.links.items():
        pending, reached = floor.told.get(publisher, {}), _reached(new.links.get(publisher))
        life = _life(new.links.get(publisher))
        ready, events = link.state is State.READY, list[Event]()
        behind = told[publisher] = {}
        for source, stands, alias in _iterate_last_events(link):
            last = max(stands, pending.get(source, stands))
            at = reached.get(source, Last(0, 0))
            if at < last and last.life >= life:  # of a life that is over the new feed tells nothing any more
                behind[source] = last
            elif at.life == last.life and at.ordinal > last.ordinal:
                if ready and alias is not None:
                    silent = _expand_suppressed(link, alias, at.ordinal - stands.ordinal)
                    events += [event for event in silent if event.ordinal > last.ordinal]
                else:
                    meeting.missed.append(EventsMissed(publisher, source, last.ordinal + 1, at.ordinal, "gap"))
        if events:
            meeting.rest.append((link, events))
    return meeting._replace(floor=DeliveryDedup(told))


def _iterate_last_events(link: StreamDecoder) -> Iterator[tuple[Source, Last, int | None]]:
    """The last event of every source, and its place among the known ones; None for one that is only remembered."""
    decoder_state = link.decoder_state
    keys = decoder_state.expander.keys if decoder_state is not None else []
    if decoder_state is not None:
        for alias, key in enumerate(keys):
            if key is not None:
                yield key, Last(decoder_state.incarnation, decoder_state.expander.columns.ordinal(alias)), alias
    for source, life, ordinal in link.memory.entries(set(keys)):
        yield source, Last(life, ordinal), None


def _life(link: StreamDecoder | None) -> int:
    """The publisher's life that a link is in, 0 where it knows of none."""
    return (link.incarnation or 0) if link is not None else 0


def _reached(link: StreamDecoder | None) -> dict[Source, Last]:
    return (
        {source: last for source, last, alias in _iterate_last_events(link) if alias is not None}
        if link is not None
        else {}
    )


def _expand_suppressed(link: StreamDecoder, alias: int, skip: int) -> list[Event]:
    """Events that were passed over in silence, a bounded number at a time."""
    assert link.decoder_state is not None
    events: list[Event] = []
    while skip:
        part = min(skip, MAX_SKIP)
        events += link.decoder_state.pass_over(alias, part)
        skip -= part
    return events
