"""The translator at brokers: channels come and go with those who ask, and outlive whoever writes them."""

import asyncio
import gc
import json
import logging
from contextlib import AsyncExitStack
from random import Random

import pytest
from translator_setup import KINDS, TERM, Building, running, site, until

from thinwire.codec import Demand
from thinwire.errors import Superseded
from thinwire.services.leased_service import HeldTopic, choose_instance
from thinwire.services.translator import topic_translation as working
from thinwire.services.translator.translator_service import TranslatorService
from thinwire.topics.channel_documents import channel_documents
from thinwire.topics.checkpoint_store import CheckpointStore
from thinwire.topics.leases import LeaseDocument, lease_key
from thinwire.topics.names import (
    CHECKPOINTS,
    LEASES,
    channel_log_of,
    channel_request_subject,
    log_of,
    topic_key,
    translator_subject,
)
from thinwire.topics.position import decode_envelope
from thinwire.topics.registry_client import remove_subscription


def run(tell, kind, patience=60.0):
    async def told(connect):
        async with asyncio.timeout(patience), AsyncExitStack() as stack:

            async def connected():
                broker = await connect()
                stack.push_async_callback(broker.close)
                return broker

            await tell(await connected(), connected)

    with site(kind) as connect:
        asyncio.run(told(connect))


async def lease_of(broker, topic):
    entry = await (await broker.bucket(LEASES)).get(lease_key(topic))
    return LeaseDocument.decode(entry.value) if entry is not None else None


@pytest.mark.parametrize("kind", KINDS)
def test_equal_demands_are_encoded_once_and_dropped_when_nobody_asks(kind):
    async def tell(broker, connect):
        building = await Building.build(broker)
        own = await connect()
        async with running(own) as service:
            await building.publish(5)
            asked = {(await building.ask(name)).id: await building.ask(name) for name in ("a", "b", "c")}
            [one] = asked.values()
            document = await building.opened(one)
            assert document.since == building.last
            await building.publish(60)
            await building.heartbeat()
            translation = service.active_work[building.topic].translation
            hearers = [building.hear(one) for _ in range(3)]
            for hearer in hearers:
                await hearer.hear(63)  # the three rooms as they stood, and everything after
                assert len(hearer.events) == 63
            assert translation.counts.encodings == 60
            assert len(translation.counts.classes) == 1
            for name in ("a", "b"):
                await remove_subscription(building.bucket, building.topic, name)
            await asyncio.sleep(0.5)
            assert await building.document(one) is not None
            await remove_subscription(building.bucket, building.topic, "c")
            await until(lambda: gone(building, one))
            await until(lambda: nothing_held(service))
            assert (await lease_of(broker, building.topic)).holder == ""

    async def gone(building, asked):
        return await building.document(asked) is None

    async def nothing_held(service):
        return not service.active_work

    run(tell, kind)


@pytest.mark.parametrize("kind", KINDS)
def test_killed_in_the_middle_another_goes_on_and_every_event_comes_once(kind):
    async def tell(broker, connect):
        building = await Building.build(broker)
        asked = await building.ask("a", durable="a")
        hearer = building.hear(asked)
        for life in range(3):
            own = await connect()
            service = TranslatorService(own, lease=TERM, linger=0.001, checkpoint_messages=25)
            task = asyncio.create_task(service.run())
            await building.opened(asked, epoch=life + 1)
            await building.publish(40)
            await hearer.hear(10 + 40 * life)
            await own.close()  # no farewell: the lease has to run out
            await task
            await building.publish(10)
        own = await connect()
        async with running(own):
            await building.opened(asked, epoch=4)
            await building.publish(20)
            await building.heartbeat()
            await hearer.hear(len(building.truth))
        hearer.check()
        assert len(hearer.events) == len(building.truth)
        assert set(hearer.epochs.values()) == {4}

    run(tell, kind)


