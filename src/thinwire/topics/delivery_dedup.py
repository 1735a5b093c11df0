"""Events that were already delivered, for a reader that continues in a log or channel at an earlier position.

The events of a log and of a channel have the same ordinals. A reader that switches between them therefore needs no
common position: the new feed starts early enough, and repeated events are recognised by publisher, source, incarnation
and ordinal.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from thinwire.codec import EventsMissed, StreamDecoder
from thinwire.schema import Event
from thinwire.topics.position import Position

Source = tuple[Any, ...]


class EventNumber(NamedTuple):
    """The incarnation of a publisher and the ordinal of an event of one source; ordered by time."""

    incarnation: int
    ordinal: int


DeliveredEvents = dict[str, dict[Source, EventNumber]]
"""the last event delivered, by publisher and source"""


def last_events(decoder: StreamDecoder) -> Iterator[tuple[Source, EventNumber, int | None]]:
    """Iterate over the last event of every source, with its row; None for a source whose state was dropped."""
    state = decoder.decoder_state
    in_state = set(state.known_sources()) if state is not None else set()
    if state is not None:
        for source, row, ordinal in state.last_ordinals():
            yield source, EventNumber(state.incarnation, ordinal), row
    for source, incarnation, ordinal in decoder.delivered.entries(in_state):
        yield source, EventNumber(incarnation, ordinal), None


class DeliveryDedup:
    """Drops events up to the last one delivered of each source. The entry of a source is removed at that event.

    delivered: the last events delivered
    positions: by publisher, the log position up to which everything was delivered

    >>> dedup = DeliveryDedup({"p1": {("T1",): EventNumber(1, 7)}})
    >>> repeated = [Event({"t": n}, source=("T1",), ordinal=n, incarnation=1, bound={}) for n in (6, 7, 9)]
    >>> new, missed = dedup.drop_delivered("p1", 120, repeated)
    >>> [event.ordinal for event in new], [(gap.first, gap.last) for gap in missed], bool(dedup)
    ([9], [], False)
    """

    def __init__(
        self, delivered: DeliveredEvents | None = None, positions: Mapping[str, Position] | None = None
    ) -> None:
        self.delivered: DeliveredEvents = {p: dict(sources) for p, sources in (delivered or {}).items() if sources}
        self._positions = dict(positions or {})
        self._last_offset, self._last_publisher = 0, ""
        self._removed_by_last: dict[Source, EventNumber] = {}

    def __bool__(self) -> bool:
        return bool(self.delivered or self._positions)

    def __len__(self) -> int:
        """Return the number of sources. Positions are not counted, but make it true."""
        return sum(map(len, self.delivered.values()))

    def drop_delivered(
        self, publisher: str, offset: int, events: list[Event], *, complete: bool = True
    ) -> tuple[list[Event], list[EventsMissed]]:
        """Return the new events of a message, and the gaps before them.

        offset: of the message
        complete: the message contains all events of its sources, so that a jump of the ordinals is a gap
        """
        if publisher in self._positions:
            events = self._drop_before_position(publisher, offset, events)
        delivered = self.delivered.get(publisher)
        if delivered is None:
            return events, []
        new, missed, removed = list[Event](), list[EventsMissed](), dict[Source, EventNumber]()
        self._last_offset, self._last_publisher, self._removed_by_last = offset, publisher, removed
        for event in events:
            last = delivered.get(event.source)
            if last is not None:
                number = EventNumber(event.incarnation, event.ordinal)
                if number >= last:
                    removed[event.source] = delivered.pop(event.source)
                if number <= last:
                    continue
                if complete and event.incarnation == last.incarnation and event.ordinal > last.ordinal + 1:
                    missed.append(EventsMissed(publisher, event.source, last.ordinal + 1, event.ordinal - 1, "gap"))
            new.append(event)
        if not delivered:
            del self.delivered[publisher]
        return new, missed

    def remove_reached(self, publisher: str, state: Iterable[Event]) -> None:
        """Remove the sources whose event in a delivered state is the last one delivered or a later one."""
        delivered = self.delivered.get(publisher, {})
        for event in state:
            last = delivered.get(event.source)
            if last is not None and EventNumber(event.incarnation, event.ordinal) >= last:
                removed = delivered.pop(event.source)
                if self._last_publisher == publisher:
                    self._removed_by_last.setdefault(event.source, removed)
        if not delivered:
            self.delivered.pop(publisher, None)

    def add(self, publisher: str, delivered: Mapping[Source, EventNumber]) -> None:
        """Also drop the events of a publisher up to these."""
        known = self.delivered.setdefault(publisher, {})
        for source, number in delivered.items():
            known[source] = max(number, known.get(source, number))

    def forget(self, publisher: str) -> None:
        """Treat all further events of a publisher as new."""
        self.delivered.pop(publisher, None)
        self._positions.pop(publisher, None)

    def before_message(self, offset: int) -> DeliveryDedup:
        """Return the state before the message at this offset, if it was the last one processed."""
        publisher, removed = self._last_publisher, self._removed_by_last
        if self._last_offset != offset or not removed:
            return self
        delivered = {**self.delivered, publisher: self.delivered.get(publisher, {}) | removed}
        return DeliveryDedup(delivered, self._positions)

    def _drop_before_position(self, publisher: str, offset: int, events: list[Event]) -> list[Event]:
        position = self._positions[publisher]
        if offset <= position.offset:
            return []
        del self._positions[publisher]
        return events[position.within :]
