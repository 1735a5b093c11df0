"""Leases: one holder per epoch, takeover after a term, and epochs that only increase."""

import asyncio
import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from thinwire.brokers.memory import LocalBroker, LocalServer
from thinwire.brokers.protocol import BucketEntry
from thinwire.errors import Superseded
from thinwire.services.leased_service import LeasedService, LeasePolicy, choose_instance
from thinwire.services.service_base import ServiceBase
from thinwire.topics.bucket_follower import BucketFollower, lease_handler
from thinwire.topics.leases import LeaseDocument, Leases, heartbeat_key, lease_key, take

TERM = 2.5


def observe(document, revision, now, leases=None, topic="rooms"):
    leases = leases or Leases(TERM)
    leases.apply(BucketEntry(lease_key(topic), document and document.encode(), revision), now)
    return leases


def test_a_renewed_lease_is_kept():
    leases = observe(LeaseDocument("t1", 3, 1), 10, 100.0)
    assert not leases.is_free("rooms", 102.4)
    observe(LeaseDocument("t1", 3, 2), 11, 102.4, leases)
    assert not leases.is_free("rooms", 104.8)
    assert leases.is_free("rooms", 104.9)


def test_an_old_revision_is_not_a_renewal():
    leases = observe(LeaseDocument("t1", 3, 1), 10, 100.0)
    observe(LeaseDocument("t1", 3, 1), 10, 102.0, leases)
    assert leases.is_free("rooms", 102.5)


def test_a_released_lease_is_free_and_keeps_its_epoch():
    leases = observe(LeaseDocument("", 3, 9), 10, 100.0)
    assert leases.is_free("rooms", 100.0)
    assert leases.epoch("rooms") == 3


def test_the_epoch_is_kept_after_deletion_and_with_an_invalid_document():
    leases = observe(LeaseDocument("t1", 7, 1), 10, 100.0)
    observe(None, 11, 100.0, leases)
    assert (leases.is_free("rooms", 100.0), leases.epoch("rooms")) == (True, 7)
    leases.apply(BucketEntry(lease_key("rooms"), b"not JSON", 12), 101.0)
    assert (leases.is_free("rooms", 101.0), leases.epoch("rooms")) == (True, 7)
    assert leases.revision("rooms") == 12


async def _two():
    server = LocalServer()
    return LocalBroker(server), LocalBroker(server)


def run(main):
    """Run a coroutine function with the bucket as two connections see it."""

    async def connected():
        first, second = await _two()
        async with first, second:
            await main(await first.bucket("leases"), await second.bucket("leases"))

    asyncio.run(connected())


def test_one_of_two_concurrent_takeovers_succeeds():
    async def main(one, other):
        leases = Leases(TERM), Leases(TERM)
        taken = await asyncio.gather(
            take(one, leases[0], "rooms", "t1", 0.0), take(other, leases[1], "rooms", "t2", 0.0)
        )
        assert sorted(lease is None for lease in taken) == [False, True]

    run(main)


def test_a_paused_holder_is_superseded():
    async def main(one, other):
        leases = Leases(TERM)
        paused = await take(one, leases, "rooms", "t1", 0.0)
        await paused.renew()
        [entry] = await other.entries()
        leases.apply(entry, 0.0)
        taken = await take(other, leases, "rooms", "t2", 3.0)
        assert (taken.epoch, paused.epoch) == (2, 1)
        for write in (paused.renew, paused.advance, paused.release):
            with pytest.raises(Superseded):
                await write()
        await taken.renew()

    run(main)


def test_a_takeover_under_the_same_name_supersedes():
    async def main(one, other):
        leases = Leases(TERM)
        first = await take(one, leases, "rooms", "t1", 0.0)
        await take(other, leases, "rooms", "t1", 0.0)
        with pytest.raises(Superseded):
            await first.renew()

    run(main)


def test_a_lost_answer_does_not_end_the_lease():
    async def main(one, other):
        lease = await take(one, Leases(TERM), "rooms", "t1", 0.0)
        stored = LeaseDocument("t1", 1, 1)
        await one.put(lease_key("rooms"), stored.encode())
        await lease.renew()
        await lease.advance(5)
        assert LeaseDocument.decode((await other.get(lease_key("rooms"))).value).epoch == 5

    run(main)


def test_a_released_lease_cannot_be_renewed():
    async def main(one, other):
        lease = await take(one, Leases(TERM), "rooms", "t1", 0.0)
        await lease.release()
        assert LeaseDocument.decode((await other.get(lease_key("rooms"))).value).epoch == 1
        with pytest.raises(Superseded):
            await lease.renew()

    run(main)


def test_a_lease_whose_deletion_was_not_observed_can_be_taken():
    async def main(one, other):
        leases = Leases(TERM)
        await take(one, leases, "rooms", "t1", 0.0)
        await other.delete(lease_key("rooms"))
        assert await take(one, leases, "rooms", "t2", 9.0) is None
        assert (await take(one, leases, "rooms", "t2", 9.0)).epoch == 2

    run(main)


