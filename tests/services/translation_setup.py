"""A log, the channels of its classes, translators that die, and readers: lists of messages, one after the other."""

from collections import defaultdict

from thinwire.brokers.protocol import StoredMessage
from thinwire.codec import EventsMissed, StreamConfig, StreamDecoder, StreamEncoder
from thinwire.schema import Event, flatten
from thinwire.services.translator.translation import Translation
from thinwire.topics.log_decoder import LogDecoder
from thinwire.topics.names import data_subject, key_subject
from thinwire.topics.position import Position, decode_envelope
from thinwire.wire import begins_round, join


class Log:
    """The log of a topic and those who write it; `truth` has every event by identity, `bounds` what was told of it."""

    def __init__(self, schema, publishers=("p1", "p2"), **config):
        self.schema = schema
        self.config = StreamConfig(**config)
        self.messages = []
        self.truth, self.bounds = {}, {}
        self.now = 1000.0
        self._frames = defaultdict(list)
        self._ordinals = defaultdict(int)
        self.publishers = {}
        for name in publishers:
            self.live(name)

    def live(self, name, incarnation=1):
        """A publisher begins a life."""
        publisher = StreamEncoder(self.schema, self.config, name=name, incarnation=incarnation, now=self.now)
        self.publishers[name] = publisher
        self.say(name, publisher.start(self.now))

    def publish(self, name, event, *, flush=True):
        """An event, in a message of its own, or with others."""
        publisher = self.publishers[name]
        self.now += 0.25
        source = tuple(event[p.name] for p in self.schema.dimensions)
        self._ordinals[name, publisher.incarnation, source] += 1
        identity = name, publisher.incarnation, source, self._ordinals[name, publisher.incarnation, source]
        self.truth[identity] = flatten(event, self.schema)
        self.bounds[identity] = publisher.rules.bounds
        self._frames[name] += publisher.publish(event, self.now)
        if flush:
            self.flush(name)

    def heartbeat(self, name):
        self.say(name, self.publishers[name].heartbeat(self.now))

    def reconfigure(self, demand):
        self.config = StreamConfig(self.config.version + 1, demand)
        for name, publisher in self.publishers.items():
            self.say(name, publisher.reconfigure(self.config, self.now))

    def say(self, name, frames):
        self._frames[name] += frames
        self.flush(name)

    def flush(self, name):
        """What gathered becomes messages; a frame that begins a round stands alone."""
        frames, self._frames[name] = self._frames[name], []
        batch = []
        for frame in [*frames, b""]:
            if not frame or begins_round(frame):
                if batch:
                    self.put(data_subject(self.schema.name, name), join(batch))
                    batch = []
                if frame:
                    self.put(key_subject(self.schema.name, name), frame)
            else:
                batch.append(frame)

    def put(self, subject, payload):
        self.messages.append(StoredMessage(len(self.messages) + 1, subject, payload, self.now))

    def schemas(self, classes=()):
        """All schemas that travel, to the classes too."""
        every = [self.schema, *(one.schema(self.schema) for one in classes)]
        return {schema.fingerprint: schema for schema in every}.get

    def translation(self, epoch=1, **others):
        return Translation(self.schema.name, self.schemas(), epoch=epoch, **others)


class Channels:
    """What translators have written, and where that ends."""

    def __init__(self, log):
        self.log = log
        self.messages = []

    def ends(self, class_id):
        """Where the channels of a class end, by publisher."""
        found = {}
        for message in self.messages:
            epoch, position, _ = decode_envelope(message.payload)
            if message.class_id == class_id and epoch >= found.get(message.publisher, (0, None))[0]:
                found[message.publisher] = epoch, position
        return {publisher: position for publisher, (_, position) in found.items()}

    def successor(self, classes, epoch):
        """A translator that goes on from here, and the offset of the last message that all channels have told."""
        begins = {one.id: self.ends(one.id) for one in classes}
        untold = Position(0)
        first = min(begins[one.id].get(name, untold).offset for one in classes for name in self.log.publishers)
        log_decoder = LogDecoder(self.log.schemas())
        for stored in self.log.messages[:first]:
            log_decoder.receive(stored, stored.time)
        log_decoder.offset = first
        translation = self.log.translation(epoch, log_decoder=log_decoder)
        for one in classes:
            translation.open(one, begins[one.id])
        return translation, first


class Reader:
    """A subscriber of a class: what its channel brings, publisher by publisher."""

    def __init__(self, log, one, **options):
        self.asked = one
        self.deliveries = []
        self.epochs = {}
        self.links = {}
        self._lookup = log.schemas([one])
        self._options = options

    def read(self, messages):
        before = len(self.deliveries)
        for message in messages:
            if message.class_id == self.asked.id:
                self._take(message)
        return self.deliveries[before:]

    def _take(self, message):
        epoch, _, frames = decode_envelope(message.payload)
        known = self.epochs.setdefault(message.publisher, epoch)
        if epoch < known:
            return
        if message.publisher not in self.links:
            self.links[message.publisher] = StreamDecoder(self._lookup, publisher=message.publisher, **self._options)
        link = self.links[message.publisher]
        if epoch > known:
            link.expect_successor()
            self.epochs[message.publisher] = epoch
        self.deliveries += link.receive(frames, now=0.0)

    @property
    def events(self):
        return [thing for thing in self.deliveries if isinstance(thing, Event)]

    @property
    def missed(self):
        return [thing for thing in self.deliveries if isinstance(thing, EventsMissed)]
