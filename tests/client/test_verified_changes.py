"""Changes that a link vouches for: what passes is what a filter that compares every event lets pass."""

from __future__ import annotations

import random
from collections.abc import Coroutine, Iterator
from dataclasses import replace
from typing import Any, TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from thinwire.brokers.protocol import StoredMessage
from thinwire.client import change_filter
from thinwire.client.change_baseline import ChangeBaseline
from thinwire.client.event_shaper import EventShaper
from thinwire.client.feed import Feed
from thinwire.client.feed_switch import compare_feeds
from thinwire.client.subscription_request import SubscriptionRequest, make_request
from thinwire.codec import Demand, StreamConfig, StreamDecoder, StreamEncoder
from thinwire.schema import Event, Property, Schema
from thinwire.topics.demand_class import DemandClass
from thinwire.topics.log_decoder import LogDecoder
from thinwire.topics.log_selection import LogSelection
from thinwire.topics.topic_metadata import TopicMetadata
from thinwire.wire import join

T = TypeVar("T")
ROOMS = Schema(
    "rooms",
    [
        Property("time", "timestamp", "header"),
        Property("room", "string", "dimension"),
        Property("t", "number", step="0.1", minimum=-100, maximum=100),
        Property("n", "integer"),
        Property("on", "boolean"),
        Property("x", "float"),
        Property("note", "string"),
    ],
)
CHOICES: tuple[dict[str, Any], ...] = (
    {},
    {"properties": ("n", "note")},
    {"properties": ("x", "on")},
    {"properties": ("time",)},
    {"tolerance": {"t": 0.5}},
    {"sources": {"room": ("a", "b")}},
)