@pytest.mark.parametrize("kind", KINDS)
def test_killed_within_a_message_nothing_of_it_is_lost_or_told_twice(kind, monkeypatch):
    """Messages of many events, cut into small ones: most deaths happen between two parts of one."""
    monkeypatch.setattr(working, "MAX_BATCH", 120)
    chance = Random(kind)

    async def tell(broker, connect):
        building = await Building.build(broker)
        asked = [await building.ask("a", durable="a"), await building.ask("b", 1.0, durable="b")]
        hearers = [building.hear(one) for one in asked]
        for life in range(1, 7):
            own = await connect()
            service = TranslatorService(own, lease=0.2, linger=0.0, checkpoint_messages=7)
            task = asyncio.create_task(service.run())
            await building.opened(asked[0], epoch=life)
            publishing = asyncio.create_task(building.publish(600, at_once=50))
            await asyncio.sleep(chance.random() * 0.03)
            await own.close()
            await task
            await publishing
        async with running(await connect()):
            await building.opened(asked[0], epoch=7)
            await building.heartbeat()
            for hearer in hearers:
                await hearer.hear(len(building.truth))
        positions = [decode_envelope(stored.payload)[1] for hearer in hearers for stored in hearer.messages]
        assert any(position.within for position in positions)
        hearers[0].check(0.5)
        hearers[1].check(1.0)

    run(tell, kind)


@pytest.mark.parametrize("kind", KINDS)
def test_two_share_the_topics_and_one_takes_over_when_the_other_stops(kind):
    async def tell(broker, connect):
        names = ("t1", "t2")
        buildings = [await Building.build(broker, f"spread.topic{n}") for n in range(8)]
        asked = [await building.ask("a") for building in buildings]
        meant = {building.topic: choose_instance(building.topic, names) for building in buildings}
        assert set(meant.values()) == set(names)
        owns = [await connect(), await connect()]
        async with running(owns[0], name="t1", handover=0.2) as first:
            for building, one in zip(buildings, asked, strict=True):
                await building.publish(3)
                await building.opened(one)
            assert len(first.active_work) == 8
            async with running(owns[1], name="t2", handover=0.2) as second:

                async def spread():
                    return all(
                        (service.name == meant[topic]) == (topic in service.active_work)
                        for service in (first, second)
                        for topic in meant
                    )

                await until(spread)
                for building in buildings:
                    await building.publish(10)

            async def taken_over():
                return len(first.active_work) == 8

            await until(taken_over)
            for building, one in zip(buildings, asked, strict=True):
                await building.publish(5)
                await building.heartbeat()
                hearer = building.hear(one)
                await hearer.hear(18)
                hearer.check()
            answer = await broker.request(translator_subject(buildings[0].topic), b"")
            assert b'"name": "t1"' in answer

    run(tell, kind)


@pytest.mark.parametrize("kind", KINDS)
def test_stored_offset_is_that_of_an_open_channel(kind):
    """A subscriber that does not know yet that its channel was closed must not take the channel for complete."""

    async def tell(broker, connect):
        async def stored_offset(**channel):
            payload = json.dumps(channel).encode() if channel else b""
            return json.loads(await broker.request(translator_subject(building.topic), payload))["stored"]

        async def is_stored():
            return await stored_offset() == building.last

        building = await Building.build(broker)
        async with running(await connect(), grace=0.0):
            await building.publish(5)
            one, other = await building.ask("a"), await building.ask("b", 1.0)
            document = await building.opened(one)
            await building.opened(other)
            channel = {"class": one.id, "since": document.since}
            await building.publish(5)
            await until(is_stored)
            assert await stored_offset(**channel) == building.last
            assert await stored_offset(**channel | {"since": document.since + 1}) == 0
            assert await stored_offset(since=document.since) == 0
            await remove_subscription(building.bucket, building.topic, "a")

            async def is_closed():
                return await stored_offset(**channel) == 0

            await until(is_closed)
            assert await stored_offset() == building.last

    run(tell, kind)


