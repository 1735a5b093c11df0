"""Asking the translator of a topic for key frames of a class: of all publishers at the start, of one that is lost.

The receiving ends of a topic's publishers: messages of the log in, events and word of what is missing out.

Asking publishers for key frames: all of a topic at the start, one whose link is lost later.

The receiving ends of a class: messages of its channel in, the same out as from a log.

What a message names and its reader does not know yet: it is asked for, and the message is read on.

Two things are named: a schema by its fingerprint (8 bytes), a dictionary by its hash (16 bytes). A message that waits
for a schema is read again as a whole; one that waits for a dictionary goes on at the frame that needs it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterator
from contextlib import suppress
from typing import Self

from thinwire.brokers.protocol import Broker, Stored
from thinwire.codec import Delivery, State, StreamDecoder
from thinwire.codec.changed_events import ChangedEvents
from thinwire.codec.decoder_state import Find, knows_none
from thinwire.errors import BrokerUnavailable, CorruptFrame, PeerFault, UnknownDictionary, UnknownSchema
from thinwire.schema import Schema
from thinwire.topics.log_position import ChannelPosition, Positions, unseal
from thinwire.topics.names import ask_subject, call_subject, channel_ask_subject, is_key, publisher_in
from thinwire.wire import FrameKind, Request, read

Lookup = Callable[[bytes], Schema | None]


class LogDecoder:
    """One link per publisher of a topic, made when its first message comes.

    dictionaries: looks a dictionary up by its hash
    only_changes: spare the events passed over in silence where the publisher holds values, for they show no change;
    where it predicts, the expected value moves in silence too, and they are needed to see how far
    whole: every message of the log comes here, so a jump of its numbers is a loss
    offset: of the last message received
    restless: publishers whose silent events are wanted for now, although only changes are
    counted: says of a link, before a message, which properties' changes count if any change of them does; () where
        that is not so, or where somebody wants to see what shows no change as well
    changed_events: see `StreamDecoder.changed_events`, of the last message received
    """

    def __init__(
        self, lookup: Lookup, *, dictionaries: Find = knows_none, only_changes: bool = False, whole: bool = True
    ) -> None:
        self.links: dict[str, StreamDecoder] = {}
        self.offset: int | None = None
        self.restless: set[str] = set()
        self.counted: Callable[[StreamDecoder], Collection[str]] = _nothing
        self.changed_events: ChangedEvents | None = None
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
        self.changed_events = None
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
        if self._only_changes and link.decoder_state is not None:
            link.include_suppressed = publisher in self.restless or not link.decoder_state.expander.rules.hold
            link.watch(() if link.include_suppressed else self.counted(link))
        found = link.receive(message, now=now)
        self.changed_events = link.changed_events
        return found

    def link(self, publisher: str) -> StreamDecoder:
        """The link of a publisher."""
        link = self.links.get(publisher)
        if link is None:
            link = StreamDecoder(self._lookup, publisher=publisher, dictionaries=self._dictionaries)
            self.links[publisher] = link
        return link

    def lost(self) -> Iterator[tuple[str, StreamDecoder]]:
        """The links that do not know where they are."""
        return ((name, link) for name, link in self.links.items() if link.state is not State.READY)

    def copy_empty(self) -> Self:
        """The same without any memory."""
        return type(self)(
            self._lookup, dictionaries=self._dictionaries, only_changes=self._only_changes, whole=self._whole
        )


def _nothing(link: StreamDecoder) -> Collection[str]:
    return ()


class ChannelRequests:
    """The requests of one reader of a channel."""

    def __init__(self, broker: Broker, topic: str, class_id: str) -> None:
        self._broker = broker
        self._subject = channel_ask_subject(topic, class_id)

    async def request_all(self) -> None:
        """Ask for where every publisher stands."""
        await self.ask_for("")

    async def ask(self, log_decoder: LogDecoder, now: float) -> None:
        """Ask for the publishers whose links are lost, not too often."""
        for publisher, link in log_decoder.lost():
            if link.poll(now):
                await self.ask_for(publisher)

    async def ask_for(self, publisher: str) -> None:
        """Ask for where one publisher stands."""
        with suppress(BrokerUnavailable):
            await self._broker.send(self._subject, publisher.encode())


class KeyFrameRequests:
    """The requests of one reader of a topic's log."""

    def __init__(self, broker: Broker, topic: str) -> None:
        self._broker = broker
        self._topic = topic

    async def request_all(self) -> None:
        """Ask every publisher that is there to say where it stands."""
        frame = bytes((FrameKind.REQUEST, 0, 0)) + Request(0, 0).encode()
        with suppress(BrokerUnavailable):
            await self._broker.send(call_subject(self._topic), frame)

    async def ask(self, log_decoder: LogDecoder, now: float) -> None:
        """Ask the publishers whose links are lost, not too often."""
        for publisher, link in log_decoder.lost():
            for frame in link.poll(now):
                with suppress(BrokerUnavailable):
                    await self._broker.send(ask_subject(self._topic, publisher), frame)


