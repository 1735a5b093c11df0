"""Decoding the messages of a channel: the same events as from the log, and the log positions that they cover."""

from __future__ import annotations

from contextlib import suppress
from typing import Self

from thinwire.brokers.protocol import Stored
from thinwire.codec import Delivery, State, StreamDecoder
from thinwire.codec.dictionary_bindings import FindDictionary, no_dictionaries
from thinwire.errors import CorruptFrame
from thinwire.topics.delivery_dedup import DeliveryDedup
from thinwire.topics.log_decoder import LogDecoder, Lookup
from thinwire.topics.names import is_key, publisher_in
from thinwire.topics.position import Position, PublisherPositions, decode_envelope
from thinwire.wire import read


class ChannelDecoder(LogDecoder):
    """One `StreamDecoder` a publisher of a channel.

    positions: the log position that the channel has covered of each publisher; it stays where it is while the decoder
        of the publisher waits for a key frame
    only_matching: the channel contains the events that match a predicate and omits all others
    began: the log offset up to which the reader had read everything before it started with this channel
    position: the log position of the last message; previous: its publisher, and the position of that one before it
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
        super().__init__(lookup, dictionaries=dictionaries, only_changes=only_changes, whole=False)
        self.positions = positions or PublisherPositions()
        self.began = self.positions.since
        self.position: Position | None = None
        self.previous: tuple[str, Position] | None = None
        self._only_matching = only_matching
        self._first_positions = self.positions.by_publisher
        self._epochs: dict[str, int] = {}
        self._reached: dict[str, Position] = {}
        self._successions: set[str] = set()

    def pass_on(self, stored: Stored, now: float) -> list[Delivery]:
        """Decode a message. A message of a translator that was replaced is dropped."""
        decoder = self.current = self.decoder_of(stored)
        epoch, position, message = decode_envelope(stored.payload)
        publisher = decoder.publisher
        known = self._epochs.get(publisher, epoch)
        if epoch < known:
            return []
        if epoch > known and position == self._reached.get(publisher):
            # A successor starts at the position where its predecessor ended. If this reader is at another position, it
            # has read messages of a replaced translator: the decoder then finds a gap and reports it.
            decoder.expect_successor()
            self._successions.add(publisher)
        self._epochs[publisher] = epoch
        self._reached[publisher] = position
        self.position, self.previous = position, (publisher, self.positions.of(publisher))
        deliveries = self._decode(decoder, message, stored.offset, now)
        if decoder.state is State.READY:
            self.positions.note(publisher, position)
        return deliveries

    def stand_at(self, publisher: str, epoch: int, position: Position) -> None:
        """Set the epoch and the position of the last message that the decoder of a publisher has processed."""
        self._epochs[publisher], self._reached[publisher] = epoch, position
        self.positions.note(publisher, position)

    def is_restarted_by(self, stored: Stored) -> bool:
        """Report whether the channel restarts with this message, in the same epoch and without what came before.

        The log had a gap there, or the channel was closed for a while. The missing events can be read from the log.
        """
        if not is_key(stored.subject):
            return False
        decoder = self.links.get(publisher_in(stored.subject))
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

    def take_succession(self, publisher: str) -> bool:
        """Report once whether another translator has sent the complete state of a publisher."""
        if publisher not in self._successions or self.link(publisher).state is not State.READY:
            return False
        self._successions.discard(publisher)
        return True

    def copy_empty(self) -> Self:
        """Return a decoder with the same settings and first positions."""
        return type(self)(
            self._lookup,
            dictionaries=self._dictionaries,
            only_changes=self._only_changes,
            positions=PublisherPositions(self.positions.since, self._first_positions),
            only_matching=self._only_matching,
        )

    def _drop_delivered(
        self, dedup: DeliveryDedup, decoder: StreamDecoder, offset: int, found: list[Delivery]
    ) -> list[Delivery]:
        if self._only_matching:
            self._forget_passed(dedup)
        return super()._drop_delivered(dedup, decoder, offset, found)

    def _forget_passed(self, dedup: DeliveryDedup) -> None:
        """Remove publishers whose channel has reached the end of what was read from the log.

        Sources without a matching event would stay in the dedup state for good. Other channels may still send events
        that were suppressed before that position.
        """
        for publisher in list(dedup.delivered):
            is_current = self.previous is not None and self.previous[0] == publisher
            reached = self.previous[1] if self.previous is not None and is_current else self.positions.of(publisher)
            if reached.offset >= self.began:
                dedup.forget(publisher)
