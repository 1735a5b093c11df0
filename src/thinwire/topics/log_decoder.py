"""Decoding the messages of a topic log or of a channel: one stream decoder a publisher, gaps, repeated events."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterator
from contextlib import suppress
from typing import Self

from thinwire.brokers.protocol import StoredMessage
from thinwire.codec import Delivery, State, StreamDecoder
from thinwire.codec.deliveries import ChangedEvents
from thinwire.codec.dictionary_bindings import FindDictionary, no_dictionaries
from thinwire.errors import CorruptFrame, PeerFault, UnknownDictionary, UnknownSchema
from thinwire.schema import Event, Schema
from thinwire.topics.delivery_dedup import DeliveryDedup, Source, last_events
from thinwire.topics.names import KEY_SUFFIX, publisher_in
from thinwire.topics.position import Position, PublisherPositions, decode_envelope
from thinwire.wire import read

Lookup = Callable[[bytes], Schema | None]
"""returns the schema of a fingerprint"""
FetchDefinition = Callable[[bytes], Awaitable[bool]]
"""fetches a definition: the schema of a fingerprint (8 bytes) or the dictionary of a hash (16 bytes). Returns False if
there is none, raises PeerFault if the stored content does not match"""


class LogDecoder:
    """One `StreamDecoder` a publisher, created with its first message.

    dictionaries: finds a dictionary by its hash
    only_changes: omit suppressed events of publishers that hold values, because they contain no change. Publishers that
        predict are decoded completely: the predicted value changes while events are suppressed.
    reads_all: every message of the log is decoded, so that a jump of the offsets is a loss
    offset: of the last message received
    dedup: events that were delivered before; None if there are none
    watched_properties: returns, before each message, the properties whose changes are needed. Events that verifiably
        change none of them are omitted; none are omitted for ()
    current: the decoder of the last message; changed_events: `StreamDecoder.changed_events` after it
    """

    def __init__(
        self,
        lookup: Lookup,
        *,
        dictionaries: FindDictionary = no_dictionaries,
        only_changes: bool = False,
        reads_all: bool = True,
    ) -> None:
        self.decoders: dict[str, StreamDecoder] = {}
        self.offset: int | None = None
        self.dedup: DeliveryDedup | None = None
        self.watched_properties: Callable[[StreamDecoder], Collection[str]] = lambda decoder: ()
        self.changed_events: ChangedEvents | None = None
        self.current: StreamDecoder
        self._lookup = lookup
        self._dictionaries = dictionaries
        self._only_changes = only_changes
        self._reads_all = reads_all
        self._awaited_sources: dict[str, set[Source]] = {}
        self._held_back: list[Delivery] = []

    def receive(self, stored: StoredMessage, now: float) -> list[Delivery]:
        """Decode a message. A jump of the offsets is reported as a gap of every publisher."""
        out, self._held_back = self._held_back, []
        if self._reads_all and self.offset is not None and stored.offset > self.offset + 1:
            for decoder in self.decoders.values():
                out += decoder.mark_lost("gap")
        self.offset = stored.offset
        self.changed_events = None
        try:
            deliveries = self.decode(stored, now)
        except PeerFault:
            self._held_back = out  # deliveries of other publishers are returned with the next message
            raise
        return out + deliveries if out else deliveries

    async def receive_and_fetch(
        self,
        stored: StoredMessage,
        now: float,
        fetch: FetchDefinition,
        on_fault: Callable[[PeerFault], None],
    ) -> list[Delivery]:
        """Decode a message and fetch the definitions that it needs; see `resolve_and_retry`."""
        try:
            return self.receive(stored, now)
        except PeerFault as fault:
            decoder = self.open_decoder(publisher_in(stored.subject))
            return await resolve_and_retry(decoder, fault, lambda: self.decode(stored, now), fetch, on_fault)

    def decode(self, stored: StoredMessage, now: float) -> list[Delivery]:
        """Decode a message, for the first time or again, without the check of `receive` for a gap."""
        return self._decode(self.select_decoder(stored), stored.payload, stored.offset, now)

    def select_decoder(self, stored: StoredMessage) -> StreamDecoder:
        """Return the decoder of the publisher of a message; it becomes the current one."""
        publisher = publisher_in(stored.subject)
        self.current = self.decoders.get(publisher) or self.open_decoder(publisher)
        return self.current

    def open_decoder(self, publisher: str) -> StreamDecoder:
        """Return the decoder of a publisher; create it if there is none."""
        decoder = self.decoders.get(publisher)
        if decoder is None:
            decoder = StreamDecoder(self._lookup, publisher=publisher, dictionaries=self._dictionaries)
            self.decoders[publisher] = decoder
        return decoder

    def waiting(self) -> Iterator[tuple[str, StreamDecoder]]:
        """Iterate over the publishers whose decoder waits for a key frame."""
        for publisher, decoder in self.decoders.items():
            if decoder.state is not State.READY:
                yield publisher, decoder

    def include_suppressed_until(self, publisher: str, sources: Collection[Source]) -> None:
        """Deliver suppressed events of a publisher as well, until each of these sources had an event."""
        self._awaited_sources.setdefault(publisher, set()).update(sources)

    def copy_empty(self) -> Self:
        """Return a decoder with the same settings and no state."""
        return type(self)(
            self._lookup, dictionaries=self._dictionaries, only_changes=self._only_changes, reads_all=self._reads_all
        )

    def _decode(self, decoder: StreamDecoder, message: bytes, offset: int, now: float) -> list[Delivery]:
        if self.dedup is not None and not self.dedup:
            self.dedup = None  # one message late: a cursor within the last message needs the entries that it removed
        if self._only_changes and decoder.decoder_state is not None:
            hold = decoder.decoder_state.rules.hold
            decoder.include_suppressed = decoder.publisher in self._awaited_sources or not hold
            needs_unchanged = decoder.include_suppressed or self.dedup is not None
            decoder.watch(() if needs_unchanged else self.watched_properties(decoder))
        deliveries = decoder.receive(message, now=now)
        self.changed_events = decoder.changed_events
        if self.dedup is not None:
            deliveries = self._drop_delivered(self.dedup, decoder, offset, deliveries)
        if decoder.publisher in self._awaited_sources:
            self._remove_awaited(decoder.publisher, deliveries)
        return deliveries

    def _drop_delivered(
        self, dedup: DeliveryDedup, decoder: StreamDecoder, offset: int, deliveries: list[Delivery]
    ) -> list[Delivery]:
        events = [delivery for delivery in deliveries if type(delivery) is Event]
        others = [delivery for delivery in deliveries if type(delivery) is not Event]
        complete = decoder.include_suppressed
        new, missed = dedup.drop_delivered(decoder.publisher, offset, events, complete=complete)
        return [*others, *missed, *new]

    def _remove_awaited(self, publisher: str, deliveries: list[Delivery]) -> None:
        awaited = self._awaited_sources[publisher]
        awaited.difference_update(delivery.source for delivery in deliveries if type(delivery) is Event)
        if not awaited:
            del self._awaited_sources[publisher]


class ChannelDecoder(LogDecoder):
    """One `StreamDecoder` a publisher of a channel: the same events as from the log, and the positions they cover.

    positions: the log position that the channel has covered of each publisher; it stays where it is while the decoder
        of the publisher waits for a key frame
    only_matching: the channel contains the events that match a predicate and omits all others
    entry_offset: the log offset up to which the reader had read everything when it switched to this channel
    position: the log position of the last message
    previous_position: the publisher of the last message, and its position before that message
    """

    def __init__(
        self,
        lookup: Lookup,
        *,
        dictionaries: FindDictionary = no_dictionaries,
        only_changes: bool = False,
        positions: PublisherPositions | None = None,
        only_matching: bool = False,
    ) -> None:
        # Channels share one log, so its offsets jump. Losses are found by the sequence numbers of the streams.
        super().__init__(lookup, dictionaries=dictionaries, only_changes=only_changes, reads_all=False)
        self.positions = positions or PublisherPositions()
        self.entry_offset = self.positions.default_offset
        self.position: Position | None = None
        self.previous_position: tuple[str, Position] | None = None
        self._only_matching = only_matching
        self._first_positions = self.positions.by_publisher
        self._epochs: dict[str, int] = {}
        self._received_positions: dict[str, Position] = {}
        self._unconfirmed_successors: set[str] = set()
        self._repeated_until: dict[str, Position] = {}

    def decode(self, stored: StoredMessage, now: float) -> list[Delivery]:
        """Decode a message. A message of a translator that was replaced is dropped."""
        decoder = self.select_decoder(stored)
        epoch, position, message = decode_envelope(stored.payload)
        publisher = decoder.publisher
        known, received = self._epochs.get(publisher, epoch), self._received_positions.get(publisher, position)
        if epoch < known:
            return []
        if publisher in self._repeated_until and received >= self._repeated_until[publisher]:
            del self._repeated_until[publisher]
        if epoch > known and position < received:
            self._drop_repeated(decoder, received)
        if epoch > known and position == received and publisher in self._received_positions:
            # A successor starts at the position where its predecessor ended. If this reader is at another position, it
            # has read messages of a replaced translator: the decoder then finds a gap and reports it.
            decoder.expect_successor()
            self._unconfirmed_successors.add(publisher)
        self._epochs[publisher] = epoch
        # An earlier position in the same epoch is that of a late copy of a message.
        self._received_positions[publisher] = max(position, received) if epoch == known else position
        self.position, self.previous_position = position, (publisher, self.positions.of(publisher))
        deliveries = self._decode(decoder, message, stored.offset, now)
        if decoder.state is State.READY:
            self.positions.note(publisher, position)
        return deliveries

    def set_position(self, publisher: str, epoch: int, position: Position) -> None:
        """Set the epoch and the position of the last message that the decoder of a publisher has processed."""
        self._epochs[publisher], self._received_positions[publisher] = epoch, position
        self.positions.note(publisher, position)

    def is_restarted_by(self, stored: StoredMessage) -> bool:
        """Report whether the channel restarts with this message: key frames of the same epoch, after a gap.

        The log had the same gap, or the channel was closed. The missing events can be read from the log.
        """
        if not stored.subject.endswith(KEY_SUFFIX):  # checked for every message of a channel
            return False
        decoder = self.decoders.get(publisher_in(stored.subject))
        if decoder is None or decoder.state is not State.READY or decoder.decoder_state is None:
            return False
        with suppress(CorruptFrame):
            epoch, _, message = decode_envelope(stored.payload)
            frame = read(message)
            expected = decoder.decoder_state.sequence & (0xFFFF if frame.wide else 0xFF)
            same_epoch = epoch == self._epochs.get(decoder.publisher)
            is_same = decoder.decoder_state.sequencer.is_same_incarnation(frame)
            return same_epoch and is_same and frame.sequence != expected
        return False

    def confirm_successor(self, publisher: str) -> bool:
        """Return True, once, after another translator has sent the complete state of a publisher."""
        if publisher not in self._unconfirmed_successors or self.open_decoder(publisher).state is not State.READY:
            return False
        self._unconfirmed_successors.discard(publisher)
        return True

    def copy_empty(self) -> Self:
        """Return a decoder with the same settings and first positions."""
        return type(self)(
            self._lookup,
            dictionaries=self._dictionaries,
            only_changes=self._only_changes,
            positions=PublisherPositions(self.positions.default_offset, self._first_positions),
            only_matching=self._only_matching,
        )

    def _drop_delivered(
        self, dedup: DeliveryDedup, decoder: StreamDecoder, offset: int, deliveries: list[Delivery]
    ) -> list[Delivery]:
        if self._only_matching:
            self._forget_completed(dedup)
        return super()._drop_delivered(dedup, decoder, offset, deliveries)

    def _drop_repeated(self, decoder: StreamDecoder, received: Position) -> None:
        """Drop the events up to a position, because a successor sends them again.

        A successor resumes at the position in the last stored message, which may be a late copy with an earlier one.
        """
        self._repeated_until[decoder.publisher] = received
        self.dedup = self.dedup or DeliveryDedup()
        self.dedup.add(decoder.publisher, {source: number for source, number, _ in last_events(decoder)})

    def _forget_completed(self, dedup: DeliveryDedup) -> None:
        """Remove publishers whose channel has reached the end of what was read from the log.

        Needed with a predicate: a source without a matching event would stay in the dedup state. Not allowed without
        one: the channel may still send events before that position that it had suppressed.
        """
        for publisher in list(dedup.delivered):
            last_of, before_last = self.previous_position or ("", Position(0))
            reached = before_last if last_of == publisher else self.positions.of(publisher)
            if reached.offset >= self.entry_offset and publisher not in self._repeated_until:
                dedup.forget(publisher)


async def resolve_and_retry(
    decoder: StreamDecoder,
    fault: PeerFault,
    retry: Callable[[], list[Delivery]],
    fetch: FetchDefinition,
    on_fault: Callable[[PeerFault], None],
) -> list[Delivery]:
    """Fetch the definitions that a message needs, and decode it again.

    A message that needs an unknown schema is decoded again from its start; one that needs a dictionary continues at the
    frame that is packed with it. A frame whose dictionary cannot be fetched is lost; the frames after it are decoded.

    retry: decodes the message; on_fault: called with each fault that remains
    """
    tried: set[bytes] = set()
    while True:
        definition_id = missing_definition(fault)
        if definition_id is None:
            on_fault(fault)
            return []
        if definition_id in tried or not await _fetch(definition_id, fault, fetch, on_fault):
            if isinstance(fault, UnknownSchema):
                return []
            decoder.skip_pending_frame()
        tried.add(definition_id)
        try:
            return retry()
        except PeerFault as next_fault:
            fault = next_fault


def missing_definition(fault: PeerFault) -> bytes | None:
    """Return the fingerprint or hash of the missing definition; None for another fault."""
    if isinstance(fault, UnknownSchema):
        return bytes.fromhex(fault.fingerprint)
    if isinstance(fault, UnknownDictionary) and "hash" in fault.facts:
        return bytes.fromhex(fault.hash)
    return None


async def _fetch(id: bytes, fault: PeerFault, fetch: FetchDefinition, on_fault: Callable[[PeerFault], None]) -> bool:
    try:
        is_known = await fetch(id)
    except PeerFault as wrong:
        on_fault(wrong)
        return False
    if not is_known:
        on_fault(fault)
    return is_known