class ChannelDecoder(LogDecoder):
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
        self.told: ChannelPosition | None = None
        self.before: tuple[str, ChannelPosition] | None = None
        self._began = self.positions.by_publisher
        self._epochs: dict[str, int] = {}
        self._reached: dict[str, ChannelPosition] = {}
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

    def stand_at(self, publisher: str, epoch: int, position: ChannelPosition) -> None:
        """The link of a publisher knows everything up to a message, of which this is the epoch and the position."""
        self._epochs[publisher], self._reached[publisher] = epoch, position
        self.positions.note(publisher, position)

    def leaps(self, stored: Stored) -> bool:
        """Does the channel begin anew here, in the same epoch, without having told what came before?

        The log had a gap there, or nobody was served for a while; whatever there is to know, the log knows it.
        """
        link = self.links.get(publisher_in(stored.subject))
        if link is None or link.state is not State.READY or link.decoder_state is None or not is_key(stored.subject):
            return False
        with suppress(CorruptFrame):
            epoch, _, message = unseal(stored.payload)
            frame = read(message)
            expected = link.decoder_state.sequence & (0xFFFF if frame.wide else 0xFF)
            same = epoch == self._epochs.get(link.publisher) and link.decoder_state.same_life(frame)
            return same and frame.sequence != expected
        return False

    def was_succeeded(self, publisher: str) -> bool:
        """Has another translator told where this publisher stands? True once, when it has told it all."""
        if publisher not in self._successions or self.link(publisher).state is not State.READY:
            return False
        self._successions.discard(publisher)
        return True

    def copy_empty(self) -> Self:
        """The same without any memory but of where it began."""
        positions = Positions(self.positions.since, self._began)
        settings = self._only_changes, self._dictionaries
        return type(self)(self._lookup, only_changes=settings[0], dictionaries=settings[1], positions=positions)


Learn = Callable[[bytes], Awaitable[bool]]
"""asks for what has this name; False where nobody knows it, a PeerFault where what comes is something else"""


async def resolve_and_retry(
    link: StreamDecoder,
    fault: PeerFault,
    again: Callable[[], list[Delivery]],
    learn: Learn,
    tell: Callable[[PeerFault], None],
) -> list[Delivery]:
    """What a message brings that its link could not read at first.

    again: receives it once more; tell: called with what stays unreadable. A frame whose dictionary is not to be had is
    lost, and what comes after it in the message is read as far as it can be
    """
    asked: set[bytes] = set()
    while True:
        name = name_of(fault)
        if name is None:
            tell(fault)
            return []
        if name in asked or not await _learnt(name, fault, learn, tell):
            if isinstance(fault, UnknownSchema):
                return []
            link.give_up()
        asked.add(name)
        try:
            return again()
        except PeerFault as next_fault:
            fault = next_fault


def name_of(fault: PeerFault) -> bytes | None:
    """The name of what is not known; None where the fault is another one."""
    if isinstance(fault, UnknownSchema):
        return bytes.fromhex(fault.fingerprint)
    if isinstance(fault, UnknownDictionary) and "hash" in fault.facts:
        return bytes.fromhex(fault.hash)
    return None


async def _learnt(name: bytes, fault: PeerFault, learn: Learn, tell: Callable[[PeerFault], None]) -> bool:
    try:
        known = await learn(name)
    except PeerFault as lie:
        tell(lie)
        return False
    if not known:
        tell(fault)
    return known
