"""The registry's conclusions: at once where somebody asks for more, later where less, the same after a restart."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from thinwire.brokers.protocol import NOTHING, BucketEntry
from thinwire.schema import Property, Schema
from thinwire.services.registry import Registry
from thinwire.topics.topic_documents import SubscriptionDocument, TopicDocument, decode, encode
from thinwire.topics.topic_settings import ConfigDocument, Settings, schema_key

ROOMS = Schema("rooms", [Property("t", "number", step="0.1", minimum=0, maximum=50), Property("h", "number", step=1)])


class Bucket:
    """Documents under keys, with revisions, as a broker keeps them."""

    def __init__(self):
        self.entries = {}
        self.revision = 0

    def put(self, key, value, revision=None):
        last = self.entries[key].revision if key in self.entries and self.entries[key].value is not None else NOTHING
        if revision is not None and revision != last:
            return None
        self.revision += 1
        self.entries[key] = BucketEntry(key, value, self.revision)
        return self.entries[key]

    def present(self):
        return sorted((e for e in self.entries.values() if e.value is not None), key=lambda entry: entry.revision)


class World:
    """A registry at its bucket."""

    def __init__(self, settings=None, **options):
        self.bucket = Bucket()
        self.options = options
        self.now = 1000.0
        self.writes = 0
        self.start()
        self.store(schema_key("rooms", ROOMS.fingerprint), encode(ROOMS))
        self.store("topic.rooms", encode(TopicDocument("rooms", ROOMS.fingerprint.hex(), settings or Settings())))

    def start(self):
        self.registry = Registry(**self.options)
        for entry in self.bucket.present():
            self.registry.apply(entry, self.now)

    def store(self, key, value):
        self.registry.apply(self.bucket.put(key, value), self.now)

    def ask(self, identity, t=None, **fields):
        tolerance = {} if t is None else {"t": t}
        asked = SubscriptionDocument("rooms", identity, tolerance, **fields)
        self.store(asked.key, encode(asked))

    def leave(self, identity):
        self.store(f"subscription.rooms.{identity}", None)

    def settle(self, seconds=0.0):
        self.now += seconds
        for _ in range(10):
            writes = self.registry.decide(self.now)
            assert self.registry.decide(self.now) == writes
            if not writes:
                return self.config
            for write in writes:
                entry = self.bucket.put(write.key, write.value, write.revision)
                assert entry is not None, "the registry insists on what it has seen"
                self.writes += 1
                self.registry.apply(entry, self.now)
        raise AssertionError("the registry does not come to rest")

    @property
    def config(self):
        entry = self.bucket.entries.get("config.rooms")
        return None if entry is None or entry.value is None else decode(entry.key, entry.value)

    @property
    def told(self):
        return self.config.demand.tolerance.get("t", self.config.demand.default_tolerance)


def test_nobody_asks_nothing_is_wanted():
    world = World()
    config = world.settle()
    assert (config.wanted, config.version) == (False, 1)
    assert World(Settings(retain=True, max_silence=5)).settle().max_silence == 5


def test_stricter_at_once_looser_after_the_grace():
    world = World(grace=10.0)
    world.settle(20)
    world.ask("a", 0.5)
    assert (world.settle().wanted, world.told) == (True, 0.5)
    world.ask("b", 0.1)
    assert world.settle()
    assert world.told == 0.1
    world.leave("b")
    assert world.settle(9.9)
    assert world.told == 0.1
    assert world.settle(0.2)
    assert world.told == 0.5
    world.leave("a")
    assert world.settle(9.9).wanted
    assert not world.settle(0.2).wanted


def test_who_comes_and_goes_changes_nothing():
    world = World(grace=10.0)
    world.ask("a", 0.5)
    world.ask("b", 0.1)
    before = world.settle(20)
    for _ in range(50):
        world.leave("b")
        assert world.settle(3) == before
        world.ask("b", 0.1, since=world.now)
        assert world.settle(3) == before


def test_to_ask_for_less_counts_after_the_grace():
    world = World(grace=10.0)
    world.ask("a", 0.1)
    world.settle(20)
    world.ask("a", 0.5)
    world.settle(5)
    assert world.told == 0.1
    world.settle(6)
    assert world.told == 0.5


def test_the_last_listener_of_a_retained_log():
    world = World(Settings(retain=True), grace=10.0)
    world.settle(20)
    world.ask("a", 0.5)
    assert world.settle()
    assert world.told == 0.5
    before = world.config
    world.leave("a")
    assert world.settle(9) == before
    world.settle(2)
    assert world.told == 0
    assert world.config.wanted


def test_a_restarted_registry_writes_nothing_new():
    world = World()
    world.ask("a", "1%")
    world.ask("b", 2, durable="b")
    before = world.settle(30)
    for _ in range(3):
        world.start()
        assert world.settle(5) == before
        assert world.settle(30) == before


def test_who_left_while_no_registry_ran_still_has_its_grace():
    world = World(grace=10.0)
    world.ask("a", 0.5)
    world.ask("b", 0.1)
    world.settle(30)
    world.bucket.put("subscription.rooms.b", None)
    world.now += 100
    world.start()
    world.settle()
    world.settle(9)
    assert world.told == 0.1
    world.settle(2)
    assert world.told == 0.5


def test_two_registries_do_not_undo_each_other():
    world = World(grace=10.0)
    world.ask("a", 0.5)
    world.ask("b", 0.1)
    world.settle(30)
    other = Registry(grace=10.0)
    for entry in world.bucket.present():
        other.apply(entry, world.now)
    assert other.decide(world.now - 100) == []
    gone = world.bucket.put("subscription.rooms.b", None)
    world.registry.apply(gone, world.now)
    other.apply(gone, world.now + 1)  # it learns later, so to it the grace ends later
    world.settle(10.5)
    assert world.told == 0.5
    other.apply(world.bucket.entries["config.rooms"], world.now)
    assert other.decide(world.now) == []
    assert other.decide(world.now + 20) == []


def test_versions_only_go_up_even_when_the_configuration_is_lost():
    world = World()
    versions = [world.settle(30).version]
    for count in range(5):
        world.ask("a", count + 1)
        versions.append(world.settle(30).version)
    world.store("config.rooms", None)
    versions.append(world.settle().version)
    world.store("config.rooms", b"rubbish")
    versions.append(world.settle().version)
    world.store("config.rooms", b"rubbish")
    world.start()
    versions.append(world.settle().version)
    assert versions == sorted(set(versions))


def test_an_unread_document_stops_nobody():
    world = World()
    world.ask("a", 0.5)
    world.store("subscription.rooms.bad", b'{"topic":"rooms","identity":"bad","tolerance":7}')
    world.store("subscription.rooms.worse", b"\xff")
    world.store("nonsense", b"{}")
    world.settle(30)
    assert world.told == 0.5
    assert set(world.registry.problems()) == {"subscription.rooms.bad", "subscription.rooms.worse", "nonsense"}
    world.store("subscription.rooms.bad", None)
    world.store("nonsense", None)
    assert set(world.registry.problems()) == {"subscription.rooms.worse"}


def test_settings_no_publisher_could_follow_are_reported_and_not_passed_on():
    world = World(Settings(predictor={"nobody": "linear"}, min_interval=5))
    assert world.settle() is None
    assert "min_interval" in world.registry.problems()["config.rooms"]


def test_a_new_schema_keeps_the_promise():
    world = World()
    world.ask("a", "1%")
    world.settle(30)
    wider = Schema("rooms", [Property("t", "number", step="0.1"), Property("h", "number", step=1)], version=2)
    world.store(schema_key("rooms", wider.fingerprint), encode(wider))
    world.store("topic.rooms", encode(TopicDocument("rooms", wider.fingerprint.hex())))
    world.settle()
    assert world.told == 0
    assert "percentage" in world.registry.problems()["config.rooms"]


def test_a_subscription_that_does_not_answer_twice_is_removed():
    world = World(grace=10.0, probe_every=5.0)
    world.ask("quick", 0.5)
    world.ask("dead", 0.1)
    world.ask("durable", 1, durable="d")
    world.settle(20)
    assert [asked.identity for asked in world.registry.probes(world.now)] == ["dead", "quick"]
    assert world.registry.probes(world.now) == []
    for round_ in range(2):
        world.now += 5
        for asked in world.registry.probes(world.now):
            world.registry.record_probe(asked, asked.identity == "quick")
        world.settle()
        assert ("subscription.rooms.dead" in world.registry.shelf.known()) == (round_ == 0)
    world.settle(11)
    assert world.told == 0.5


def test_an_answer_between_two_misses_forgives():
    world = World()
    world.ask("a", 0.5)
    for answered in (False, True, False):
        world.now += 5
        [asked] = world.registry.probes(world.now)
        world.registry.record_probe(asked, answered)
    world.settle()
    assert "subscription.rooms.a" in world.registry.shelf.known()


def test_a_miss_of_a_document_that_was_replaced_does_not_count():
    world = World()
    world.ask("a", 0.5)
    world.now += 5
    [old] = world.registry.probes(world.now)
    world.ask("a", 0.7)
    world.registry.record_probe(old, False)
    world.registry.record_probe(old, False)
    world.settle()
    assert "subscription.rooms.a" in world.registry.shelf.known()


moves = st.lists(
    st.tuples(st.sampled_from("abc"), st.sampled_from([None, 0, 0.1, "1%", 2]), st.sampled_from([0.0, 3.0, 11.0])),
    max_size=12,
)


@settings(max_examples=60)
@given(moves, st.booleans(), st.booleans())
def test_at_rest_it_is_as_if_nobody_else_had_ever_been(steps, retain, restart):
    """Whatever happened, and in whichever order: promises hold all along, and at the end only documents count."""
    world = World(Settings(retain=retain), grace=10.0)
    present = {}
    for identity, tolerance, pause in steps:
        if tolerance is None:
            world.leave(identity)
            present.pop(identity, None)
        else:
            world.ask(identity, tolerance, since=world.now)
            present[identity] = tolerance
        if restart and pause:
            world.start()
        config = world.settle(pause)
        assert config.wanted or not (present or retain)
        for asked in present.values():
            assert world.told <= (0.5 if asked == "1%" else asked)
    fresh = World(Settings(retain=retain), grace=10.0)
    for identity, tolerance in present.items():
        fresh.ask(identity, tolerance)
    last, expected = world.settle(25), fresh.settle(25)
    assert (last.wanted, last.demand) == (expected.wanted, expected.demand)
    assert world.settle(100) == last


@pytest.mark.parametrize("wanted", [True, False])
def test_a_configuration_written_by_hand_is_put_right(wanted):
    world = World()
    world.ask("a", 0.5)
    world.settle(30)
    world.store("config.rooms", encode(ConfigDocument("rooms", 50, wanted, max_silence=1)))
    config = world.settle()
    assert (config.version, config.wanted, config.max_silence, world.told) == (51, True, 30.0, 0.5)
