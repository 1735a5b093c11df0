"""What a sampler decides, when, and what is written of it; no broker, no clock."""

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
TERMS = DictionaryLifetimes(latency=L, shortest=100.0, longest=1000.0)
SHARED = b'{"sensor": "T1", "room": "11.1", "temperature": 20.5, "humidity": 40}'


def dictionary(n, codec="zlib"):
    return Dictionary(SHARED * 9 + b"%d" % n, codec, level=6, largest=256)


class Scripted(DictionaryPolicy):
    """Proposes what it is told to, each once."""

    name = "scripted"

    def __init__(self, *proposals):
        self.proposals = list(proposals)

    def offer(self, message):
        pass

    def propose(self):
        return self.proposals.pop(0) if self.proposals else Keep()


def sampler(*proposals, **given):
    return Sampler(
        Scripted(*proposals), ActiveDictionaries("notes"), StoredDictionaries("notes"), lifetimes=TERMS, **given
    )


def act(one, now):
    update = one.decide(now)
    if update is not None:
        one.mark_written(update)
    return update


def test_a_new_one_is_stored_with_its_documents_and_outlives_the_one_before():
    first, second = dictionary(1), dictionary(2)
    one = sampler(Replace(first, None, {"gain": 3}), Replace(second, 10))
    update = act(one, 50.0)
    assert (update.decision.kind, update.decision.expires, update.decision.why) == ("replace", 1050, {"gain": 3})
    assert update.decision.transfer_size == len(update.packed.body) > 0
    assert (update.active.version, one.active_dictionary) == (1, first)
    update = act(one, 60.0)
    assert update.active.dictionaries == (DictionaryReference(second.hash.hex(), 1051, first.hash.hex()),)
    assert [said.hash for said in update.stored.dictionaries] == [first.hash.hex(), second.hash.hex()]
    assert unpack(update.packed.body, second.hash, first).content == second.content


def test_what_is_decided_stands_until_it_is_done():
    one = sampler(Replace(dictionary(1), 10))
    first = one.decide(0.0)
    assert one.decide(1.0) is first, "the store could not be reached: the same again"
    later = one.decide(150.0)
    assert later.decision.expires == 250, "its time was over: the same with another"
    assert later.dictionary is first.dictionary
    one.mark_written(later)
    assert one.decide(151.0) is None


def test_it_is_prolonged_before_its_end_and_only_while_messages_come():
    one = sampler(Replace(dictionary(1), 10))
    act(one, 0.0)
    assert act(one, 85.0) is None, "nothing was said since"
    one.offer([b"a message"], 1, 60.0)
    assert act(one, 79.0) is None, "too early"
    update = act(one, 81.0)
    assert (update.decision.kind, update.decision.expires, update.dictionary) == ("prolong", 181, None)
    assert update.active.version == 2
    assert update.stored.dictionaries[0].expires == 181


def test_too_late_to_prolong_it_is_renewed_when_it_has_expired():
    one = sampler(Replace(dictionary(1), 10))
    act(one, 0.0)
    one.offer([b"a message"], 1, 60.0)
    assert act(one, 90.0) is None, "some publishers might not hear of it in time"
    update = act(one, 100.0)
    assert (update.decision.kind, update.decision.expires) == ("renew", 200)
    assert update.active.last_to_expire(100.0).expires == 200


def test_a_prolongation_that_could_not_be_written_in_time_is_given_up():
    one = sampler(Replace(dictionary(1), 10))
    act(one, 0.0)
    one.offer([b"a message"], 1, 60.0)
    assert one.decide(85.0).decision.kind == "prolong"
    assert one.decide(95.0) is None
    assert one.decide(101.0).decision.kind == "renew"


def test_what_the_policy_prolongs_lives_as_long_as_it_says_at_the_pace_seen():
    one = sampler(Replace(dictionary(1), 10), Prolong(3000, {"lost": 0.5}))
    act(one, 0.0)
    for n in range(11):
        one.offer([b"a message"] * 10, n, float(n))
    assert one.sample_rate == 11.0
    update = act(one, 12.0)
    assert (update.decision.kind, update.decision.expires) == ("prolong", 285)
    assert update.decision.why == {"lost": 0.5}


def test_none_at_all_is_announced_too():
    one = sampler(Replace(dictionary(1), 10), Replace(None, None, {"deflated": 1}), Replace(None, None))
    act(one, 0.0)
    update = act(one, 1.0)
    assert (update.decision.kind, update.active.dictionaries, one.active_dictionary) == ("withdraw", (), None)
    assert update.stored.dictionaries, "the log still needs it"
    assert act(one, 2.0) is None


