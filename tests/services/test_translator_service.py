"""The translator at brokers: channels open and close with subscriptions, and survive crashes of translators."""

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
from thinwire.services.translator import topic_translation
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


def run(main, kind, timeout=60.0):
    async def execute(connect):
        async with asyncio.timeout(timeout), AsyncExitStack() as stack:

            async def connected():
                broker = await connect()
                stack.push_async_callback(broker.close)
                return broker

            await main(await connected(), connected)

    with site(kind) as connect:
        asyncio.run(execute(connect))


async def lease_of(broker, topic):
    entry = await (await broker.bucket(LEASES)).get(lease_key(topic))
    return LeaseDocument.decode(entry.value) if entry is not None else None


@pytest.mark.parametrize("kind", KINDS)
def test_equal_demands_are_encoded_once_and_closed_without_subscriptions(kind):
    async def main(broker, connect):
        building = await Building.build(broker)
        own = await connect()
        async with running(own) as service:
            await building.publish(5)
            demands = {(await building.subscribe(name)).id: await building.subscribe(name) for name in ("a", "b", "c")}
            [one] = demands.values()
            document = await building.wait_open(one)
            assert document.since == building.last
            await building.publish(60)
            await building.heartbeat()
            translation = service.active_work[building.topic].translation
            subscribers = [building.subscriber(one) for _ in range(3)]
            for subscriber in subscribers:
                await subscriber.receive(63)  # the current state of the three rooms, and all later events
                assert len(subscriber.events) == 63
            assert translation.counts.encodings == 60
            assert len(translation.counts.classes) == 1
            for name in ("a", "b"):
                await remove_subscription(building.bucket, building.topic, name)
            await asyncio.sleep(0.5)
            assert await building.document(one) is not None
            await remove_subscription(building.bucket, building.topic, "c")
            await until(lambda: is_closed(building, one))
            await until(lambda: holds_nothing(service))
            assert (await lease_of(broker, building.topic)).holder == ""

    async def is_closed(building, demand):
        return await building.document(demand) is None

    async def holds_nothing(service):
        return not service.active_work

    run(main, kind)


@pytest.mark.parametrize("kind", KINDS)
def test_after_a_crash_a_successor_resumes_and_every_event_comes_once(kind):
    async def main(broker, connect):
        building = await Building.build(broker)
        demand = await building.subscribe("a", durable="a")
        subscriber = building.subscriber(demand)
        for crashes in range(3):
            own = await connect()
            service = TranslatorService(own, lease=TERM, linger=0.001, checkpoint_messages=25)
            task = asyncio.create_task(service.run())
            await building.wait_open(demand, epoch=crashes + 1)
            await building.publish(40)
            await subscriber.receive(10 + 40 * crashes)
            await own.close()  # the lease is not released: it has to expire
            await task
            await building.publish(10)
        own = await connect()
        async with running(own):
            await building.wait_open(demand, epoch=4)
            await building.publish(20)
            await building.heartbeat()
            await subscriber.receive(len(building.truth))
        subscriber.check()
        assert len(subscriber.events) == len(building.truth)
        assert set(subscriber.epochs.values()) == {4}

    run(main, kind)


@pytest.mark.parametrize("kind", KINDS)
def test_a_crash_within_a_message_loses_and_repeats_no_event(kind, monkeypatch):
    """Messages of many events are split into small ones: most crashes happen between two parts of one."""
    monkeypatch.setattr(topic_translation, "MAX_BATCH", 120)
    chance = Random(kind)

    async def main(broker, connect):
        building = await Building.build(broker)
        demands = [await building.subscribe("a", durable="a"), await building.subscribe("b", 1.0, durable="b")]
        subscribers = [building.subscriber(one) for one in demands]
        for epoch in range(1, 7):
            own = await connect()
            service = TranslatorService(own, lease=0.2, linger=0.0, checkpoint_messages=7)
            task = asyncio.create_task(service.run())
            await building.wait_open(demands[0], epoch=epoch)
            publishing = asyncio.create_task(building.publish(600, batch=50))
            await asyncio.sleep(chance.random() * 0.03)
            await own.close()
            await task
            await publishing
        async with running(await connect()):
            await building.wait_open(demands[0], epoch=7)
            await building.heartbeat()
            for subscriber in subscribers:
                await subscriber.receive(len(building.truth))
        positions = [decode_envelope(stored.payload)[1] for subscriber in subscribers for stored in subscriber.messages]
        assert any(position.within for position in positions)
        subscribers[0].check(0.5)
        subscribers[1].check(1.0)

    run(main, kind)