class Frozen:
    """A broker whose calls stand still while it is told so, as those of a process that was stopped."""

    def __init__(self, inner, gate=None):
        self._inner = inner
        self.gate = gate or asyncio.Event()
        if gate is None:
            self.gate.set()

    def __getattr__(self, name):
        value = getattr(self._inner, name)
        if not asyncio.iscoroutinefunction(value):
            return value

        async def call(*args, **options):
            await self.gate.wait()
            found = await value(*args, **options)
            await self.gate.wait()
            return Frozen(found, self.gate) if name in ("bucket", "read") else found

        return call


@pytest.mark.parametrize("kind", KINDS)
def test_one_that_slept_longer_than_its_lease_does_no_harm_when_it_wakes(kind):
    async def tell(broker, connect):
        building = await Building.build(broker)
        asked = await building.ask("a")
        owns = [await connect(), await connect()]
        sleeper = Frozen(owns[0])
        async with running(sleeper, name="sleeper") as first:
            await building.opened(asked)
            await building.publish(30)
            hearer = building.hear(asked)
            await hearer.hear(10)
            sleeper.gate.clear()
            await building.publish(30)
            async with running(owns[1], name="other"):
                await building.opened(asked, epoch=2)
                await building.publish(20)
                await hearer.hear(70)
                sleeper.gate.set()

                async def let_go():
                    return building.topic not in first.active_work

                await until(let_go)
                await building.publish(20)
                await building.heartbeat()
                await hearer.hear(100)
                hearer.check()
                assert (await lease_of(broker, building.topic)).holder == "other"
                assert (await building.document(asked)).epoch == 2

    run(tell, kind)


def test_one_that_was_refused_just_before_it_is_let_go_leaves_nothing_unsaid():
    """Its work has ended with `Superseded`, and the next beat of its lease says the same."""
    unsaid = []

    async def tell(broker, connect):
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: unsaid.append(context["message"]))

        async def refused():
            try:
                await asyncio.Event().wait()
            finally:  # on its way out already when it is told to stop
                raise Superseded("its channel went on without this one", topic="building.rooms")

        service, task = TranslatorService(broker), asyncio.create_task(refused())
        await asyncio.sleep(0)
        service._cancel(HeldTopic(None, None, task, 0.0))
        del task
        await asyncio.sleep(0.01)
        gc.collect()

    run(tell, "memory")
    assert unsaid == []


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("harm", ["none", "corrupt", "missing"])
def test_a_checkpoint_that_is_no_good_costs_reading_and_nothing_else(kind, harm, caplog):
    caplog.set_level(logging.INFO, "thinwire.translator")

    async def tell(broker, connect):
        building = await Building.build(broker)
        asked = await building.ask("a", durable="a")
        hearer = building.hear(asked)
        store = CheckpointStore(await broker.bucket(CHECKPOINTS))
        own = await connect()
        async with running(own, checkpoint_messages=30):
            await building.opened(asked)
            for _ in range(4):
                before = len(await store.read_all(building.topic))
                await building.publish(40)

                async def taken(before=before):
                    return len(await store.read_all(building.topic)) > before

                await until(taken)
        checkpoints = await store.read_all(building.topic)
        newest = checkpoints[-1]
        assert {"log/p1", f"class/{asked.id}/p1"} == set(newest.parts)
        assert newest.parts[f"class/{asked.id}/p1"].channel_offset > 0
        bucket = await broker.bucket(CHECKPOINTS)
        for checkpoint in checkpoints[-2:] if harm != "none" else []:
            [key] = checkpoint.piece_keys(building.topic, checkpoint.parts["log/p1"])
            await (bucket.delete(key) if harm == "missing" else bucket.put(key, b"garbage"))
        await building.publish(10)
        caplog.clear()
        own = await connect()
        async with running(own):
            await building.opened(asked, epoch=2)
            await building.publish(10)
            await building.heartbeat()
            await hearer.hear(len(building.truth))
        hearer.check()
        [said] = [record.getMessage() for record in caplog.records if "decoders" in record.getMessage()]
        used = checkpoints[-3 if harm != "none" else -1]
        assert f"from the checkpoint at {used.offset}" in said
        aside = [record for record in caplog.records if "skipped checkpoint" in record.getMessage()]
        assert len(aside) == (0 if harm == "none" else 2)

    run(tell, kind)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("way", ["unregistered", "log deleted"])
