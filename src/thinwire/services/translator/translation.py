"""The translation of a topic: its log in, the channels of its demand classes out. No I/O, no clock.

Input. `receive` takes every message of the topic log in order. One stream decoder per publisher (`LogDecoder`) decodes
it; a `PublisherInput` feeds the result to the channels of that publisher.

Output. A `Channel` exists per class and publisher. It re-encodes the events for the class's tolerances. `take_messages`
returns the buffered frames as messages; `ChannelWriter` stores them. Each message contains the epoch and the log
position that it covers, per publisher.

State. The decoders, one encoder per channel, and the frames that are not stored yet. Everything can be restored: the
decoders from a checkpoint or from key frames, the position of a channel from its last message.

Recovery. A successor opens the classes with the positions of the predecessor (`resume_at`), seeks the decoders to the
smallest of them, and reads the log from there. A channel begins with key frames exactly at its position.

Fencing. Messages are appended with the expected last offset (`FencedWriter`), and frame sequences start at the epoch,
so readers drop a late message of a former translator.

>>> from thinwire.topics.topic_documents import SubscriptionDocument
>>> from thinwire.topics.position import decode_envelope
>>> from thinwire.schema import Property, Schema
>>> from thinwire.wire import join
>>> from thinwire.codec import StreamEncoder
>>> rooms = Schema("rooms", [Property("room", "string", "dimension"), Property("t", "number", step="0.1")])
>>> log = StreamEncoder(rooms, name="p1", compiled=False)
>>> translation = Translation("rooms", {rooms.fingerprint: rooms}.get, epoch=1)
>>> translation.open(DemandClass.of(SubscriptionDocument("rooms", "a", {"t": 0.5})))
>>> translation.receive(StoredMessage(1, "tw.log.rooms.p1.k", log.start(0)[0], 0.0))
>>> for offset, t in enumerate((20.0, 20.4, 20.6), start=2):
...     frames = join(log.publish({"room": "11.1", "t": t}, 0))
...     translation.receive(StoredMessage(offset, "tw.log.rooms.p1.d", frames, 0.0))
>>> [(message.is_key, decode_envelope(message.payload)[1].offset) for message in translation.take_messages(65_536)]
[(True, 1), (False, 4)]
>>> translation.counts.events, translation.counts.encodings
(3, 3)
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping

from thinwire.brokers.protocol import StoredMessage
from thinwire.codec import Counts, StreamDecoder, StreamEncoder
from thinwire.codec.reducer import MAX_SOURCES
from thinwire.codec.stream_config import KEY_FRAME_INTERVAL
from thinwire.errors import PeerFault, UnknownDictionary, UnknownSchema
from thinwire.services.translator.channel import MIN_HOLD_GROUP, Channel, ChannelSettings
from thinwire.services.translator.channel_writer import ChannelMessage
from thinwire.services.translator.publisher_input import PublisherInput
from thinwire.topics.demand_class import DemandClass
from thinwire.topics.log_decoder import LogDecoder, Lookup, missing_definition
from thinwire.topics.names import publisher_in
from thinwire.topics.position import Position

MAX_PROBLEMS = 64

_log = logging.getLogger("thinwire.translator")


class TranslationCounts:
    """Counters of a translation.

    events: events of the log
    classes: frames, bytes and events of each open class
    """

    def __init__(self) -> None:
        self.events = 0
        self.classes: dict[str, Counts] = {}
        self._closed = 0

    @property
    def encodings(self) -> int:
        """Number of encoded events, counted once per class."""
        return self._closed + sum(counts.events for counts in self.classes.values())

    def open(self, class_id: str) -> Counts:
        return self.classes.setdefault(class_id, Counts())

    def close(self, class_id: str) -> None:
        self._closed += self.classes.pop(class_id).events


class Problems(dict[str, int]):
    """Error messages and how often each occurred; the `MAX_PROBLEMS` most recent ones. As many are logged.

    >>> problems = Problems("rooms")
    >>> problems.add("no such source"); problems.add("no such source"); problems
    {'no such source': 2}
    """

    def __init__(self, topic: str) -> None:
        self.topic = topic

    def add(self, problem: str) -> None:
        if problem not in self and len(self) < MAX_PROBLEMS:
            _log.warning("topic %s: %s", self.topic, problem)
        self[problem] = self.pop(problem, 0) + 1
        if len(self) > MAX_PROBLEMS:
            del self[next(iter(self))]


class Translation:
    """The channels of one topic.

    lookup: returns a schema by its fingerprint
    epoch: of this translator; larger than its predecessor's
    log_decoder: the decoders; they may have read the log up to `log_decoder.offset`
    key_frame_interval: seconds of log time in which a channel sends the state of every source once
    max_sources: limit of sources per channel
    min_hold_group: see `MIN_HOLD_GROUP`
    problems: errors by message
    classes: the open classes, by id
    """

    def __init__(
        self,
        topic: str,
        lookup: Lookup,
        *,
        epoch: int,
        log_decoder: LogDecoder | None = None,
        key_frame_interval: float = KEY_FRAME_INTERVAL,
        max_sources: int = MAX_SOURCES,
        min_hold_group: int = MIN_HOLD_GROUP,
    ) -> None:
        self.topic = topic
        self.epoch = epoch
        self.log_decoder = log_decoder or LogDecoder(lookup)
        self.problems = Problems(topic)
        self.time = 0.0
        self._counts = TranslationCounts()
        self._settings = ChannelSettings(epoch, key_frame_interval, max_sources, min_hold_group)
        self.classes: dict[str, DemandClass] = {}
        self._resume_at: dict[str, Mapping[str, Position]] = {}
        self._inputs: dict[str, PublisherInput] = {}
        self._next_sequence = epoch << 32

    @property
    def decoders(self) -> dict[str, StreamDecoder]:
        """The decoders, by publisher."""
        return self.log_decoder.decoders

    @property
    def counts(self) -> TranslationCounts:
        """The current counters."""
        for publisher_input in self._inputs.values():
            publisher_input.catch_up()
        return self._counts

    @property
    def pending_bytes(self) -> int:
        """Bytes of memory that buffered frames use."""
        return self._settings.pending_bytes

    def open(self, demand: DemandClass, resume_at: Mapping[str, Position] | None = None) -> None:
        """Open the channels of a class, unless they are open. Raises DemandError for an inconsistent demand.

        resume_at: positions at which the channels of a predecessor ended, by publisher. Other channels begin when the
            state of all their sources is known
        """
        if demand.id in self.classes:
            return
        demand.check()
        self.classes[demand.id], self._resume_at[demand.id] = demand, resume_at or {}
        self._counts.open(demand.id)
        for publisher_input in self._inputs.values():
            self._open_channel(publisher_input, demand.id)
        for name in [name for name in self.log_decoder.decoders if name not in self._inputs]:
            self._add_input(name)

    def close(self, class_id: str) -> None:
        """Close the channels of a class and discard their buffered frames. A class that is not open is ignored."""
        if class_id not in self.classes:
            return
        del self.classes[class_id], self._resume_at[class_id]
        for publisher_input in self._inputs.values():
            # If the class is opened again its sequences must be higher, else readers drop its frames as duplicates.
            self._next_sequence = max(self._next_sequence, publisher_input.close(class_id).next_sequence)
        self._counts.close(class_id)

    def receive(self, stored: StoredMessage) -> None:
        """Process the next message of the log.

        Raises UnknownSchema, or UnknownDictionary with a hash; call it again with the same message when the definition
        was fetched or is known to be unavailable.
        """
        publisher = publisher_in(stored.subject)
        publisher_input = self._inputs.get(publisher) or self._add_input(publisher)
        if stored.offset <= publisher_input.last_offset:
            return
        before = self.log_decoder.offset
        self.time = max(self.time, stored.time)
        if before is not None and stored.offset > before + 1:
            self._interrupt_all(before + 1, stored.time)
        if publisher_input.resuming_channels:
            publisher_input.resume_channels_before(stored.offset, stored.time)
        try:
            deliveries = self.log_decoder.receive(stored, stored.time)
        except PeerFault as fault:
            if isinstance(fault, UnknownDictionary) and missing_definition(fault) is not None:
                raise  # the message is decoded again with the dictionary
            self._handle_fault(publisher_input, stored, fault)
            return
        self._counts.events += publisher_input.process(stored, deliveries)

    def take_messages(self, limit: int) -> list[ChannelMessage]:
        """Remove the buffered frames of all channels; return them as messages of at most `limit` bytes.

        A larger frame is a message of its own.
        """
        pending, self._settings.pending = self._settings.pending, []
        messages: list[ChannelMessage] = []
        for channel in pending:
            messages += channel.take_messages(limit)
        return messages

    def request_key_frames(self, class_id: str, publisher: str = "", now: float | None = None) -> None:
        """Send key frames of a class, for one publisher or all, at most one round per second.

        now: the current time, because the time of a quiet log does not advance
        """
        time = self.time if now is None else max(self.time, now)
        for channel in self._find_channels(class_id, publisher):
            channel.request_key_frames(time)

    def send_suppressed(self, class_id: str = "", publisher: str = "") -> None:
        """Report suppressed events: before a checkpoint, or if a publisher stopped without a last heartbeat."""
        for channel in self._find_channels(class_id, publisher):
            channel.send_suppressed(self.time)

    def list_channels(self) -> list[tuple[str, str]]:
        """Return class and publisher of every channel."""
        return [(class_id, name) for name, one in self._inputs.items() for class_id in one.channels]

    def find_stream(self, class_id: str, publisher: str) -> StreamEncoder | None:
        """Return the stream encoder of a channel; None if it has not begun."""
        return next((channel.catch_up() for channel in self._find_channels(class_id, publisher)), None)

    def _find_channels(self, class_id: str, publisher: str) -> Iterator[Channel]:
        """Yield the channels of a class and publisher; "" selects all."""
        inputs: Iterable[PublisherInput]
        inputs = [self._inputs[publisher]] if publisher in self._inputs else [] if publisher else self._inputs.values()
        for publisher_input in inputs:
            if not class_id:
                yield from publisher_input.channels.values()
            elif class_id in publisher_input.channels:
                yield publisher_input.channels[class_id]

    def _add_input(self, publisher: str) -> PublisherInput:
        publisher_input = self._inputs[publisher] = PublisherInput(
            publisher,
            self.log_decoder.open_decoder(publisher),
            self.problems.add,
            min_hold_group=self._settings.min_hold_group,
        )
        for class_id in self.classes:
            self._open_channel(publisher_input, class_id)
        return publisher_input

    def _open_channel(self, publisher_input: PublisherInput, class_id: str) -> None:
        publisher, counts = publisher_input.publisher, self._counts.classes[class_id]
        position = self._resume_at[class_id].get(publisher)
        channel = Channel(self.classes[class_id], publisher, self._settings, counts, self._next_sequence, position)
        publisher_input.open(channel, self.log_decoder.offset or 0, self.time)

    def _interrupt_all(self, offset: int, now: float) -> None:
        """Interrupt all channels: retention removed messages from `offset` on before they were read."""
        self.problems.add("log messages are missing")
        for publisher_input in self._inputs.values():
            publisher_input.resume_channels_before(offset, now)
            publisher_input.interrupt(now)

    def _handle_fault(self, publisher_input: PublisherInput, stored: StoredMessage, fault: PeerFault) -> None:
        publisher_input.interrupt(stored.time)
        if isinstance(fault, UnknownSchema):
            raise fault
        publisher_input.last_offset = stored.offset
        self.problems.add(f"publisher {publisher_input.publisher}: {fault}")