def test_a_look_that_changes_nothing_is_remembered():
    one = sampler(Keep({"saving": 1.0, "cost": float("inf")}), Keep())
    assert act(one, 1.0) is None
    assert act(one, 2.0) is None
    assert [(d.kind, d.why) for d in one.decisions] == [("keep", {"saving": 1.0, "cost": "inf"})]


def test_chains_of_changes_stay_short():
    one = sampler(*(Replace(dictionary(n), 10) for n in range(3 * MAX_CHAIN)))
    for n in range(3 * MAX_CHAIN):
        update = act(one, float(n))
        assert len(one.stored.lineage(update.decision.hash)) <= MAX_CHAIN
    alone = [said for said in one.stored.dictionaries if not said.parent]
    assert len(alone) == 3


def test_one_that_comes_again_is_not_told_as_a_change_of_itself():
    one = sampler(*(Replace(dictionary(n), 10) for n in (1, 2, 1)))
    first, _, again = (act(one, float(n)) for n in range(3))
    assert again.packed is None, "the store has it"
    assert again.active.dictionaries[0].hash == first.decision.hash
    assert again.active.dictionaries[0].parent == ""
    assert again.stored.lineage(first.decision.hash) == [first.decision.hash]


def test_what_the_store_has_lost_is_withdrawn():
    in_use = ActiveDictionaries("notes", 7, (DictionaryReference("a" * 32, 1 << 40),))
    one = Sampler(Scripted(), in_use, StoredDictionaries("notes", in_use.dictionaries), None, lifetimes=TERMS)
    update = act(one, 5.0)
    assert (update.decision.kind, update.active.version, update.active.dictionaries) == ("withdraw", 8, ())
    assert one.decide(6.0) is None


def test_another_goes_on_where_one_left_off():
    one = sampler(Replace(dictionary(1), 10))
    one.offer([b"a message"] * 7, 5, 1.0)
    update = act(one, 2.0)
    again = ActiveDictionaries.decode(update.active.encode())
    assert (again.sample_count, again.offset) == (7, 5)
    ours = create_policy("ours", Topology(3, 2))
    other = Sampler(ours, again, StoredDictionaries.decode(update.stored.encode()), dictionary(1), lifetimes=TERMS)
    assert (other.sample_count, other.offset) == (7, 5)
    other.offer([SHARED] * 10, 15, 3.0)
    assert other.decide(4.0) is None, "it knows that there is one"
    other.set_topology(Topology(9, 9))
    assert ours.topology == Topology(9, 9)


def test_a_full_shelf_takes_no_more():
    kept = StoredDictionaries("notes", tuple(DictionaryReference(f"{n:032x}", 10) for n in range(MAX_REFERENCES)))
    one = Sampler(Scripted(Replace(dictionary(1), 10)), ActiveDictionaries("notes"), kept, lifetimes=TERMS)
    assert one.decide(0.0) is None
    assert one.decisions[-1].why["limit"] == MAX_REFERENCES


@given(st.lists(st.tuples(st.integers(0, 40), st.sampled_from("pkrw.")), max_size=60))
def test_versions_and_expiries_never_go_back(steps):
    one, now, numbers = sampler(), 0.0, iter(range(10_000))
    before = one.active
    for pause, what in steps:
        now += pause
        proposals = {"r": Replace(dictionary(next(numbers)), 10), "p": Prolong(50), "w": Replace(None, None)}
        if what in proposals:
            one.policy.proposals.append(proposals[what])
        one.offer([SHARED], 0, now)
        update = one.decide(now)
        if update is None or what == "k":  # the store cannot be reached
            continue
        assert update.active.version == before.version + 1
        said, past = update.active.last_to_expire(now), before.last_to_expire(now)
        assert said is None or past is None or said.expires > past.expires
        if update.decision.kind == "prolong":
            assert now < past.expires - L
        assert {one.hash for one in update.active.dictionaries} <= {one.hash for one in update.stored.dictionaries}
        one.mark_written(update)
        before = update.active