def test_a_topic_that_is_deleted_goes_quietly_and_others_go_on(kind, way, caplog):
    async def tell(broker, connect):
        doomed, other = await Building.build(broker), await Building.build(broker)
        asked = [await building.ask("a") for building in (doomed, other)]
        own = await connect()
        async with running(own) as service:
            for building, one in zip((doomed, other), asked, strict=True):
                await building.opened(one)
                await building.publish(10)
            if way == "unregistered":
                await doomed.bucket.delete(topic_key(doomed.topic))
            else:
                await broker.delete_log(log_of(doomed.topic))
                await doomed.bucket.delete(topic_key(doomed.topic))

            async def gone():
                lease = await lease_of(broker, doomed.topic)
                held = lease.holder or doomed.topic in service.active_work
                return not held and await doomed.document(asked[0]) is None

            await until(gone)
            await other.publish(20)
            await other.heartbeat()
            hearer = other.hear(asked[1])
            await hearer.hear(30)
            hearer.check()
            assert channel_log_of(doomed.topic) not in await broker.logs()

    with caplog.at_level(logging.WARNING, "thinwire.translator"):
        run(tell, kind)
    assert len([record for record in caplog.records if "stopped translating" in record.getMessage()]) == 1


@pytest.mark.parametrize("kind", KINDS)
def test_beyond_the_limit_classes_are_refused_with_advice(kind):
    async def tell(broker, connect):
        building = await Building.build(broker)
        own = await connect()
        async with running(own, grace=0.1) as service:
            classes = [await building.ask(f"s{n:03}", t=round(0.1 + n / 10, 1), since=float(n)) for n in range(100)]
            await building.publish(10)

            async def served():
                documents = await channel_documents(building.channels, building.topic)
                return len(documents) == 100 and [documents[one.id] for one in classes]

            documents = await until(served)
            assert [document.state for document in documents] == ["open"] * 64 + ["refused"] * 36
            assert "emit='changes'" in documents[-1].reason
            assert len(service.active_work[building.topic].translation.classes) == 64
            await remove_subscription(building.bucket, building.topic, "s000")

            async def moved_up():
                return (await building.document(classes[64])).state == "open"

            await until(moved_up)

    run(tell, kind)


@pytest.mark.parametrize("kind", KINDS)
def test_between_log_and_channel_as_the_budget_changes(kind):
    async def tell(broker, connect):
        building = await Building.build(broker)
        await building.configure(2, Demand({"t": 0.5}))
        asked = await building.ask("a")
        own = await connect()
        async with running(own, grace=0.2) as service:
            await asyncio.sleep(0.1)
            assert not service.active_work, "the log is what it asks for"
            await building.configure(3, Demand({"t": 0.1}))
            await building.opened(asked)
            await building.configure(4, Demand({"t": 0.5}))

            async def closed():
                return await building.document(asked) is None and not service.active_work

            await until(closed)
            await building.configure(5, Demand())
            await building.opened(asked, epoch=2)

    run(tell, kind)


@pytest.mark.parametrize("kind", KINDS)
def test_a_subscriber_that_lost_its_way_gets_key_frames(kind):
    async def tell(broker, connect):
        building = await Building.build(broker)
        asked = await building.ask("a")
        own = await connect()
        async with running(own) as service:
            await building.opened(asked)
            await building.publish(10)
            await building.hear(asked).hear(3)
            counts = service.active_work[building.topic].translation.counts.classes[asked.id]
            before = counts.key_bytes

            async def answered():  # those who ask within a second share a round; who is not answered asks again
                await broker.send(channel_request_subject(building.topic, asked.id), b"p1")
                return counts.key_bytes > before

            await until(answered)

    run(tell, kind)
