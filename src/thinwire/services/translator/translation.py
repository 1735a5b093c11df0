"""Translation: the log of a topic in, the channels of its classes out. No I/O, no clock.

>>> from thinwire.topics.topic_documents import SubscriptionDocument
>>> from thinwire.topics.log_position import unseal
>>> from thinwire.schema import Property
>>> from thinwire.wire import join
>>> from thinwire.codec import StreamEncoder
>>> rooms = Schema("rooms", [Property("room", "string", "dimension"), Property("t", "number", step="0.1")])
>>> log = StreamEncoder(rooms, name="p1", compiled=False)
>>> translation = Translation("rooms", {rooms.fingerprint: rooms}.get, epoch=1)
>>> translation.open(DemandClass.of(SubscriptionDocument("rooms", "a", {"t": 0.5})))
>>> translation.receive(Stored(1, "tw.log.rooms.p1.k", log.start(0)[0], 0.0))
>>> for offset, t in enumerate((20.0, 20.4, 20.6), start=2):
...     translation.receive(Stored(offset, "tw.log.rooms.p1.d", join(log.publish({"room": "11.1", "t": t}, 0)), 0.0))
>>> [(message.key, unseal(message.payload)[1].offset) for message in translation.take(65_536)]
[(True, 1), (False, 4)]
>>> translation.counts.events, translation.counts.encodings
(3, 3)

What a translation has done so far, and what went wrong, in numbers the ledger takes over.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from thinwire.brokers.protocol import Stored
from thinwire.codec import Counts, EventsMissed, StreamDecoder, StreamEncoder
from thinwire.codec.reducer import MAX_SOURCES
from thinwire.errors import PeerFault, TooManyClasses, UnknownDictionary, UnknownSchema
from thinwire.schema import Schema
from thinwire.services.translator.channel import Channel
from thinwire.services.translator.channel_encoder import HOLD_FROM, ChannelSettings
from thinwire.services.translator.message_batcher import Outgoing
from thinwire.services.translator.publisher_feed import PublisherInput
from thinwire.topics.demand_class import MAX_CLASSES, DemandClass
from thinwire.topics.log_decoder import LogDecoder, Lookup, name_of
from thinwire.topics.log_position import ChannelPosition
from thinwire.topics.names import publisher_in

MAX_PROBLEMS = 64


class TranslationCounts:
    """events: of the log, each once; classes: what was encoded for each class that is open, and the bytes it took."""

    def __init__(self) -> None:
        self.events = 0
        self.classes: dict[str, Counts] = {}
        self._before = 0

    @property
    def encodings(self) -> int:
        """Events encoded, once for each class that takes them."""
        return self._before + sum(counts.events for counts in self.classes.values())

    def open(self, class_id: str) -> Counts:
        """A class begins."""
        return self.classes.setdefault(class_id, Counts())

    def close(self, class_id: str) -> None:
        """A class ends; what was encoded for it still counts."""
        self._before += self.classes.pop(class_id).events


class Problems(dict[str, int]):
    """What went wrong, in words, and how often. Only so many are kept: the oldest go first.

    >>> problems = Problems()
    >>> problems.note("the same"); problems.note("the same"); problems
    {'the same': 2}
    """

    def note(self, problem: str) -> None:
        """It happened again, or for the first time."""
        self[problem] = self.pop(problem, 0) + 1
        if len(self) > MAX_PROBLEMS:
            del self[next(iter(self))]


class Translation:
    """The channels of one topic, fed with every message of its log in order.

    lookup: finds a schema that travels by its fingerprint; epoch: of this translator, larger than its predecessor's
    log_decoder: the decoders. They may have read the log already, up to `log_decoder.offset`; others may be put in
    their place
        before a class is opened
    key_frame_interval: seconds of the log's time in which a channel tells the state of every source once
    max_sources: how many sources a channel takes
    hold_from: so many channels of changes that tell of one publisher are fed as one, see `HoldGroup`
    problems: what went wrong, in words, and how often
    """

    def __init__(
        self,
        topic: str,
        lookup: Lookup,
        *,
        epoch: int,
        log_decoder: LogDecoder | None = None,
        key_frame_interval: float = 3600.0,
        max_sources: int = MAX_SOURCES,
        hold_from: int = HOLD_FROM,
    ) -> None:
        self.topic = topic
        self.epoch = epoch
        self.log_decoder = log_decoder or LogDecoder(lookup)
        self._counts = TranslationCounts()
        self.problems = Problems()
        self.time = 0.0
        self._settings = ChannelSettings(epoch, key_frame_interval, max_sources, hold_from=hold_from)
        self._classes: dict[str, tuple[DemandClass, Mapping[str, ChannelPosition]]] = {}
        self._open = Counter[str]()
        self._feeds: dict[str, PublisherInput] = {}
        self._next_sequence = epoch << 32

    @property
    def links(self) -> dict[str, StreamDecoder]:
        """The decoders, by publisher."""
        return self.log_decoder.links

    @property
    def counts(self) -> TranslationCounts:
        """What was done."""
        for feed in self._feeds.values():
            feed.catch_up()
        return self._counts

    @property
    def classes(self) -> dict[str, DemandClass]:
        """The classes that are open, by their names."""
        return {name: asked for name, (asked, _) in self._classes.items()}

    def open(
        self, asked: DemandClass, begins: Mapping[str, ChannelPosition] | None = None, schema: Schema | None = None
    ) -> None:
        """Serve a class from now on. One that is served already goes on as it does.

        begins: where the channels of a predecessor ended, by publisher. Those go on where the decoder comes to that
            place; others begin where their state is first known
        schema: the topic's, to check the demand against

        Raises DemandError for a class that contradicts itself, TooManyClasses above the limits.
        """
        if asked.id in self._classes:
            return
        asked.check(schema)
        limit = MAX_CLASSES[asked.mode]
        if self._open[asked.mode] >= limit:
            raise TooManyClasses(topic=self.topic, mode=asked.mode, limit=limit)
        self._open[asked.mode] += 1
        self._classes[asked.id] = asked, begins or {}
        self._counts.open(asked.id)
        for feed in self._feeds.values():
            self._add(feed, asked.id)
        for name in [name for name in self.log_decoder.links if name not in self._feeds]:
            self._feed(name)

    def close(self, class_id: str) -> None:
        """Serve a class no longer; no harm if there is none. What it has to say and was not taken is dropped."""
        if class_id not in self._classes:
            return
        self._open[self._classes.pop(class_id)[0].mode] -= 1
        for feed in self._feeds.values():
            # where it is opened again its frames have higher numbers, else its readers would take them for old ones
            self._next_sequence = max(self._next_sequence, feed.close(class_id).sequence)
        self._counts.close(class_id)

    def receive(self, stored: Stored) -> None:
        """The next message of the log.

        Raises UnknownSchema: receive it again when the schema is known; UnknownDictionary with a hash: receive it again
        when the dictionary is known, or cannot be had.
        """
        publisher = publisher_in(stored.subject)
        feed = self._feeds.get(publisher) or self._feed(publisher)
        if stored.offset <= feed.last:
            return
        before = self.log_decoder.offset
        self.time = max(self.time, stored.time)
        if before is not None and stored.offset > before + 1:
            self._lose_all(before + 1, stored.time)
        feed.take_over_channels(stored.offset, stored.time)
        try:
            found = self.log_decoder.receive(stored, stored.time)
        except PeerFault as fault:
            if isinstance(fault, UnknownDictionary) and name_of(fault) is not None:
                raise  # nothing is lost yet
            self._fail(feed, stored, fault)
            return
        own = (thing for thing in found if not isinstance(thing, EventsMissed) or thing.publisher == publisher)
        self._counts.events += feed.take_in(stored, own)

    def take(self, limit: int) -> list[Outgoing]:
        """What the channels have to say, as messages of at most so many bytes; a larger frame goes alone."""
        speaking, self._settings.speaking = self._settings.speaking, []
        return [message for channel in speaking for message in channel.take(limit)]

    def answer(self, class_id: str, publisher: str = "", now: float | None = None) -> None:
        """A subscriber of a class asks for key frames, of one publisher or of all; at most one round a second each.

        now: by whose time, where the log is so quiet that its own time does not go on
        """
        time = self.time if now is None else max(self.time, now)
        for channel in self._chosen(class_id, publisher):
            channel.answer(time)

    def send_suppressed(self, class_id: str = "", publisher: str = "") -> None:
        """Tell what was passed over in silence: before a checkpoint, or because a publisher has fallen silent without a
        word, so that no heartbeat of its own makes it due."""
        for channel in self._chosen(class_id, publisher):
            channel.send_suppressed(self.time)

    def channels(self) -> list[tuple[str, str]]:
        """Class and publisher of every channel."""
        return [(class_id, name) for name, feed in self._feeds.items() for class_id in feed.channels]

    def channel(self, class_id: str, publisher: str) -> StreamEncoder | None:
        """The publishing end of a channel; None where it has not begun."""
        return next((channel.active_encoder for channel in self._chosen(class_id, publisher)), None)

    @property
    def waiting(self) -> int:
        """Bytes of memory that the frames need which wait to be taken."""
        return self._settings.waiting

    def _chosen(self, class_id: str, publisher: str) -> Iterator[Channel]:
        """The channels of a class, or of all, that tell of a publisher, or of all."""
        feeds: Iterable[PublisherInput]
        feeds = [self._feeds[publisher]] if publisher in self._feeds else [] if publisher else self._feeds.values()
        for feed in feeds:
            if not class_id:
                yield from feed.channels.values()
            elif class_id in feed.channels:
                yield feed.channels[class_id]

    def _feed(self, publisher: str) -> PublisherInput:
        feed = self._feeds[publisher] = self._begin_feed(publisher)
        for class_id in self._classes:
            self._add(feed, class_id)
        return feed

    def _begin_feed(self, publisher: str) -> PublisherInput:
        link = self.log_decoder.link(publisher)
        return PublisherInput(publisher, link, self.problems.note, hold_from=self._settings.hold_from)

    def _add(self, feed: PublisherInput, class_id: str) -> None:
        asked, begins = self._classes[class_id]
        counts, begin = self._counts.classes[class_id], begins.get(feed.publisher)
        channel = Channel(asked, feed.publisher, self._settings, counts, self._next_sequence, begin)
        feed.open(channel, self.log_decoder.offset or 0, self.time)

    def _lose_all(self, offset: int, now: float) -> None:
        """Messages have left the log before they were read, from this offset on."""
        self.problems.note("messages of the log are missing")
        for feed in self._feeds.values():
            feed.take_over_channels(offset, now)
            feed.lose(now)

    def _fail(self, feed: PublisherInput, stored: Stored, fault: PeerFault) -> None:
        feed.lose(stored.time)
        if isinstance(fault, UnknownSchema):
            raise fault
        feed.last = stored.offset
        self.problems.note(f"publisher {feed.publisher}: {fault}")