def test_only_what_no_message_can_need_is_dispensable():
    a, b, c, d = (letter * 32 for letter in "abcd")
    kept = StoredDictionaries(
        "notes",
        (
            DictionaryReference(a, 100),
            DictionaryReference(b, 200, a),
            DictionaryReference(c, 300),
            DictionaryReference(d, 400, c),
        ),
    )
    in_use = ActiveDictionaries("notes", 3, (DictionaryReference(d, 400, c),))
    assert find_unneeded(kept, in_use, 150 + RETENTION_MARGIN) == []
    assert find_unneeded(kept, in_use, 201 + RETENTION_MARGIN) == [a, b]
    assert find_unneeded(kept, in_use, 10_000 + RETENTION_MARGIN) == [a, b], "the one in use needs its parent"
    assert find_unneeded(kept, ActiveDictionaries("notes"), 10_000 + RETENTION_MARGIN) == [a, b, c, d]


def test_a_thousand_topics_are_spread_evenly_over_three():
    names = ["d1", "d2", "d3"]
    shares = [choose_instance(f"plant.line{n}", names) for n in range(1000)]
    counts = [shares.count(name) for name in names]
    assert all(abs(count - 1000 / 3) <= 0.2 * 1000 / 3 for count in counts), counts


def test_decisions_come_back_and_only_the_last_are_kept():
    decisions = [Decision("keep", float(n), why={"n": n}) for n in range(MAX_DECISIONS + 5)]
    last = Decisions(tuple(sampler(decisions=decisions).decisions))
    assert Decisions.decode(last.encode()) == last == Decisions(tuple(decisions[5:]))


@pytest.mark.parametrize(
    ("kind", "document", "complaint"),
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
def test_documents_that_cannot_be_right_are_refused_by_field(kind, document, complaint):
    with pytest.raises(RegistryError, match=complaint):
        kind.decode(json.dumps(document).encode())


@given(st.binary(max_size=200))
def test_garbage_is_no_document(value):
    for decode in (ActiveDictionaries.decode, StoredDictionaries.decode, Decisions.decode):
        with pytest.raises(RegistryError):
            decode(value)


def test_policies_have_names():
    assert all(create_policy(name, Topology()).name == name for name in policy_names())
    with pytest.raises(ConfigError, match="unknown dictionary policy"):
        create_policy("best", Topology())


def frames_of(publisher, payloads, now=0.0):
    return [frame for payload in payloads for frame in publisher.send(payload, now)]


def test_bodies_are_what_was_said_however_it_was_packed():
    known = {d.hash: d for d in (dictionary(1, "zstd"), dictionary(2))}
    bodies = FrameBodies(known.get)
    out = StreamEncoder(opaque("notes"), name="p", compiled=False)
    said = [SHARED + b"%d" % n for n in range(6)]
    frames = out.start(0.0) + frames_of(out, said[:2])
    for n, shared in enumerate(known.values()):
        frames += out.use(shared, 7) + frames_of(out, said[2 + 2 * n : 4 + 2 * n])
    assert list(bodies.read("p", join(frames))) == said, "slot 7 names two of them in one message"
    assert not bodies.unbound_publishers
    assert not bodies.missing_dictionaries


def test_what_cannot_be_unpacked_is_passed_over_and_noted():
    shared, out = dictionary(1), StreamEncoder(opaque("notes"), name="p", compiled=False)
    out.start(0.0)
    binding, packed = out.use(shared, 7), frames_of(out, [SHARED, SHARED])
    late = FrameBodies({}.get)
    assert list(late.read("p", join(packed))) == []
    assert late.unbound_publishers == {"p"}
    late.read_bindings("p", join(binding))
    assert list(late.read("p", join(packed))) == []
    assert late.missing_dictionaries == {shared.hash}
    assert list(late.read("p", join([*frames_of(out, [SHARED]), b""])[:-1])) == []
    key = out.start(1.0)
    bodies = FrameBodies({shared.hash: shared}.get)
    assert list(bodies.read("p", join([*key, *frames_of(out, [b"short", SHARED])]))) == [SHARED]


def test_the_frames_after_an_unreadable_one_are_read():
    out = StreamEncoder(opaque("notes"), name="p", compiled=False)
    frames = [*out.start(0.0), bytes((FrameKind.BINDING,)), *frames_of(out, [SHARED])]
    assert list(FrameBodies({}.get).read("p", join(frames))) == [SHARED]


@given(st.binary(max_size=60))
def test_any_bytes_may_be_in_a_log(message):
    bodies = FrameBodies({}.get)
    list(bodies.read("p", message))
    bodies.read_bindings("p", message)
