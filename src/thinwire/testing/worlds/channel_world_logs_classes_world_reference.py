"""What the log of a topic tells a reader that never fails: the measure of what every class is owed."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from thinwire.codec import Missed, State, Subscriber
from thinwire.errors import PeerFault
from thinwire.schema import Event
from thinwire.testing.worlds.channel_world_logs_classes_world_logs import Log
from thinwire.testing.worlds.world_observer_world_truth import Source
from thinwire.topics.log_decoder_inlet import Inlet, Lookup
from thinwire.topics.names import publisher_in

Identity = tuple[int, Source, int]
"""incarnation, source, ordinal of an event of one publisher"""


class Told(NamedTuple):
    """An event that the log tells, as it tells it, with the offset of the message that does."""

    offset: int
    identity: Identity
    event: Event


class Reference:
    """Reads everything, at once.

    told: per publisher, the events of messages that left a link ready which was ready before, in their order: these
        must reach every class that chooses them whatever happens to translators
    known: the same by their identities
    lost: per publisher, how often the log itself has been a loss
    """

    def __init__(self, log: Log, lookup: Lookup, publishers: list[str]) -> None:
        self.told: dict[str, list[Told]] = {name: [] for name in publishers}
        self.known: dict[str, dict[Identity, Told]] = {name: {} for name in publishers}
        self.lost: Counter[str] = Counter()
        self._log = log
        self._inlet = Inlet(lookup)
        self._inlet.links |= {name: Subscriber(lookup, publisher=name, compiled=False) for name in publishers}
        self._next = 1

    def read_on(self) -> None:
        """Read what is new."""
        for stored in self._log.read(self._next):
            publisher = publisher_in(stored.subject)
            link = self._inlet.link(publisher)
            before = link.state
            try:
                found = self._inlet.receive(stored, stored.time)
            except PeerFault:
                found = []
            losses = [thing for thing in found if isinstance(thing, Missed)]
            self.lost.update(missed.publisher for missed in losses if missed.source is None)
            if before is link.state is State.READY and not losses:
                self._keep(publisher, stored.offset, [thing for thing in found if isinstance(thing, Event)])
        self._next = self._log.end + 1

    def _keep(self, publisher: str, offset: int, events: list[Event]) -> None:
        for event in events:
            identity = (event.incarnation, event.source, event.ordinal)
            told = self.known[publisher][identity] = Told(offset, identity, event)
            self.told[publisher].append(told)
