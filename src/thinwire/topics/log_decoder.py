"""Decoding the messages of a topic log: one stream decoder a publisher, gaps, and events that are delivered once."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterator
from typing import Self

from thinwire.brokers.protocol import Stored
from thinwire.codec import Delivery, State, StreamDecoder
from thinwire.codec.deliveries import ChangedEvents
from thinwire.codec.dictionary_bindings import FindDictionary, no_dictionaries
from thinwire.errors import PeerFault, UnknownDictionary, UnknownSchema
from thinwire.schema import Event, Schema
from thinwire.topics.delivery_dedup import DeliveryDedup, Source
from thinwire.topics.names import publisher_in

Lookup = Callable[[bytes], Schema | None]


class LogDecoder:
    """One `StreamDecoder` a publisher, created with its first message.

    dictionaries: finds a dictionary by its hash
    only_changes: omit suppressed events of publishers that hold values, because they contain no change. Publishers that
        predict are decoded completely: the predicted value changes while events are suppressed.
    whole: the reader receives every message of the log, so that a jump of the offsets is a loss
    offset: of the last message received
    dedup: events that were delivered before; None if there are none
    changed_properties: called before a message; returns the properties whose every change is delivered, () if the
        decoder must return unchanged events as well
    current: the decoder of the last message; changed_events: `StreamDecoder.changed_events` after it
    """

    def __init__(
        self,
        lookup: Lookup,
        *,
        dictionaries: FindDictionary = no_dictionaries,
        only_changes: bool = False,
        whole: bool = True,
    ) -> None:
        self.links: dict[str, StreamDecoder] = {}
        self.offset: int | None = None
        self.dedup: DeliveryDedup | None = None
        self.changed_properties: Callable[[StreamDecoder], Collection[str]] = _no_properties
        self.changed_events: ChangedEvents | None = None
        self.current: StreamDecoder
        self._lookup = lookup
        self._dictionaries = dictionaries
        self._only_changes = only_changes
        self._whole = whole
        self._publisher_names: dict[str, str] = {}
        self._awaited: dict[str, set[Source]] = {}
        self._held_back: list[Delivery] = []

    def receive(self, stored: Stored, now: float) -> list[Delivery]:
        """Decode a message. A jump of the offsets is reported as a gap of every publisher."""
        out, self._held_back = self._held_back, []
        if self._whole and self.offset is not None and stored.offset > self.offset + 1:
            for decoder in self.links.values():
                out += decoder.mark_lost("gap")
        self.offset = stored.offset
        self.changed_events = None
        try:
            found = self.pass_on(stored, now)
        except PeerFault:
            self._held_back = out  # deliveries of other publishers are returned with the next message
            raise
        return out + found if out else found

    def pass_on(self, stored: Stored, now: float) -> list[Delivery]:
        """Decode a message for its publisher alone; again, after a definition that it needs was fetched."""
        self.current = self.decoder_of(stored)
        return self._decode(self.current, stored.payload, stored.offset, now)

    def decoder_of(self, stored: Stored) -> StreamDecoder:
        """Return the decoder of the publisher of a message."""
        publisher = self._publisher_names.get(stored.subject)
        if publisher is None:
            publisher = self._publisher_names[stored.subject] = publisher_in(stored.subject)
        decoder = self.links.get(publisher)
        return decoder if decoder is not None else self.link(publisher)

    def link(self, publisher: str) -> StreamDecoder:
        """Return the decoder of a publisher."""
        decoder = self.links.get(publisher)
        if decoder is None:
            decoder = StreamDecoder(self._lookup, publisher=publisher, dictionaries=self._dictionaries)
            self.links[publisher] = decoder
        return decoder

    def lost(self) -> Iterator[tuple[str, StreamDecoder]]:
        """Iterate over the publishers whose decoder waits for a key frame."""
        return ((name, decoder) for name, decoder in self.links.items() if decoder.state is not State.READY)

    def include_suppressed(self, publisher: str, sources: Collection[Source]) -> None:
        """Return suppressed events of a publisher as well, until each of these sources had an event."""
        self._awaited.setdefault(publisher, set()).update(sources)

    def copy_empty(self) -> Self:
        """Return a decoder with the same settings and no state."""
        return type(self)(
            self._lookup, dictionaries=self._dictionaries, only_changes=self._only_changes, whole=self._whole
        )

    def _decode(self, decoder: StreamDecoder, message: bytes, offset: int, now: float) -> list[Delivery]:
        if self.dedup is not None and not self.dedup:
            self.dedup = None  # kept until now: a cursor within the last message needs the entries it removed
        if self._only_changes and decoder.decoder_state is not None:
            hold = decoder.decoder_state.rules.hold
            decoder.include_suppressed = decoder.publisher in self._awaited or not hold
            is_filtered = decoder.include_suppressed or self.dedup is not None
            decoder.watch(() if is_filtered else self.changed_properties(decoder))
        found = decoder.receive(message, now=now)
        self.changed_events = decoder.changed_events
        if self.dedup is not None:
            found = self._drop_delivered(self.dedup, decoder, offset, found)
        if decoder.publisher in self._awaited:
            self._end_wait(decoder.publisher, found)
        return found

    def _drop_delivered(
        self, dedup: DeliveryDedup, decoder: StreamDecoder, offset: int, found: list[Delivery]
    ) -> list[Delivery]:
        events = [delivery for delivery in found if type(delivery) is Event]
        others = [delivery for delivery in found if type(delivery) is not Event]
        complete = decoder.include_suppressed
        new, missed = dedup.drop_delivered(decoder.publisher, offset, events, complete=complete)
        return [*others, *missed, *new]

    def _end_wait(self, publisher: str, found: list[Delivery]) -> None:
        awaited = self._awaited[publisher]
        awaited.difference_update(delivery.source for delivery in found if type(delivery) is Event)
        if not awaited:
            del self._awaited[publisher]


def _no_properties(decoder: StreamDecoder) -> Collection[str]:
    return ()


Learn = Callable[[bytes], Awaitable[bool]]
"""fetches a definition: the schema of a fingerprint (8 bytes) or the dictionary of a hash (16 bytes). Returns False if
there is none, raises PeerFault if the stored one is another"""


async def resolve_and_retry(
    link: StreamDecoder,
    fault: PeerFault,
    again: Callable[[], list[Delivery]],
    learn: Learn,
    tell: Callable[[PeerFault], None],
) -> list[Delivery]:
    """Fetch the definitions that a message needs, and decode it again.

    A message that needs an unknown schema is decoded again as a whole; one that needs a dictionary continues at the
    frame that is packed with it. A frame whose dictionary cannot be fetched is lost; the frames after it are decoded.

    again: decodes the message; tell: called with each fault that remains
    """
    tried: set[bytes] = set()
    while True:
        name = name_of(fault)
        if name is None:
            tell(fault)
            return []
        if name in tried or not await _fetch(name, fault, learn, tell):
            if isinstance(fault, UnknownSchema):
                return []
            link.skip_pending_frame()
        tried.add(name)
        try:
            return again()
        except PeerFault as next_fault:
            fault = next_fault


def name_of(fault: PeerFault) -> bytes | None:
    """Return the fingerprint or hash of the missing definition; None for another fault."""
    if isinstance(fault, UnknownSchema):
        return bytes.fromhex(fault.fingerprint)
    if isinstance(fault, UnknownDictionary) and "hash" in fault.facts:
        return bytes.fromhex(fault.hash)
    return None


async def _fetch(name: bytes, fault: PeerFault, learn: Learn, tell: Callable[[PeerFault], None]) -> bool:
    try:
        known = await learn(name)
    except PeerFault as wrong:
        tell(wrong)
        return False
    if not known:
        tell(fault)
    return known