@pytest.mark.parametrize("kind", KINDS)
def test_two_translators_share_topics_and_take_over_those_of_a_stopped_one(kind):
    async def main(broker, connect):
        names = ("t1", "t2")
        buildings = [await Building.build(broker, f"spread.topic{n}") for n in range(8)]
        demands = [await building.subscribe("a") for building in buildings]
        preferred = {building.topic: choose_instance(building.topic, names) for building in buildings}
        assert set(preferred.values()) == set(names)
        owns = [await connect(), await connect()]
        async with running(owns[0], name="t1", handover=0.2) as first:
            for building, one in zip(buildings, demands, strict=True):
                await building.publish(3)
                await building.wait_open(one)
            assert len(first.active_work) == 8
            async with running(owns[1], name="t2", handover=0.2) as second:

                async def are_distributed():
                    return all(
                        (service.name == preferred[topic]) == (topic in service.active_work)
                        for service in (first, second)
                        for topic in preferred
                    )

                await until(are_distributed)
                for building in buildings:
                    await building.publish(10)

            async def taken_over():
                return len(first.active_work) == 8

            await until(taken_over)
            for building, one in zip(buildings, demands, strict=True):
                await building.publish(5)
                await building.heartbeat()
                subscriber = building.subscriber(one)
                await subscriber.receive(18)
                subscriber.check()
            answer = await broker.request(translator_subject(buildings[0].topic), b"")
            assert b'"name": "t1"' in answer

    run(main, kind)


@pytest.mark.parametrize("kind", KINDS)
def test_stored_offset_is_that_of_an_open_channel(kind):
    """A subscriber of a channel that was closed meanwhile must not treat the channel as complete."""

    async def main(broker, connect):
        async def stored_offset(**channel):
            payload = json.dumps(channel).encode() if channel else b""
            return json.loads(await broker.request(translator_subject(building.topic), payload))["stored"]

        async def is_stored():
            return await stored_offset() == building.last

        building = await Building.build(broker)
        async with running(await connect(), grace=0.0):
            await building.publish(5)
            one, other = await building.subscribe("a"), await building.subscribe("b", 1.0)
            document = await building.wait_open(one)
            await building.wait_open(other)
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

    run(main, kind)


class Paused:
    """A broker whose calls wait while the gate is closed, as those of a paused process."""

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
            return Paused(found, self.gate) if name in ("bucket", "read") else found

        return call


@pytest.mark.parametrize("kind", KINDS)
def test_a_translator_paused_longer_than_its_lease_is_superseded(kind):
    async def main(broker, connect):
        building = await Building.build(broker)
        demand = await building.subscribe("a")
        owns = [await connect(), await connect()]
        paused = Paused(owns[0])
        async with running(paused, name="sleeper") as first:
            await building.wait_open(demand)
            await building.publish(30)
            subscriber = building.subscriber(demand)
            await subscriber.receive(10)
            paused.gate.clear()
            await building.publish(30)
            async with running(owns[1], name="other"):
                await building.wait_open(demand, epoch=2)
                await building.publish(20)
                await subscriber.receive(70)
                paused.gate.set()

                async def is_released():
                    return building.topic not in first.active_work

                await until(is_released)
                await building.publish(20)
                await building.heartbeat()
                await subscriber.receive(100)
                subscriber.check()
                assert (await lease_of(broker, building.topic)).holder == "other"
                assert (await building.document(demand)).epoch == 2

    run(main, kind)


def test_a_superseded_task_that_is_cancelled_leaves_no_unretrieved_exception():
    """The task ends with `Superseded` while it is cancelled, because the lease renewal fails too."""
    unhandled = []

    async def main(broker, connect):
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: unhandled.append(context["message"]))

        async def refused():
            try:
                await asyncio.Event().wait()
            finally:  # already ending when it is cancelled
                raise Superseded("another translator has written to the channel", topic="building.rooms")

        service, task = TranslatorService(broker), asyncio.create_task(refused())
        await asyncio.sleep(0)
        service._cancel(HeldTopic(None, None, task, 0.0))
        del task
        await asyncio.sleep(0.01)
        gc.collect()

    run(main, "memory")
    assert unhandled == []


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("harm", ["none", "corrupt", "missing"])
def test_after_an_unusable_checkpoint_more_of_the_log_is_read(kind, harm, caplog):
    caplog.set_level(logging.INFO, "thinwire.translator")

    async def main(broker, connect):
        building = await Building.build(broker)
        demand = await building.subscribe("a", durable="a")
        subscriber = building.subscriber(demand)
        store = CheckpointStore(await broker.bucket(CHECKPOINTS))
        own = await connect()
        async with running(own, checkpoint_messages=30):
            await building.wait_open(demand)
            for _ in range(4):
                before = len(await store.read_all(building.topic))
                await building.publish(40)

                async def is_stored(before=before):
                    return len(await store.read_all(building.topic)) > before

                await until(is_stored)
        checkpoints = await store.read_all(building.topic)
        newest = checkpoints[-1]
        assert {"log/p1", f"class/{demand.id}/p1"} == set(newest.parts)
        assert newest.parts[f"class/{demand.id}/p1"].channel_offset > 0
        bucket = await broker.bucket(CHECKPOINTS)
        for checkpoint in checkpoints[-2:] if harm != "none" else []:
            [key] = checkpoint.piece_keys(building.topic, checkpoint.parts["log/p1"])
            await (bucket.delete(key) if harm == "missing" else bucket.put(key, b"garbage"))
        await building.publish(10)
        caplog.clear()
        own = await connect()
        async with running(own):
            await building.wait_open(demand, epoch=2)
            await building.publish(10)
            await building.heartbeat()
            await subscriber.receive(len(building.truth))
        subscriber.check()
        [message] = [record.getMessage() for record in caplog.records if "decoders" in record.getMessage()]
        used = checkpoints[-3 if harm != "none" else -1]
        assert f"from the checkpoint at {used.offset}" in message
        skipped = [record for record in caplog.records if "skipped checkpoint" in record.getMessage()]
        assert len(skipped) == (0 if harm == "none" else 2)

    run(main, kind)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("deletion", ["unregistered", "log deleted"])
