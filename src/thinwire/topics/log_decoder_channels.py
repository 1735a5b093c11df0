"""The receiving ends of a class: messages of its channel in, the same out as from a log."""

from __future__ import annotations

from contextlib import suppress
from typing import Self

from thinwire.brokers.protocol_broker import Stored
from thinwire.codec import Delivery, State
from thinwire.codec.decoder_state import Find, knows_none
from thinwire.errors import CorruptFrame
from thinwire.topics.log_decoder_inlet import Inlet, Lookup
from thinwire.topics.log_position import Positions
from thinwire.topics.log_position_envelope import Position, unseal
from thinwire.topics.names import is_key, publisher_in
from thinwire.wire import read


class ChannelInlet(Inlet):
    """One link per publisher that the channel tells of.

    positions: how far in the log of the topic each publisher is told; one whose link is lost stays where it was
    began: the offset of the log up to which the reader knew everything before it came to this channel
    told: the position of the last message; before: its publisher, and where that one was before it
    """

    def __init__(
        self,
        lookup: Lookup,
        *,
        dictionaries: Find = knows_none,
        only_changes: bool = False,
        positions: Positions | None = None,
    ) -> None:
        # Several classes share a log, so its numbers jump: what is lost shows in the links' own sequences.
        super().__init__(lookup, dictionaries=dictionaries, only_changes=only_changes, whole=False)
        self.positions = positions or Positions()
        self.began = self.positions.since
        self.told: Position | None = None
        self.before: tuple[str, Position] | None = None
        self._began = self.positions.by_publisher
        self._epochs: dict[str, int] = {}
        self._reached: dict[str, Position] = {}
        self._successions: set[str] = set()

    def pass_on(self, stored: Stored, now: float) -> list[Delivery]:
        """What a message brings. One from a translator that slept through its successor brings nothing."""
        epoch, position, message = unseal(stored.payload)
        publisher = publisher_in(stored.subject)
        known = self._epochs.get(publisher, epoch)
        if epoch < known:
            return []
        link = self.link(publisher)
        if epoch > known and position == self._reached.get(publisher):
            # Who takes over begins where the last one ended. Where that is not where this reader is, it has read
            # something else, such as words of one who had been replaced before: the link finds a gap, and says so.
            link.succeed()
            self._successions.add(publisher)
        self._epochs[publisher] = epoch
        self._reached[publisher] = position
        self.told, self.before = position, (publisher, self.positions.of(publisher))
        deliveries = self.read(publisher, message, now)
        if link.state is State.READY:
            self.positions.note(publisher, position)
        return deliveries

    def stand_at(self, publisher: str, epoch: int, position: Position) -> None:
        """The link of a publisher knows everything up to a message, of which this is the epoch and the position."""
        self._epochs[publisher], self._reached[publisher] = epoch, position
        self.positions.note(publisher, position)

    def leaps(self, stored: Stored) -> bool:
        """Does the channel begin anew here, in the same epoch, without having told what came before?

        The log had a gap there, or nobody was served for a while; whatever there is to know, the log knows it.
        """
        link = self.links.get(publisher_in(stored.subject))
        if link is None or link.state is not State.READY or link.replica is None or not is_key(stored.subject):
            return False
        with suppress(CorruptFrame):
            epoch, _, message = unseal(stored.payload)
            frame = read(message)
            expected = link.replica.sequence & (0xFFFF if frame.wide else 0xFF)
            same = epoch == self._epochs.get(link.publisher) and link.replica.same_life(frame)
            return same and frame.sequence != expected
        return False

    def was_succeeded(self, publisher: str) -> bool:
        """Has another translator told where this publisher stands? True once, when it has told it all."""
        if publisher not in self._successions or self.link(publisher).state is not State.READY:
            return False
        self._successions.discard(publisher)
        return True

    def afresh(self) -> Self:
        """The same without any memory but of where it began."""
        positions = Positions(self.positions.since, self._began)
        habits = self._only_changes, self._dictionaries
        return type(self)(self._lookup, only_changes=habits[0], dictionaries=habits[1], positions=positions)
