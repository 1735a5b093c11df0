"""Decisions of the registry: stricter immediately, looser after the grace period, the same after a restart."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from thinwire.brokers.protocol import NOTHING, BucketEntry
from thinwire.schema import Property, Schema
from thinwire.services.registry.registry import Registry
from thinwire.topics.names import schema_key
from thinwire.topics.topic_documents import SubscriptionDocument, TopicDocument, decode, encode
from thinwire.topics.topic_settings import ConfigDocument, Settings

ROOMS = Schema("rooms", [Property("t", "number", step="0.1", minimum=0, maximum=50), Property("h", "number", step=1)])


class Bucket:
    """Entries with revisions, like a bucket of a broker."""

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
    """A registry and its bucket."""

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

    def subscribe(self, identity, t=None, **fields):
        tolerance = {} if t is None else {"t": t}
        document = SubscriptionDocument("rooms", identity, tolerance, **fields)
        self.store(document.key, encode(document))

    def unsubscribe(self, identity):
        self.store(f"subscription.rooms.{identity}", None)

    def run(self, seconds=0.0):
        self.now += seconds
        for _ in range(10):
            writes = self.registry.decide(self.now)
            assert self.registry.decide(self.now) == writes
            if not writes:
                return self.config
            for write in writes:
                entry = self.bucket.put(write.key, write.value, write.revision)
                assert entry is not None, "a write states the revision that was applied"
                self.writes += 1
                self.registry.apply(entry, self.now)
        raise AssertionError("the registry writes without end")

    @property
    def config(self):
        entry = self.bucket.entries.get("config.rooms")
        return None if entry is None or entry.value is None else decode(entry.key, entry.value)

    @property
    def tolerance(self):
        return self.config.demand.tolerance.get("t", self.config.demand.default_tolerance)


def test_without_subscriptions_no_events_are_wanted():
    world = World()
    config = world.run()
    assert (config.wanted, config.version) == (False, 1)
    assert World(Settings(retain=True, max_silence=5)).run().max_silence == 5


def test_stricter_immediately_and_looser_after_the_grace_period():
    world = World(grace=10.0)
    world.run(20)
    world.subscribe("a", 0.5)
    assert (world.run().wanted, world.tolerance) == (True, 0.5)
    world.subscribe("b", 0.1)
    assert world.run()
    assert world.tolerance == 0.1
    world.unsubscribe("b")
    assert world.run(9.9)
    assert world.tolerance == 0.1
    assert world.run(0.2)
    assert world.tolerance == 0.5
    world.unsubscribe("a")
    assert world.run(9.9).wanted
    assert not world.run(0.2).wanted


def test_a_subscription_that_restarts_changes_nothing():
    world = World(grace=10.0)
    world.subscribe("a", 0.5)
    world.subscribe("b", 0.1)
    before = world.run(20)
    for _ in range(50):
        world.unsubscribe("b")
        assert world.run(3) == before
        world.subscribe("b", 0.1, since=world.now)
        assert world.run(3) == before


def test_a_relaxed_subscription_counts_after_the_grace_period():
    world = World(grace=10.0)
    world.subscribe("a", 0.1)
    world.run(20)
    world.subscribe("a", 0.5)
    world.run(5)
    assert world.tolerance == 0.1
    world.run(6)
    assert world.tolerance == 0.5


def test_a_retained_log_becomes_exact_after_its_last_subscription():
    world = World(Settings(retain=True), grace=10.0)
    world.run(20)
    world.subscribe("a", 0.5)
    assert world.run()
    assert world.tolerance == 0.5
    before = world.config
    world.unsubscribe("a")
    assert world.run(9) == before
    world.run(2)
    assert world.tolerance == 0
    assert world.config.wanted


def test_a_restarted_registry_keeps_the_configuration():
    world = World()
    world.subscribe("a", "1%")
    world.subscribe("b", 2, durable="b")
    before = world.run(30)
    for _ in range(3):
        world.start()
        assert world.run(5) == before
        assert world.run(30) == before


def test_a_subscription_removed_before_the_start_has_its_grace_period():
    world = World(grace=10.0)
    world.subscribe("a", 0.5)
    world.subscribe("b", 0.1)
    world.run(30)
    world.bucket.put("subscription.rooms.b", None)
    world.now += 100
    world.start()
    world.run()
    world.run(9)
    assert world.tolerance == 0.1
    world.run(2)
    assert world.tolerance == 0.5


def test_two_registries_keep_each_others_configuration():
    world = World(grace=10.0)
    world.subscribe("a", 0.5)
    world.subscribe("b", 0.1)
    world.run(30)
    other = Registry(grace=10.0)
    for entry in world.bucket.present():
        other.apply(entry, world.now)
    assert other.decide(world.now - 100) == []
    removed = world.bucket.put("subscription.rooms.b", None)
    world.registry.apply(removed, world.now)
    other.apply(removed, world.now + 1)  # its grace period ends later
    world.run(10.5)
    assert world.tolerance == 0.5
    other.apply(world.bucket.entries["config.rooms"], world.now)
    assert other.decide(world.now) == []
    assert other.decide(world.now + 20) == []


def test_versions_increase_even_if_the_configuration_is_lost():
    world = World()
    versions = [world.run(30).version]
    for count in range(5):
        world.subscribe("a", count + 1)
        versions.append(world.run(30).version)
    world.store("config.rooms", None)
    versions.append(world.run().version)
    world.store("config.rooms", b"rubbish")
    versions.append(world.run().version)
    world.store("config.rooms", b"rubbish")
    world.start()
    versions.append(world.run().version)
    assert versions == sorted(set(versions))


def test_invalid_documents_are_ignored_and_reported():
    world = World()
    world.subscribe("a", 0.5)
    world.store("subscription.rooms.bad", b'{"topic":"rooms","identity":"bad","tolerance":7}')
    world.store("subscription.rooms.worse", b"\xff")
    world.store("nonsense", b"{}")
    world.run(30)
    assert world.tolerance == 0.5
    assert set(world.registry.problems()) == {"subscription.rooms.bad", "subscription.rooms.worse", "nonsense"}
    world.store("subscription.rooms.bad", None)
    world.store("nonsense", None)
    assert set(world.registry.problems()) == {"subscription.rooms.worse"}


def test_settings_that_publishers_cannot_apply_are_reported_and_not_written():
    world = World(Settings(predictor={"unknown": "linear"}, min_interval=5))
    assert world.run() is None
    assert "min_interval" in world.registry.problems()["config.rooms"]


def test_a_new_schema_keeps_the_guarantee():
    world = World()
    world.subscribe("a", "1%")
    world.run(30)
    wider = Schema("rooms", [Property("t", "number", step="0.1"), Property("h", "number", step=1)], version=2)
    world.store(schema_key("rooms", wider.fingerprint), encode(wider))
    world.store("topic.rooms", encode(TopicDocument("rooms", wider.fingerprint.hex())))
    world.run()
    assert world.tolerance == 0
    assert "percentage" in world.registry.problems()["config.rooms"]


def test_a_subscription_is_removed_after_two_missed_probes():
    world = World(grace=10.0, probe_every=5.0)
    world.subscribe("quick", 0.5)
    world.subscribe("dead", 0.1)
    world.subscribe("durable", 1, durable="d")
    world.run(20)
    assert [document.identity for document in world.registry.take_due_probes(world.now)] == ["dead", "quick"]
    assert world.registry.take_due_probes(world.now) == []
    for round_ in range(2):
        world.now += 5
        for document in world.registry.take_due_probes(world.now):
            world.registry.record_probe(document, document.identity == "quick")
        world.run()
        assert (world.registry.documents.find("subscription.rooms.dead") is not None) == (round_ == 0)
    world.run(11)
    assert world.tolerance == 0.5


def test_an_answer_resets_the_missed_probes():
    world = World()
    world.subscribe("a", 0.5)
    for answered in (False, True, False):
        world.now += 5
        [document] = world.registry.take_due_probes(world.now)
        world.registry.record_probe(document, answered)
    world.run()
    assert world.registry.documents.find("subscription.rooms.a") is not None


def test_a_missed_probe_of_a_replaced_document_does_not_count():
    world = World()
    world.subscribe("a", 0.5)
    world.now += 5
    [old] = world.registry.take_due_probes(world.now)
    world.subscribe("a", 0.7)
    world.registry.record_probe(old, False)
    world.registry.record_probe(old, False)
    world.run()
    assert world.registry.documents.find("subscription.rooms.a") is not None


moves = st.lists(
    st.tuples(st.sampled_from("abc"), st.sampled_from([None, 0, 0.1, "1%", 2]), st.sampled_from([0.0, 3.0, 11.0])),
    max_size=12,
)


@settings(max_examples=60)
@given(moves, st.booleans(), st.booleans())
def test_the_configuration_depends_on_present_documents_only(steps, retain, restart):
    """After any changes in any order the guarantee holds, and in the end only the present documents count."""
    world = World(Settings(retain=retain), grace=10.0)
    present = {}
    for identity, tolerance, pause in steps:
        if tolerance is None:
            world.unsubscribe(identity)
            present.pop(identity, None)
        else:
            world.subscribe(identity, tolerance, since=world.now)
            present[identity] = tolerance
        if restart and pause:
            world.start()
        config = world.run(pause)
        assert config.wanted or not (present or retain)
        for requested in present.values():
            assert world.tolerance <= (0.5 if requested == "1%" else requested)
    fresh = World(Settings(retain=retain), grace=10.0)
    for identity, tolerance in present.items():
        fresh.subscribe(identity, tolerance)
    last, expected = world.run(25), fresh.run(25)
    assert (last.wanted, last.demand) == (expected.wanted, expected.demand)
    assert world.run(100) == last


@pytest.mark.parametrize("wanted", [True, False])
def test_a_configuration_written_by_others_is_replaced(wanted):
    world = World()
    world.subscribe("a", 0.5)
    world.run(30)
    world.store("config.rooms", encode(ConfigDocument("rooms", 50, wanted, max_silence=1)))
    config = world.run()
    assert (config.version, config.wanted, config.max_silence, world.tolerance) == (51, True, 30.0, 0.5)


def test_a_predicate_makes_its_properties_exact_beside_an_equal_tolerance():
    world = World()
    world.subscribe("a", 0.5)
    world.subscribe("b", 0.5)
    world.run(30)
    assert world.tolerance == 0.5
    document = SubscriptionDocument("rooms", "c", {}, default_tolerance=0.5, where="t > 20")
    plain = SubscriptionDocument("rooms", "d", {}, default_tolerance=0.5)
    for name in ("a", "b"):
        world.unsubscribe(name)
    for one in (plain, document):
        world.store(one.key, encode(one))
    world.run(30)
    assert world.tolerance == 0


def test_unknown_fields_of_a_configuration_are_kept():
    world = World()
    world.run(30)
    newer = json.loads(encode(world.config)) | {"colour": "green"}
    world.store("config.rooms", json.dumps(newer).encode())
    assert world.run().unknown == {"colour": "green"}
    world.subscribe("a", 0.5)
    assert world.run(30).unknown == {"colour": "green"}
    assert world.tolerance == 0.5
