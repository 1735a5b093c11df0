"""With any dictionaries and losses, delivered events equal published events, or the loss is reported."""

from dictionary_setup import DICTIONARIES, Reader, entry, publisher
from hypothesis import given, settings
from hypothesis import strategies as st

from thinwire.codec import EventsMissed, State
from thinwire.codec import stream_snapshot as checkpoints
from thinwire.schema import Event
from thinwire.wire import join

STEPS = st.one_of(
    st.tuples(st.just("publish"), st.integers(1, 4), st.sampled_from("ab")),
    st.tuples(st.just("use"), st.integers(0, 2), st.integers(1, 3), st.sampled_from([0, 5, 20, 90])),
    st.tuples(st.just("drop"), st.integers(1, 3)),
    st.tuples(st.just("wait"), st.integers(1, 20)),
    st.sampled_from([("round",), ("lose",), ("send",), ("send",), ("restart",), ("checkpoint",), ("join",)]),
    st.tuples(st.just("store"), st.integers(0, 2)),
)


class Story:
    """A publisher, a store with some dictionaries, and a decoder that receives most messages."""

    def __init__(self, form):
        self.form = form
        self.now = 0.0
        self.truth = {}
        self.counts = {}
        self.number = 0
        self.incarnation = 0
        self.store = {}
        self.reader = Reader(self.store)
        self.readers = [self.reader]
        self.frames = []
        self.restart()

    def restart(self):
        self.frames = []  # frames that were not sent are lost with the publisher
        self.incarnation += 1
        self.counts = {}
        self.publisher = publisher(incarnation=self.incarnation, format=self.form)
        self.frames += self.publisher.start(self.now)

    def publish(self, count, host):
        for _ in range(count):
            self.number += 1
            event = entry(self.number // 2, host)  # every other event repeats the previous one
            ordinal = self.counts[host] = self.counts.get(host, 0) + 1
            self.truth[self.incarnation, (host,), ordinal] = event
            self.frames += self.publisher.publish(event, self.now)

    def use(self, number, slot, lasts):
        self.frames += self.publisher.use(DICTIONARIES[number], slot, self.now + lasts if lasts else 0)

    def drop(self, slot):
        self.publisher.drop(slot)

    def wait(self, seconds):
        self.now += seconds

    def round(self):
        self.frames += self.publisher.start(self.now)

    def store_(self, number):
        d = DICTIONARIES[number]
        if self.store.pop(d.hash, None) is None:
            self.store[d.hash] = d

    def lose(self):
        self.frames = []

    def send(self):
        if self.frames:
            message, self.frames = join(self.frames), []
            for reader in self.readers:
                reader.hand(message)

    def checkpoint(self):
        """Restore another decoder from the state of the first one."""
        if self.reader.subscriber.state is State.READY:
            snapshot = checkpoints.snapshot_decoder(self.reader.subscriber)
            self.reader.subscriber = self.reader.fresh()
            checkpoints.restore_decoder(self.reader.subscriber, snapshot)

    def join(self):
        self.send()
        late = Reader(self.store)
        self.readers.append(late)
        self.round()

    def end(self):
        for d in DICTIONARIES:
            self.store[d.hash] = d
        self.round()
        self.publish(2, "a")
        self.publish(2, "b")
        self.frames += self.publisher.heartbeat(self.now)
        self.send()


def check(story, reader):
    last, reported = {}, {}
    for thing in reader.out:
        if isinstance(thing, EventsMissed):
            reported = dict.fromkeys(last, True)
        elif isinstance(thing, Event):
            assert dict(thing) == story.truth[thing.incarnation, thing.source, thing.ordinal]
            before, position = last.get(thing.source), (thing.incarnation, thing.ordinal)
            assert before is None or position > before, "each once, in order"
            gapless = before is None or position == (before[0], before[1] + 1)
            assert gapless or reported[thing.source], "missing events were reported"
            last[thing.source], reported[thing.source] = position, False
    assert last.keys() == {("a",), ("b",)}
    assert all(position == (story.incarnation, story.counts[source[0]]) for source, position in last.items())


@given(st.lists(STEPS, max_size=40), st.sampled_from(["compact", "json"]))
@settings(max_examples=60, deadline=None)
def test_delivered_events_equal_published_events(steps, form):
    story = Story(form)
    for step, *given_ in steps:
        getattr(story, "store_" if step == "store" else step)(*given_)
    story.end()
    for reader in story.readers:
        check(story, reader)