@pytest.fixture(scope="module", autouse=True)
def defer_early() -> Iterator[None]:
    """Values of verified changes are deferred from the second message on, and stored after a few events."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (("DEFER_AFTER", 2), ("MAX_DEFERRED", 20), ("DEFERRED_PER_SOURCE", 1)):
            patch.setattr(change_filter, name, value)
        yield


def at_once(coroutine: Coroutine[Any, Any, T]) -> T:
    """Return the result of a coroutine that never waits."""
    with pytest.raises(StopIteration) as end:
        coroutine.send(None)
    result: T = end.value.value
    return result


def wanted(**choice: Any) -> SubscriptionRequest:
    everything = {"properties": None, "sources": None, "exact": False, "tolerance": None}
    return make_request(emit="changes", **{**everything, **choice})


class Reader:
    """The receiving side of a subscription; compares: its decoders never verify changes."""

    def __init__(self, request: SubscriptionRequest, *, compares: bool) -> None:
        self._compares = compares
        self._topic = TopicMetadata(None, None, ROOMS)  # type: ignore[arg-type]  # no request is made
        demand = DemandClass(
            dict(request.tolerance), request.default_tolerance, request.exact, request.properties, {}, "changes"
        )
        self._shaper = EventShaper(self._topic, request, demand, None, lambda notice: None)
        self._baseline = ChangeBaseline(has_predicate=False)
        self.feed = self._new_feed()
        self._attach()
        self.seen: list[tuple[Any, ...]] = []
        self.changed_events = 0

    def take(self, stored: StoredMessage) -> None:
        log_decoder = self.feed.log_decoder
        events = [delivery for delivery in log_decoder.receive(stored, 0.0) if isinstance(delivery, Event)]
        decoder = log_decoder.select_decoder(stored)
        self.feed.offset = stored.offset
        self._note(at_once(self._shaper.shape(decoder, events, 0, log_decoder.changed_events)))
        if self._baseline.needs_comparison_after(self.feed, decoder, stored.offset):
            self._compare_state(decoder)
        self.changed_events += log_decoder.changed_events is not None

    def switch_feed(self, log: list[StoredMessage], back: int) -> None:
        """Continue with other decoders, which have read the log except for its last `back` messages."""
        feed = self._new_feed()
        end = max(0, len(log) - back)
        for stored in log[:end]:
            feed.log_decoder.receive(stored, 0.0)
        handover = compare_feeds(self.feed.log_decoder, feed.log_decoder)
        feed.log_decoder.dedup = handover.dedup if handover.dedup else None
        self.feed = feed
        self._attach()
        self._baseline.start_switch(feed, self._target)
        for decoder, events in handover.pending:
            self._note(at_once(self._shaper.shape(decoder, events)))
        for stored in log[end:]:
            self.take(stored)
        at_once(self._baseline.poll(0.0))
        assert self._baseline.try_finish_switch()
        for decoder in feed.log_decoder.decoders.values():
            self._compare_state(decoder)

    async def _target(self) -> int:
        return 0

    def _compare_state(self, decoder: StreamDecoder) -> None:
        events, repeated = at_once(self._shaper.shape_state(decoder, decoder.current_events(), 0, any_difference=False))
        self._note(events)
        if repeated:
            self.feed.log_decoder.include_suppressed_until(decoder.publisher, repeated)

    def _new_feed(self) -> Feed:
        log_decoder = LogDecoder(self._topic.lookup, only_changes=True)
        return Feed(None, LogSelection("rooms"), log_decoder)  # type: ignore[arg-type]

    def _attach(self) -> None:
        if not self._compares:
            self.feed.log_decoder.watched_properties = self._shaper.watched_properties

    def _note(self, events: list[Event]) -> None:
        self.seen += [(event.identity, repr(dict(event)), event.bound, event.virtual) for event in events]
        for event in events:
            event.clear()  # a subscriber may change the events that it receives


class World:
    """Publishers whose log both readers receive, except for lost messages."""

    def __init__(self, chance: random.Random, readers: list[Reader]) -> None:
        self.chance = chance
        self.readers = readers
        self.log: list[StoredMessage] = []
        self.received: list[StoredMessage] = []
        self.now = 0.0
        self.publishers: dict[str, StreamEncoder] = {}
        for name in ("p1", "p2"):
            self.begin(name, 1)

    def begin(self, name: str, incarnation: int) -> None:
        loose = self.chance.choice([{}, {"t": 0.2}])
        config = StreamConfig(demand=Demand(mode="hold", tolerance=loose, changes=self.chance.random() < 0.5))
        self.publishers[name] = StreamEncoder(ROOMS, config, name=name, incarnation=incarnation)
        self.send(name, self.publishers[name].start(self.now))

    def send(self, name: str, frames: list[bytes], *, lost: bool = False) -> None:
        if frames:
            self.log.append(StoredMessage(len(self.log) + 1, f"tw.log.rooms.{name}.d", join(frames), self.now))
            if not lost:
                self.received.append(self.log[-1])
                for reader in self.readers:
                    reader.take(self.log[-1])

    def step(self) -> None:
        name = self.chance.choice(sorted(self.publishers))
        publisher, what = self.publishers[name], self.chance.random()
        self.now += 1.5
        if what < 0.86:
            self.send(name, [f for _ in range(6) for f in publisher.publish(self.event(), self.now)], lost=what < 0.02)
        elif what < 0.9:
            self.send(name, publisher.heartbeat(self.now))
        elif what < 0.94:
            self.send(name, publisher.start(self.now))
        elif what < 0.96:
            demand = replace(publisher.config.demand, tolerance=self.chance.choice([{}, {"t": 0.2}, {"t": 0.5}]))
            config = replace(publisher.config, demand=demand, version=publisher.config.version + 1)
            self.send(name, publisher.reconfigure(config, self.now))
        elif what < 0.98:
            self.begin(name, publisher.incarnation + 1)
        else:
            back = self.chance.choice([0, 1, 3])
            for reader in self.readers:
                reader.switch_feed(self.received, back)

    def event(self) -> dict[str, Any]:
        pick, rarely = self.chance.choice, self.chance.random() < 0.03
        return {
            "time": int(self.now * 1000),
            "room": pick("abcd" if not rarely else "abcdefgh"),
            "t": pick([20.0, 20.0, 20.1, 20.4, 21.0]) if not rarely else pick([None, 20.04, 140.0]),
            "n": pick([1, 1, 1, 2]) if not rarely else pick([None, 1 << 60]),
            "on": pick([True, True, True, False]),
            "x": pick([0.0, 0.0, 0.0, -0.0, 1.5]),
            "note": pick(["calm"] * 60 + ["storm"]),
        }


@pytest.mark.parametrize("choice", range(len(CHOICES)))
@settings(max_examples=6, deadline=None)
@given(seed=st.integers(0, 1 << 32))
def test_the_same_events_pass_as_with_a_comparing_filter(choice: int, seed: int) -> None:
    quick, plain = (Reader(wanted(**CHOICES[choice]), compares=way) for way in (False, True))
    world = World(random.Random(seed), [quick, plain])
    for _ in range(90):
        world.step()
        assert quick.seen == plain.seen
    assert not plain.changed_events


CALM = {"time": 0, "room": "a", "t": 20.0, "n": 0, "on": True, "x": 0.0, "note": "calm"}


class Line:
    """One publisher and one reader of what it sends."""

    def __init__(self, **choice: Any) -> None:
        self.reader = Reader(wanted(**choice), compares=False)
        self.publisher = StreamEncoder(ROOMS, StreamConfig(demand=Demand(mode="hold")), name="p3")
        self.offset = 0
        self.send(self.publisher.start(0.0))
        self.publish()

    def send(self, frames: list[bytes]) -> int:
        """Return the number of events that pass."""
        self.offset += 1
        before = len(self.reader.seen)
        self.reader.take(StoredMessage(self.offset, "tw.log.rooms.p3.d", join(frames), 0.0))
        return len(self.reader.seen) - before

    def publish(self, **changes: Any) -> int:
        return self.send(self.publisher.publish(CALM | changes, 0.0))


def test_changes_of_a_calm_stream_are_verified_and_events_without_a_change_are_dropped() -> None:
    line = Line(properties=("n",))
    passed = [line.publish(n=k // 4, x=float(k + 1)) for k in range(40)]
    assert passed == [k % 4 == 0 and k > 0 for k in range(40)]
    assert line.reader.changed_events == 39  # the first one cannot be verified yet
    assert line.reader.feed.log_decoder.decoders["p3"].counts.events == 2 + 9


def test_a_changed_text_passes_after_many_verified_changes() -> None:
    line = Line()
    assert [line.publish(n=k + 1) for k in range(10)] == [1] * 10
    assert line.reader.changed_events == 9
    assert line.publish(n=10, note="storm") == 1
    assert line.publish(n=10, note="storm", on=False) == 1


def test_a_state_corrected_by_a_key_frame_counts_as_a_change() -> None:
    line, other = Line(properties=("n",)), Line()
    for k in range(5):
        line.publish(n=3, x=float(k + 1))
        other.publish(n=5, x=float(k + 1))
    line.send(other.publisher.start(0.0))
    line.publisher = other.publisher
    assert line.publish(n=5, x=9.0) == 1
    assert line.publish(n=5, x=10.0) == 0


def test_a_value_off_the_grid_is_not_repeated_by_suppressed_events() -> None:
    line = Line(properties=("t",))
    assert [line.publish(x=1.0), line.publish(x=2.0), line.publish(x=2.0, t=20.04)] == [0, 0, 1]
    assert line.publisher.publish(CALM | {"x": 2.0}, 0.0) == []
    assert line.send(line.publisher.heartbeat(0.0)) == 0
    assert line.publish(x=3.0) == 1