@given(
    st.lists(
        st.tuples(st.integers(0, 2), st.sampled_from(["take", "renew", "advance", "release", "lose"])), max_size=40
    )
)
def test_epochs_increase_and_an_epoch_has_one_holder(steps):
    """For any order of takeovers, renewals, releases and lost leases."""

    async def main(one, other):
        tables = [Leases(TERM) for _ in range(3)]
        held = [None, None, None]
        holders = {}
        last = 0
        for number, action in steps:
            if action == "lose":
                held[number] = None
            elif action == "take":
                for entry in await one.entries():
                    tables[number].apply(entry, 0.0)
                held[number] = await take(one, tables[number], "rooms", f"t{number}", 0.0) or held[number]
            elif held[number] is not None:
                try:
                    await getattr(held[number], action)()
                except Superseded:
                    held[number] = None
            entry = await other.get(lease_key("rooms"))
            if entry is not None:
                document = LeaseDocument.decode(entry.value)
                assert document.epoch >= last
                last = document.epoch
                if document.holder:
                    assert holders.setdefault(last, document.holder) == document.holder

    run(main)


def translators(leases, now, *names):
    for number, name in enumerate(names, start=100):
        leases.apply(
            BucketEntry(heartbeat_key("translator", name), LeaseDocument(name, beat=number).encode(), number), now
        )


def test_topics_are_distributed_and_only_those_of_a_stopped_service_move():
    topics = [f"topic{n}" for n in range(300)]
    before = {topic: choose_instance(topic, ["t1", "t2", "t3"]) for topic in topics}
    assert all(60 < list(before.values()).count(name) < 140 for name in ("t1", "t2", "t3"))
    after = {topic: choose_instance(topic, ["t1", "t2"]) for topic in topics}
    assert {before[topic] for topic in topics if before[topic] != after[topic]} == {"t3"}


def test_a_free_topic_is_taken_by_another_service_only_after_the_preferred_one_did_not():
    leases = Leases(TERM)
    translators(leases, 100.0, "t1", "t2")
    winner = choose_instance("rooms", ["t1", "t2"])
    loser = ({"t1", "t2"} - {winner}).pop()
    observe(LeaseDocument("", 1, 1), 10, 100.0, leases)
    assert LeasePolicy(winner, leases).can_take("rooms", 100.0)
    assert not LeasePolicy(loser, leases).can_take("rooms", 100.0)
    assert LeasePolicy(loser, leases).can_take("rooms", 102.5), "no heartbeat of the preferred service for a term"
    translators(leases, 104.0, "t0")
    assert LeasePolicy(loser, leases).can_take("rooms", 105.0), "the preferred service does not take it"


def test_a_topic_is_handed_over_to_a_running_preferred_service_after_the_delay():
    leases = Leases(TERM)
    winner, loser = ("t1", "t2") if choose_instance("rooms", ["t1", "t2"]) == "t1" else ("t2", "t1")
    policy = LeasePolicy(loser, leases, handover_delay=10.0)
    assert not policy.should_hand_over("rooms", 60.0, 100.0)
    translators(leases, 100.0, winner)
    assert not policy.should_hand_over("rooms", 9.0, 100.0)
    assert policy.should_hand_over("rooms", 10.0, 100.0)
    assert not policy.should_hand_over("rooms", 10.0, 103.0), "its heartbeat has expired"


class SupersededWork:
    """Work whose last write is refused while it is cancelled."""

    async def run(self):
        try:
            await asyncio.Event().wait()
        finally:
            raise Superseded("another instance has written")

    def stop(self):
        pass


class TwoTopics(LeasedService):
    """A service that needs two topics; updating the first one takes as long as losing the lease of the second one."""

    def __init__(self, broker):
        leases = Leases(TERM, kind="sampler")
        follower = BucketFollower(broker, {"leases": lease_handler(leases)}, logging.getLogger("test"))
        super().__init__(broker, "t1", leases, "leases", follower, 10.0, logging.getLogger("test"))
        self.lost = asyncio.Event()
        self.checks_after_loss = 0

    def _needed_topics(self):
        self.checks_after_loss += self.lost.is_set()
        return set() if self.lost.is_set() else {"a", "b"}

    def _create_work(self, lease):
        return SupersededWork()

    async def _update_work(self, topic, held):
        if self.lost.is_set() or len(self._held) < 2:
            return
        other = next(other for other in self._held.values() if other is not held)
        bucket = await self.broker.bucket("leases")
        await bucket.put(lease_key(other.lease.topic), LeaseDocument("t2", other.lease.epoch + 1).encode())
        await self._renew(other)
        await asyncio.gather(other.task, return_exceptions=True)
        self.lost.set()


def test_a_lease_lost_while_another_topic_is_updated_does_not_end_the_service():
    async def main():
        server = LocalServer()
        async with LocalBroker(server) as broker:
            service = TwoTopics(broker)
            task = asyncio.create_task(service.run())
            async with asyncio.timeout(20):
                await asyncio.wait([task, asyncio.ensure_future(service.lost.wait())], return_when="FIRST_COMPLETED")
                while not task.done() and service.checks_after_loss < 2:
                    await asyncio.sleep(0)
            assert not task.done()
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    asyncio.run(main())


def test_a_service_that_fails_to_stop_does_not_keep_callers_waiting():
    class Failing(ServiceBase):
        async def _stop(self):
            raise RuntimeError("cannot release")

    async def main():
        async with LocalBroker(LocalServer()) as broker:
            service = Failing(broker, "failing", BucketFollower(broker, {}, logging.getLogger("test")), logging.root)
            task = asyncio.create_task(service.run())
            await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(RuntimeError):
                await task
            async with asyncio.timeout(5):
                await service.ready()

    asyncio.run(main())