def test_a_deleted_topic_is_released_and_others_continue(kind, deletion, caplog):
    async def main(broker, connect):
        deleted, other = await Building.build(broker), await Building.build(broker)
        demands = [await building.subscribe("a") for building in (deleted, other)]
        own = await connect()
        async with running(own) as service:
            for building, one in zip((deleted, other), demands, strict=True):
                await building.wait_open(one)
                await building.publish(10)
            if deletion == "unregistered":
                await deleted.bucket.delete(topic_key(deleted.topic))
            else:
                await broker.delete_log(log_of(deleted.topic))
                await deleted.bucket.delete(topic_key(deleted.topic))

            async def is_released():
                lease = await lease_of(broker, deleted.topic)
                held = lease.holder or deleted.topic in service.active_work
                return not held and await deleted.document(demands[0]) is None

            await until(is_released)
            await other.publish(20)
            await other.heartbeat()
            subscriber = other.subscriber(demands[1])
            await subscriber.receive(30)
            subscriber.check()
            assert channel_log_of(deleted.topic) not in await broker.logs()

    with caplog.at_level(logging.WARNING, "thinwire.translator"):
        run(main, kind)
    assert len([record for record in caplog.records if "stopped translating" in record.getMessage()]) == 1


@pytest.mark.parametrize("kind", KINDS)
def test_above_the_limit_classes_are_refused_with_advice(kind):
    async def main(broker, connect):
        building = await Building.build(broker)
        async with running(await connect(), grace=0.1) as service:
            classes = [
                await building.subscribe(f"s{n:03}", t=round(0.1 + n / 10, 1), since=float(n)) for n in range(100)
            ]
            await building.publish(10)

            async def are_decided():
                documents = await channel_documents(building.channels, building.topic)
                return len(documents) == 100 and [documents[one.id] for one in classes]

            documents = await until(are_decided)
            assert [document.state for document in documents] == ["open"] * 64 + ["refused"] * 36
            assert "emit='changes'" in documents[-1].reason
            assert len(service.active_work[building.topic].translation.classes) == 64
            await remove_subscription(building.bucket, building.topic, "s000")

            async def is_open():
                return (await building.document(classes[64])).state == "open"

            await until(is_open)

    run(main, kind)


@pytest.mark.parametrize("kind", KINDS)
def test_a_channel_opens_and_closes_as_the_tolerance_budget_changes(kind):
    async def main(broker, connect):
        building = await Building.build(broker)
        await building.configure(2, Demand({"t": 0.5}))
        demand = await building.subscribe("a")
        async with running(await connect(), grace=0.2) as service:
            await asyncio.sleep(0.1)
            assert not service.active_work, "the log is sufficient"
            await building.configure(3, Demand({"t": 0.1}))
            await building.wait_open(demand)
            await building.configure(4, Demand({"t": 0.5}))

            async def closed():
                return await building.document(demand) is None and not service.active_work

            await until(closed)
            await building.configure(5, Demand())
            await building.wait_open(demand, epoch=2)

    run(main, kind)


@pytest.mark.parametrize("kind", KINDS)
def test_a_subscriber_gets_key_frames_on_request(kind):
    async def main(broker, connect):
        building = await Building.build(broker)
        demand = await building.subscribe("a")
        own = await connect()
        async with running(own) as service:
            await building.wait_open(demand)
            await building.publish(10)
            await building.subscriber(demand).receive(3)
            counts = service.active_work[building.topic].translation.counts.classes[demand.id]
            before = counts.key_bytes

            async def answered():  # requests within a second share a round; one without an answer is repeated
                await broker.send(channel_request_subject(building.topic, demand.id), b"p1")
                return counts.key_bytes > before

            await until(answered)

    run(main, kind)
