"""Decisions of the dictionary sampler and the documents that it writes; no broker, no clock."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from thinwire.codec import StreamEncoder
from thinwire.dictionaries import Dictionary
from thinwire.dictionaries.dictionary_transfer import unpack
from thinwire.dictionaries.policies import Keep, Prolong, Replace
from thinwire.dictionaries.policies.policy import DictionaryPolicy
from thinwire.dictionaries.policies.policy_catalogue import create_policy, policy_names
from thinwire.dictionaries.topology import Topology
from thinwire.errors import ConfigError, RegistryError
from thinwire.schema import opaque
from thinwire.services.leased_service import choose_instance
from thinwire.topics.dictionary_documents import (
    MAX_DECISIONS,
    MAX_REFERENCES,
    ActiveDictionaries,
    Decision,
    Decisions,
    DictionaryReference,
    StoredDictionaries,
)
from thinwire.topics.dictionary_metadata import RETENTION_MARGIN, find_unneeded
from thinwire.topics.dictionary_sampler import DictionaryLifetimes, Sampler
from thinwire.topics.dictionary_store import MAX_CHAIN
from thinwire.topics.frame_bodies import FrameBodies
from thinwire.wire import FrameKind, join

L = 10.0
LIMITS = DictionaryLifetimes(latency=L, shortest=100.0, longest=1000.0)
SHARED = b'{"sensor": "T1", "room": "11.1", "temperature": 20.5, "humidity": 40}'


def dictionary(n, codec="zlib"):
    return Dictionary(SHARED * 9 + b"%d" % n, codec, level=6, largest=256)


class Scripted(DictionaryPolicy):
    """Makes the given proposals, each once."""

    name = "scripted"

    def __init__(self, *proposals):
        self.proposals = list(proposals)

    def offer(self, message):
        pass

    def propose(self):
        return self.proposals.pop(0) if self.proposals else Keep()


def make_sampler(*proposals, **options):
    return Sampler(
        Scripted(*proposals), ActiveDictionaries("notes"), StoredDictionaries("notes"), lifetimes=LIMITS, **options
    )


def write_decision(sampler, now):
    update = sampler.decide(now)
    if update is not None:
        sampler.mark_written(update)
    return update


def test_a_new_dictionary_is_stored_with_its_documents_and_expires_last():
    first, second = dictionary(1), dictionary(2)
    sampler = make_sampler(Replace(first, None, {"gain": 3}), Replace(second, 10))
    update = write_decision(sampler, 50.0)
    assert (update.decision.kind, update.decision.expires, update.decision.why) == ("replace", 1050, {"gain": 3})
    assert update.decision.transfer_size == len(update.packed.body) > 0
    assert (update.active.version, sampler.active_dictionary) == (1, first)
    update = write_decision(sampler, 60.0)
    assert update.active.dictionaries == (DictionaryReference(second.hash.hex(), 1051, first.hash.hex()),)
    assert [reference.hash for reference in update.stored.dictionaries] == [first.hash.hex(), second.hash.hex()]
    assert unpack(update.packed.body, second.hash, first).content == second.content


def test_a_decision_is_repeated_until_it_is_written():
    sampler = make_sampler(Replace(dictionary(1), 10))
    first = sampler.decide(0.0)
    assert sampler.decide(1.0) is first, "not written yet: the same decision"
    later = sampler.decide(150.0)
    assert later.decision.expires == 250, "the expiry has passed: the same dictionary with a new one"
    assert later.dictionary is first.dictionary
    sampler.mark_written(later)
    assert sampler.decide(151.0) is None


def test_a_dictionary_is_prolonged_before_its_expiry_if_messages_arrive():
    sampler = make_sampler(Replace(dictionary(1), 10))
    write_decision(sampler, 0.0)
    assert write_decision(sampler, 85.0) is None, "no message has arrived since"
    sampler.offer([b"a message"], 1, 60.0)
    assert write_decision(sampler, 79.0) is None, "too early"
    update = write_decision(sampler, 81.0)
    assert (update.decision.kind, update.decision.expires, update.dictionary) == ("prolong", 181, None)
    assert update.active.version == 2
    assert update.stored.dictionaries[0].expires == 181


def test_a_dictionary_is_renewed_after_its_expiry_if_it_is_too_late_to_prolong_it():
    sampler = make_sampler(Replace(dictionary(1), 10))
    write_decision(sampler, 0.0)
    sampler.offer([b"a message"], 1, 60.0)
    assert write_decision(sampler, 90.0) is None, "some publishers might not receive it in time"
    update = write_decision(sampler, 100.0)
    assert (update.decision.kind, update.decision.expires) == ("renew", 200)
    assert update.active.last_to_expire(100.0).expires == 200


def test_a_prolongation_that_is_not_written_in_time_is_dropped():
    sampler = make_sampler(Replace(dictionary(1), 10))
    write_decision(sampler, 0.0)
    sampler.offer([b"a message"], 1, 60.0)
    assert sampler.decide(85.0).decision.kind == "prolong"
    assert sampler.decide(95.0) is None
    assert sampler.decide(101.0).decision.kind == "renew"


def test_the_expiry_follows_from_the_life_of_the_policy_and_the_sample_rate():
    sampler = make_sampler(Replace(dictionary(1), 10), Prolong(3000, {"lost": 0.5}))
    write_decision(sampler, 0.0)
    for n in range(11):
        sampler.offer([b"a message"] * 10, n, float(n))
    assert sampler.sample_rate == 11.0
    update = write_decision(sampler, 12.0)
    assert (update.decision.kind, update.decision.expires) == ("prolong", 285)
    assert update.decision.why == {"lost": 0.5}


def test_a_withdrawal_is_announced():
    sampler = make_sampler(Replace(dictionary(1), 10), Replace(None, None, {"deflated": 1}), Replace(None, None))
    write_decision(sampler, 0.0)
    update = write_decision(sampler, 1.0)
    assert (update.decision.kind, update.active.dictionaries, sampler.active_dictionary) == ("withdraw", (), None)
    assert update.stored.dictionaries, "the log still needs it"
    assert write_decision(sampler, 2.0) is None


def test_a_decision_to_keep_is_recorded():
    sampler = make_sampler(Keep({"saving": 1.0, "cost": float("inf")}), Keep())
    assert write_decision(sampler, 1.0) is None
    assert write_decision(sampler, 2.0) is None
    assert [(d.kind, d.why) for d in sampler.decisions] == [("keep", {"saving": 1.0, "cost": "inf"})]


def test_chains_of_parents_are_limited():
    sampler = make_sampler(*(Replace(dictionary(n), 10) for n in range(3 * MAX_CHAIN)))
    for n in range(3 * MAX_CHAIN):
        update = write_decision(sampler, float(n))
        assert len(sampler.stored.lineage(update.decision.hash)) <= MAX_CHAIN
    without_parent = [reference for reference in sampler.stored.dictionaries if not reference.parent]
    assert len(without_parent) == 3


def test_a_dictionary_that_is_used_again_has_no_parent():
    sampler = make_sampler(*(Replace(dictionary(n), 10) for n in (1, 2, 1)))
    first, _, again = (write_decision(sampler, float(n)) for n in range(3))
    assert again.packed is None, "the store has it"
    assert again.active.dictionaries[0].hash == first.decision.hash
    assert again.active.dictionaries[0].parent == ""
    assert again.stored.lineage(first.decision.hash) == [first.decision.hash]


def test_a_dictionary_that_the_store_has_lost_is_withdrawn():
    active = ActiveDictionaries("notes", 7, (DictionaryReference("a" * 32, 1 << 40),))
    sampler = Sampler(Scripted(), active, StoredDictionaries("notes", active.dictionaries), None, lifetimes=LIMITS)
    update = write_decision(sampler, 5.0)
    assert (update.decision.kind, update.active.version, update.active.dictionaries) == ("withdraw", 8, ())
    assert sampler.decide(6.0) is None


def test_a_successor_resumes_from_the_documents():
    sampler = make_sampler(Replace(dictionary(1), 10))
    sampler.offer([b"a message"] * 7, 5, 1.0)
    update = write_decision(sampler, 2.0)
    again = ActiveDictionaries.decode(update.active.encode())
    assert (again.sample_count, again.offset) == (7, 5)
    policy = create_policy("ours", Topology(3, 2))
    other = Sampler(policy, again, StoredDictionaries.decode(update.stored.encode()), dictionary(1), lifetimes=LIMITS)
    assert (other.sample_count, other.offset) == (7, 5)
    other.offer([SHARED] * 10, 15, 3.0)
    assert other.decide(4.0) is None, "there is an active dictionary"
    other.set_topology(Topology(9, 9))
    assert policy.topology == Topology(9, 9)


def test_above_the_limit_no_dictionary_is_added():
    stored = StoredDictionaries("notes", tuple(DictionaryReference(f"{n:032x}", 10) for n in range(MAX_REFERENCES)))
    sampler = Sampler(Scripted(Replace(dictionary(1), 10)), ActiveDictionaries("notes"), stored, lifetimes=LIMITS)
    assert sampler.decide(0.0) is None
    assert sampler.decisions[-1].why["limit"] == MAX_REFERENCES


@given(st.lists(st.tuples(st.integers(0, 40), st.sampled_from("pkrw.")), max_size=60))
def test_versions_and_expiries_only_increase(steps):
    sampler, now, numbers = make_sampler(), 0.0, iter(range(10_000))
    before = sampler.active
    for pause, action in steps:
        now += pause
        proposals = {"r": Replace(dictionary(next(numbers)), 10), "p": Prolong(50), "w": Replace(None, None)}
        if action in proposals:
            sampler.policy.proposals.append(proposals[action])
        sampler.offer([SHARED], 0, now)
        update = sampler.decide(now)
        if update is None or action == "k":  # the store cannot be reached
            continue
        assert update.active.version == before.version + 1
        current, previous = update.active.last_to_expire(now), before.last_to_expire(now)
        assert current is None or previous is None or current.expires > previous.expires
        if update.decision.kind == "prolong":
            assert now < previous.expires - L
        assert {d.hash for d in update.active.dictionaries} <= {d.hash for d in update.stored.dictionaries}
        sampler.mark_written(update)
        before = update.active


def test_only_dictionaries_that_no_message_can_need_are_unneeded():
    a, b, c, d = (letter * 32 for letter in "abcd")
    stored = StoredDictionaries(
        "notes",
        (
            DictionaryReference(a, 100),
            DictionaryReference(b, 200, a),
            DictionaryReference(c, 300),
            DictionaryReference(d, 400, c),
        ),
    )
    active = ActiveDictionaries("notes", 3, (DictionaryReference(d, 400, c),))
    assert find_unneeded(stored, active, 150 + RETENTION_MARGIN) == []
    assert find_unneeded(stored, active, 201 + RETENTION_MARGIN) == [a, b]
    assert find_unneeded(stored, active, 10_000 + RETENTION_MARGIN) == [a, b], "the active dictionary needs its parent"
    assert find_unneeded(stored, ActiveDictionaries("notes"), 10_000 + RETENTION_MARGIN) == [a, b, c, d]


def test_a_thousand_topics_are_spread_evenly_over_three():
    names = ["d1", "d2", "d3"]
    shares = [choose_instance(f"plant.line{n}", names) for n in range(1000)]
    counts = [shares.count(name) for name in names]
    assert all(abs(count - 1000 / 3) <= 0.2 * 1000 / 3 for count in counts), counts


def test_the_last_decisions_are_stored():
    decisions = [Decision("keep", float(n), why={"n": n}) for n in range(MAX_DECISIONS + 5)]
    last = Decisions(tuple(make_sampler(decisions=decisions).decisions))
    assert Decisions.decode(last.encode()) == last == Decisions(tuple(decisions[5:]))


@pytest.mark.parametrize(
    ("kind", "document", "field"),
    [
        (ActiveDictionaries, {"topic": "no good", "version": 1}, "topic"),
        (ActiveDictionaries, {"topic": "notes", "version": -1}, "version"),
        (ActiveDictionaries, {"topic": "notes", "dictionaries": [{"hash": "xyz", "expires": 1}]}, "hash"),
        (ActiveDictionaries, {"topic": "notes", "dictionaries": [{"hash": "a" * 32, "expires": 1e9}]}, "expires"),
        (ActiveDictionaries, {"topic": "notes", "dictionaries": [{"hash": "a" * 32, "expires": 1 << 70}]}, "expires"),
        (ActiveDictionaries, {"topic": "notes", "dictionaries": [{"expires": 1}]}, "hash"),
        (ActiveDictionaries, {"topic": "notes", "dictionaries": [7]}, "dictionaries"),
        (ActiveDictionaries, {"topic": "notes", "dictionaries": {}}, "dictionaries"),
        (
            StoredDictionaries,
            {"topic": "notes", "dictionaries": [{"hash": "a" * 32, "expires": 1}] * 2000},
            "dictionaries",
        ),
        (
            StoredDictionaries,
            {"topic": "notes", "dictionaries": [{"hash": "a" * 32, "expires": 1, "parent": "b"}]},
            "parent",
        ),
    ],
)
def test_invalid_documents_are_refused_with_the_field(kind, document, field):
    with pytest.raises(RegistryError, match=field):
        kind.decode(json.dumps(document).encode())


@given(st.binary(max_size=200))
def test_arbitrary_bytes_are_no_document(value):
    for decode in (ActiveDictionaries.decode, StoredDictionaries.decode, Decisions.decode):
        with pytest.raises(RegistryError):
            decode(value)


def test_policies_are_created_by_name():
    assert all(create_policy(name, Topology()).name == name for name in policy_names())
    with pytest.raises(ConfigError, match="unknown dictionary policy"):
        create_policy("best", Topology())


def frames_of(publisher, payloads, now=0.0):
    return [frame for payload in payloads for frame in publisher.send(payload, now)]


def test_bodies_equal_the_payloads_with_every_dictionary():
    dictionaries = {d.hash: d for d in (dictionary(1, "zstd"), dictionary(2))}
    bodies = FrameBodies(dictionaries.get)
    encoder = StreamEncoder(opaque("notes"), name="p", compiled=False)
    payloads = [SHARED + b"%d" % n for n in range(6)]
    frames = encoder.start(0.0) + frames_of(encoder, payloads[:2])
    for n, shared in enumerate(dictionaries.values()):
        frames += encoder.use(shared, 7) + frames_of(encoder, payloads[2 + 2 * n : 4 + 2 * n])
    assert list(bodies.read("p", join(frames))) == payloads, "slot 7 names two of them in one message"
    assert not bodies.unbound_publishers
    assert not bodies.missing_dictionaries


def test_bodies_that_cannot_be_unpacked_are_skipped_and_recorded():
    shared, encoder = dictionary(1), StreamEncoder(opaque("notes"), name="p", compiled=False)
    encoder.start(0.0)
    binding, packed = encoder.use(shared, 7), frames_of(encoder, [SHARED, SHARED])
    late = FrameBodies({}.get)
    assert list(late.read("p", join(packed))) == []
    assert late.unbound_publishers == {"p"}
    late.read_bindings("p", join(binding))
    assert list(late.read("p", join(packed))) == []
    assert late.missing_dictionaries == {shared.hash}
    assert list(late.read("p", join([*frames_of(encoder, [SHARED]), b""])[:-1])) == []
    key = encoder.start(1.0)
    bodies = FrameBodies({shared.hash: shared}.get)
    assert list(bodies.read("p", join([*key, *frames_of(encoder, [b"short", SHARED])]))) == [SHARED]


def test_the_frames_after_an_unreadable_one_are_read():
    encoder = StreamEncoder(opaque("notes"), name="p", compiled=False)
    frames = [*encoder.start(0.0), bytes((FrameKind.BINDING,)), *frames_of(encoder, [SHARED])]
    assert list(FrameBodies({}.get).read("p", join(frames))) == [SHARED]


@given(st.binary(max_size=60))
def test_arbitrary_messages_of_a_log_raise_no_error(message):
    bodies = FrameBodies({}.get)
    list(bodies.read("p", message))
    bodies.read_bindings("p", message)
