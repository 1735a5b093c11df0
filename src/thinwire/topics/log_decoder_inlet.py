"""The receiving ends of a topic's publishers: messages of the log in, events and word of what is missing out."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Self

from thinwire.brokers.protocol_broker import Stored
from thinwire.codec import Delivery, State, Subscriber
from thinwire.codec.changed_events import Vouched
from thinwire.codec.decoder_state import Find, knows_none
from thinwire.errors import PeerFault
from thinwire.schema import Schema
from thinwire.topics.names import publisher_in

Lookup = Callable[[bytes], Schema | None]


class Inlet:
    """One link per publisher of a topic, made when its first message comes.

    dictionaries: looks a dictionary up by its hash
    only_changes: spare the events passed over in silence where the publisher holds values, for they show no change;
    where it predicts, the expected value moves in silence too, and they are needed to see how far
    whole: every message of the log comes here, so a jump of its numbers is a loss
    offset: of the last message received
    restless: publishers whose silent events are wanted for now, although only changes are
    counted: says of a link, before a message, which properties' changes count if any change of them does; () where
        that is not so, or where somebody wants to see what shows no change as well
    vouched: see `Subscriber.vouched`, of the last message received
    """

    def __init__(
        self, lookup: Lookup, *, dictionaries: Find = knows_none, only_changes: bool = False, whole: bool = True
    ) -> None:
        self.links: dict[str, Subscriber] = {}
        self.offset: int | None = None
        self.restless: set[str] = set()
        self.counted: Callable[[Subscriber], Collection[str]] = _nothing
        self.vouched: Vouched | None = None
        self._lookup = lookup
        self._dictionaries = dictionaries
        self._only_changes = only_changes
        self._whole = whole
        self._held_back: list[Delivery] = []

    def receive(self, stored: Stored, now: float) -> list[Delivery]:
        """What a message brings. A jump of the log means that messages were not kept for us: every link is told."""
        out, self._held_back = self._held_back, []
        if self._whole and self.offset is not None and stored.offset > self.offset + 1:
            for link in self.links.values():
                out += link.lose("gap")
        self.offset = stored.offset
        self.vouched = None
        try:
            found = self.pass_on(stored, now)
        except PeerFault:
            self._held_back = out  # an error takes nothing with it: what other links said comes with the next message
            raise
        return out + found if out else found

    def pass_on(self, stored: Stored, now: float) -> list[Delivery]:
        """What a message brings to its link, and nothing more: a second time, once what it names is known."""
        return self.read(publisher_in(stored.subject), stored.payload, now)

    def read(self, publisher: str, message: bytes, now: float) -> list[Delivery]:
        """What a link makes of a message."""
        link = self.link(publisher)
        if self._only_changes and link.replica is not None:
            link.passed_over = publisher in self.restless or not link.replica.expander.rules.hold
            link.watch(() if link.passed_over else self.counted(link))
        found = link.receive(message, now=now)
        self.vouched = link.vouched
        return found

    def link(self, publisher: str) -> Subscriber:
        """The link of a publisher."""
        link = self.links.get(publisher)
        if link is None:
            link = Subscriber(self._lookup, publisher=publisher, dictionaries=self._dictionaries)
            self.links[publisher] = link
        return link

    def lost(self) -> Iterator[tuple[str, Subscriber]]:
        """The links that do not know where they are."""
        return ((name, link) for name, link in self.links.items() if link.state is not State.READY)

    def afresh(self) -> Self:
        """The same without any memory."""
        return type(self)(
            self._lookup, dictionaries=self._dictionaries, only_changes=self._only_changes, whole=self._whole
        )


def _nothing(link: Subscriber) -> Collection[str]:
    return ()
