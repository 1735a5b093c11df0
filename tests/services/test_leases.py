"""Leases: one holder at a time as far as anybody can know, and epochs that never go back."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from thinwire.brokers.memory import LocalBroker, LocalServer
from thinwire.brokers.protocol import BucketEntry
from thinwire.errors import Superseded
from thinwire.services.leased_service import TopicShare, chosen
from thinwire.topics.leases import LeaseDocument, Leases, lease_key, take, translator_key

TERM = 2.5


def seen(document, revision, now, leases=None, topic="rooms"):
    leases = leases or Leases(TERM)
    leases.saw(BucketEntry(lease_key(topic), document and document.encode(), revision), now)
    return leases


def test_a_holder_that_is_heard_of_keeps_its_lease():
    leases = seen(LeaseDocument("t1", 3, 1), 10, 100.0)
    assert not leases.is_free("rooms", 102.4)
    seen(LeaseDocument("t1", 3, 2), 11, 102.4, leases)
    assert not leases.is_free("rooms", 104.8)
    assert leases.is_free("rooms", 104.9)


def test_an_old_revision_is_no_sign_of_life():
    leases = seen(LeaseDocument("t1", 3, 1), 10, 100.0)
    seen(LeaseDocument("t1", 3, 1), 10, 102.0, leases)
    assert leases.is_free("rooms", 102.5)


def test_given_back_it_is_free_at_once_and_the_epoch_stays():
    leases = seen(LeaseDocument("", 3, 9), 10, 100.0)
    assert leases.is_free("rooms", 100.0)
    assert leases.epoch("rooms") == 3


def test_the_epoch_outlives_a_deleted_document_and_one_that_nobody_can_read():
    leases = seen(LeaseDocument("t1", 7, 1), 10, 100.0)
    seen(None, 11, 100.0, leases)
    assert (leases.is_free("rooms", 100.0), leases.epoch("rooms")) == (True, 7)
    leases.saw(BucketEntry(lease_key("rooms"), b"not JSON", 12), 101.0)
    assert (leases.is_free("rooms", 101.0), leases.epoch("rooms")) == (True, 7)
    assert leases.revision("rooms") == 12


async def _two():
    server = LocalServer()
    return LocalBroker(server), LocalBroker(server)


def story(tell):
    async def told():
        first, second = await _two()
        async with first, second:
            await tell(await first.bucket("leases"), await second.bucket("leases"))

    asyncio.run(told())


def test_of_two_who_reach_for_it_one_gets_it():
    async def tell(one, other):
        leases = Leases(TERM), Leases(TERM)
        taken = await asyncio.gather(
            take(one, leases[0], "rooms", "t1", 0.0), take(other, leases[1], "rooms", "t2", 0.0)
        )
        assert sorted(lease is None for lease in taken) == [False, True]

    story(tell)


def test_who_slept_is_told_when_it_wakes():
    async def tell(one, other):
        leases = Leases(TERM)
        slept = await take(one, leases, "rooms", "t1", 0.0)
        await slept.beat()
        [entry] = await other.entries()
        leases.saw(entry, 0.0)
        taken = await take(other, leases, "rooms", "t2", 3.0)
        assert (taken.epoch, slept.epoch) == (2, 1)
        for word in (slept.beat, slept.advance, slept.release):
            with pytest.raises(Superseded):
                await word()
        await taken.beat()

    story(tell)


def test_the_same_name_twice_is_not_the_same_holder():
    async def tell(one, other):
        leases = Leases(TERM)
        first = await take(one, leases, "rooms", "t1", 0.0)
        await take(other, leases, "rooms", "t1", 0.0)
        with pytest.raises(Superseded):
            await first.beat()

    story(tell)


def test_an_answer_that_was_lost_costs_nothing():
    async def tell(one, other):
        lease = await take(one, Leases(TERM), "rooms", "t1", 0.0)
        stored = LeaseDocument("t1", 1, 1)
        await one.put(lease_key("rooms"), stored.encode())
        await lease.beat()
        await lease.advance(5)
        assert LeaseDocument.decode((await other.get(lease_key("rooms"))).value).epoch == 5

    story(tell)


def test_released_it_keeps_its_epoch_and_nothing_brings_it_back():
    async def tell(one, other):
        lease = await take(one, Leases(TERM), "rooms", "t1", 0.0)
        await lease.release()
        assert LeaseDocument.decode((await other.get(lease_key("rooms"))).value).epoch == 1
        with pytest.raises(Superseded):
            await lease.beat()

    story(tell)


def test_a_lease_deleted_unseen_can_be_taken_again():
    async def tell(one, other):
        leases = Leases(TERM)
        await take(one, leases, "rooms", "t1", 0.0)
        await other.delete(lease_key("rooms"))
        assert await take(one, leases, "rooms", "t2", 9.0) is None
        assert (await take(one, leases, "rooms", "t2", 9.0)).epoch == 2

    story(tell)


@given(
    st.lists(st.tuples(st.integers(0, 2), st.sampled_from(["take", "beat", "advance", "release", "lose"])), max_size=40)
)
def test_epochs_only_grow_and_an_epoch_has_one_holder(steps):
    """Whoever does what, and whoever believes what: nobody else ever held an epoch that somebody holds."""

    async def tell(one, other):
        tables = [Leases(TERM) for _ in range(3)]
        held = [None, None, None]
        holders = {}
        last = 0
        for who, what in steps:
            if what == "lose":
                held[who] = None
            elif what == "take":
                for entry in await one.entries():
                    tables[who].saw(entry, 0.0)
                held[who] = await take(one, tables[who], "rooms", f"t{who}", 0.0) or held[who]
            elif held[who] is not None:
                try:
                    await getattr(held[who], what)()
                except Superseded:
                    held[who] = None
            entry = await other.get(lease_key("rooms"))
            if entry is not None:
                document = LeaseDocument.decode(entry.value)
                assert document.epoch >= last
                last = document.epoch
                if document.holder:
                    assert holders.setdefault(last, document.holder) == document.holder

    story(tell)


def translators(leases, now, *names):
    for number, name in enumerate(names, start=100):
        leases.saw(BucketEntry(translator_key(name), LeaseDocument(name, beat=number).encode(), number), now)


def test_topics_are_spread_and_only_those_of_the_one_that_left_move():
    topics = [f"topic{n}" for n in range(300)]
    before = {topic: chosen(topic, ["t1", "t2", "t3"]) for topic in topics}
    assert all(60 < list(before.values()).count(name) < 140 for name in ("t1", "t2", "t3"))
    after = {topic: chosen(topic, ["t1", "t2"]) for topic in topics}
    assert {before[topic] for topic in topics if before[topic] != after[topic]} == {"t3"}


def test_another_takes_a_free_topic_only_where_the_chosen_one_does_not():
    leases = Leases(TERM)
    translators(leases, 100.0, "t1", "t2")
    winner = chosen("rooms", ["t1", "t2"])
    loser = ({"t1", "t2"} - {winner}).pop()
    seen(LeaseDocument("", 1, 1), 10, 100.0, leases)
    assert TopicShare(winner, leases).may_take("rooms", 100.0)
    assert not TopicShare(loser, leases).may_take("rooms", 100.0)
    assert TopicShare(loser, leases).may_take("rooms", 102.5), "the chosen one has not been heard of for a term"
    translators(leases, 104.0, "t0")
    assert TopicShare(loser, leases).may_take("rooms", 105.0), "the chosen one does not take it"


def test_a_topic_is_handed_over_once_the_chosen_one_is_there_and_not_too_soon():
    leases = Leases(TERM)
    winner, loser = ("t1", "t2") if chosen("rooms", ["t1", "t2"]) == "t1" else ("t2", "t1")
    spreading = TopicShare(loser, leases, pause=10.0)
    assert not spreading.should_hand_over("rooms", 60.0, 100.0)
    translators(leases, 100.0, winner)
    assert not spreading.should_hand_over("rooms", 9.0, 100.0)
    assert spreading.should_hand_over("rooms", 10.0, 100.0)
    assert not spreading.should_hand_over("rooms", 10.0, 103.0), "it is gone again"
