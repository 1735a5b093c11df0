"""A topic log, the channels of its classes, translators that are replaced, and readers, all as lists of messages."""

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
    """The log of a topic and its publishers; `truth` has every event by identity, `bounds` its bounds in the log."""

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
            self.start_publisher(name)

    def start_publisher(self, name, incarnation=1):
        """Start an incarnation of a publisher."""
        publisher = StreamEncoder(self.schema, self.config, name=name, incarnation=incarnation, now=self.now)
        self.publishers[name] = publisher
        self.append(name, publisher.start(self.now))

    def publish(self, name, event, *, flush=True):
        """Publish an event, in a message of its own or with others."""
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
        self.append(name, self.publishers[name].heartbeat(self.now))

    def reconfigure(self, demand):
        self.config = StreamConfig(self.config.version + 1, demand)
        for name, publisher in self.publishers.items():
            self.append(name, publisher.reconfigure(self.config, self.now))

    def append(self, name, frames):
        self._frames[name] += frames
        self.flush(name)

    def flush(self, name):
        """Write the pending frames; a frame that begins a key frame round is a message of its own."""
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
        """Return a lookup of the schemas of the log and of the classes by fingerprint."""
        schemas = [self.schema, *(one.schema(self.schema) for one in classes)]
        return {schema.fingerprint: schema for schema in schemas}.get

    def translation(self, epoch=1, **others):
        return Translation(self.schema.name, self.schemas(), epoch=epoch, **others)


class Channels:
    """The messages that translators have written, and the end of each channel."""

    def __init__(self, log):
        self.log = log
        self.messages = []

    def ends(self, class_id):
        """Return the end position of the channels of a class, by publisher."""
        found = {}
        for message in self.messages:
            epoch, position, _ = decode_envelope(message.payload)
            if message.class_id == class_id and epoch >= found.get(message.publisher, (0, None))[0]:
                found[message.publisher] = epoch, position
        return {publisher: position for publisher, (_, position) in found.items()}

    def successor(self, classes, epoch):
        """Return a translator that resumes here, and the offset of the last message that all channels cover."""
        positions = {one.id: self.ends(one.id) for one in classes}
        start = Position(0)
        first = min(positions[one.id].get(name, start).offset for one in classes for name in self.log.publishers)
        log_decoder = LogDecoder(self.log.schemas())
        for stored in self.log.messages[:first]:
            log_decoder.receive(stored, stored.time)
        log_decoder.offset = first
        translation = self.log.translation(epoch, log_decoder=log_decoder)
        for one in classes:
            translation.open(one, positions[one.id])
        return translation, first


class Reader:
    """A subscriber of a class: decodes its channels, with one decoder per publisher."""

    def __init__(self, log, demand, **options):
        self.demand = demand
        self.deliveries = []
        self.epochs = {}
        self.decoders = {}
        self._lookup = log.schemas([demand])
        self._options = options

    def read(self, messages):
        before = len(self.deliveries)
        for message in messages:
            if message.class_id == self.demand.id:
                self._decode(message)
        return self.deliveries[before:]

    def _decode(self, message):
        epoch, _, frames = decode_envelope(message.payload)
        last_epoch = self.epochs.setdefault(message.publisher, epoch)
        if epoch < last_epoch:
            return
        if message.publisher not in self.decoders:
            self.decoders[message.publisher] = StreamDecoder(self._lookup, publisher=message.publisher, **self._options)
        decoder = self.decoders[message.publisher]
        if epoch > last_epoch:
            decoder.expect_successor()
            self.epochs[message.publisher] = epoch
        self.deliveries += decoder.receive(frames, now=0.0)

    @property
    def events(self):
        return [delivery for delivery in self.deliveries if isinstance(delivery, Event)]

    @property
    def missed(self):
        return [delivery for delivery in self.deliveries if isinstance(delivery, EventsMissed)]
