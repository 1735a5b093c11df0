"""The receiving ends of a topic's publishers: messages of the log in, events and word of what is missing out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Self

from thinwire.control.names import publisher_in
from thinwire.events import Schema
from thinwire.link import Delivery, State, Subscriber
from thinwire.transports.broker import Stored

Lookup = Callable[[bytes], Schema | None]


class Inlet:
    """One link per publisher of a topic, made when its first message comes.

    only_changes: spare the events passed over in silence where the publisher holds values, for they show no change;
    where it predicts, the expected value moves in silence too, and they are needed to see how far
    whole: every message of the log comes here, so a jump of its numbers is a loss
    offset: of the last message received
    restless: publishers whose silent events are wanted for now, although only changes are
    """

    def __init__(self, lookup: Lookup, *, only_changes: bool = False, whole: bool = True) -> None:
        self.links: dict[str, Subscriber] = {}
        self.offset: int | None = None
        self.restless: set[str] = set()
        self._lookup = lookup
        self._only_changes = only_changes
        self._whole = whole

    def receive(self, stored: Stored, now: float) -> list[Delivery]:
        """What a message brings. A jump of the log means that messages were not kept for us: every link is told."""
        out: list[Delivery] = []
        if self._whole and self.offset is not None and stored.offset > self.offset + 1:
            for link in self.links.values():
                out += link.lose("gap")
        self.offset = stored.offset
        found = self.pass_on(stored, now)
        return out + found if out else found

    def pass_on(self, stored: Stored, now: float) -> list[Delivery]:
        """What a message brings to its link, and nothing more: a second time, once its schema is known."""
        return self.read(publisher_in(stored.subject), stored.payload, now)

    def read(self, publisher: str, message: bytes, now: float) -> list[Delivery]:
        """What a link makes of a message."""
        link = self.link(publisher)
        if self._only_changes and link.replica is not None:
            link.passed_over = publisher in self.restless or not link.replica.expander.rules.hold
        return link.receive(message, now=now)

    def link(self, publisher: str) -> Subscriber:
        """The link of a publisher."""
        link = self.links.get(publisher)
        if link is None:
            link = Subscriber(self._lookup, publisher=publisher)
            self.links[publisher] = link
        return link

    def lost(self) -> Iterator[tuple[str, Subscriber]]:
        """The links that do not know where they are."""
        return ((name, link) for name, link in self.links.items() if link.state is not State.READY)

    def afresh(self) -> Self:
        """The same without any memory."""
        return type(self)(self._lookup, only_changes=self._only_changes, whole=self._whole)
