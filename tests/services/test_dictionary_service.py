"""The dictionary service at brokers: what it finds is stored, announced and explained, whoever is killed."""

import asyncio
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import replace
from itertools import count

import pytest
from registry_setup import until
from translator_setup import KINDS, site

from thinwire.brokers.protocol import Retention
from thinwire.codec import StreamEncoder
from thinwire.dictionaries import Dictionary
from thinwire.errors import BrokerUnavailable, CorruptDictionary
from thinwire.schema import opaque
from thinwire.services.dictionary_trainer.dictionary_service import DictionaryService
from thinwire.services.dictionary_trainer.topic_sampler import SamplerSettings
from thinwire.services.leased_service import choose_instance
from thinwire.topics.dictionary_documents import (
    ActiveDictionaries,
    DictionaryReference,
    StoredDictionaries,
    active_dictionaries_key,
    stored_dictionaries_key,
)
from thinwire.topics.dictionary_metadata import DictionaryMetadata
from thinwire.topics.dictionary_sampler import DictionaryLifetimes
from thinwire.topics.dictionary_store import DictionaryStore
from thinwire.topics.leases import LeaseDocument, lease_key
from thinwire.topics.names import (
    DICTIONARIES,
    SAMPLERS,
    data_subject,
    dictionary_subject,
    key_subject,
    log_of,
    publisher_subjects,
)
from thinwire.topics.registry_client import open_registry, register_schema
from thinwire.topics.topic_settings import Settings
from thinwire.wire import begins_round, join

TERM = 0.4
HABITS = SamplerSettings(lifetimes=DictionaryLifetimes(latency=0.5, shortest=60.0, longest=600.0), poll_interval=0.02)
_numbers = count()


def note(n):
    return b'{"sensor": "T%d", "room": "11.%d", "temperature": %d.5, "state": "as it should be"}' % (
        n % 5,
        n % 7,
        n % 31,
    )


def run(tell, kind="memory", patience=120.0):
    async def told(connect):
        async with asyncio.timeout(patience), AsyncExitStack() as stack:

            async def connected():
                broker = await connect()
                stack.push_async_callback(broker.close)
                return broker

            await tell(await connected(), connected)

    with site(kind) as connect:
        asyncio.run(told(connect))


@asynccontextmanager
async def running(broker, **options):
    """A dictionary service as a task that ends well."""
    service = DictionaryService(broker, **({"lease": TERM, "settings": HABITS} | options))
    task = asyncio.create_task(service.run())
    try:
        await service.ready()
        yield service
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


class Notes:
    """A topic of notes, its publisher, and what is said of its dictionaries."""

    def __init__(self, broker, bucket, registry, topic):
        self.broker, self.bucket, self.registry, self.topic = broker, bucket, registry, topic
        self.shelf = DictionaryMetadata(bucket, topic)
        self.out = StreamEncoder(opaque(topic), name="p", compiled=False)
        self.heard = []
        self.said = 0

    @classmethod
    async def begin(cls, broker, retention=None):
        topic = f"notes{next(_numbers)}"
        registry = await open_registry(broker)
        await register_schema(registry, opaque(topic), Settings(retain=True, dictionaries=True))
        await broker.ensure_log(log_of(topic), [publisher_subjects(topic)], retention)
        notes = cls(broker, await broker.bucket(DICTIONARIES), registry, topic)
        await broker.listen(dictionary_subject(topic), notes.hear)
        await notes.say(notes.out.start(0.0))
        return notes

    async def hear(self, subject, payload):
        self.heard.append(ActiveDictionaries.decode(payload))

    async def say(self, frames):
        for frame in frames if len(frames) == 1 or begins_round(frames[0]) else [join(frames)]:
            subject = (key_subject if begins_round(frame) else data_subject)(self.topic, "p")
            await self.broker.append(log_of(self.topic), subject, frame)

    async def publish(self, many):
        await self.say([frame for n in range(self.said, self.said + many) for frame in self.out.send(note(n), 0.0)])
        self.said += many

    async def in_use(self):
        """The dictionary in use, once there is one."""
        document = await self.shelf.read_active()
        return document if document is not None and document.dictionaries else None

    async def decisions(self, kind):
        return [one for one in await self.shelf.read_decisions() if one.kind == kind]


@pytest.mark.parametrize("kind", KINDS)
def test_what_messages_share_is_stored_announced_and_explained(kind):
    async def tell(broker, connect):
        notes = await Notes.begin(broker)
        async with running(await connect()):
            await notes.publish(100)
            document = await until(notes.in_use)
            said = document.dictionaries[0]
            found = await DictionaryStore(notes.bucket).get(said.hash_bytes)
            assert found.facts.ratio > 30
            assert document.sample_count == 100
            await until(lambda: heard(notes))
            assert notes.heard[-1] == document
            assert (await notes.shelf.read_stored()).dictionaries == document.dictionaries
            [why] = await until(lambda: notes.decisions("replace"))
            assert (why.hash, why.why["saving"] > why.why["cost"]) == (said.hash, True)

    async def heard(notes):
        return notes.heard

    run(tell, kind)


def test_killed_another_goes_on_from_the_store():
    async def tell(broker, connect):
        notes = await Notes.begin(broker)
        own = await connect()
        task = asyncio.create_task(DictionaryService(own, lease=TERM, settings=HABITS).run())
        await notes.publish(100)
        document = await until(notes.in_use)
        await notes.say(notes.out.use(await notes.shelf.store.get(document.dictionaries[0].hash_bytes), 9))
        await notes.publish(20)
        await own.close()  # no farewell: the lease has to run out
        await task
        await notes.publish(30)
        async with running(await connect()) as service:
            sampler = (await until(lambda: at_work(service, notes.topic))).sampler
            assert sampler.active_dictionary.hash == document.dictionaries[0].hash_bytes
            await notes.publish(10)
            await until(lambda: seen(sampler, 160))
            assert sampler.active.version == document.version, "it knows what is spread already"
            lease = LeaseDocument.decode((await (await broker.bucket(SAMPLERS)).get(lease_key(notes.topic))).value)
            assert lease.epoch == 2

    run(tell)


async def at_work(service, topic):
    work = service.active_work.get(topic)
    return work if work is not None and hasattr(work, "sampler") else None


async def seen(sampler, many):
    return sampler.sample_count >= many


def test_slots_that_were_bound_before_are_found_out():
    async def tell(broker, connect):
        notes = await Notes.begin(broker)
        shared = Dictionary(note(1) * 4, "zlib", level=6, largest=256)
        await DictionaryStore(notes.bucket).put(shared)
        await notes.say(notes.out.use(shared, 7))
        await notes.publish(20)
        offset = (await broker.span(log_of(notes.topic))).last
        await notes.bucket.put(
            active_dictionaries_key(notes.topic),
            ActiveDictionaries(notes.topic, 1, sample_count=5000, offset=offset).encode(),
        )
        async with running(await connect()) as service:
            work = await until(lambda: at_work(service, notes.topic))
            await notes.publish(10)

            async def caught_up():
                await notes.publish(1)
                await asyncio.sleep(0.05)
                return work.sampler.sample_count > 5000

            await until(caught_up)

    run(tell)


def test_a_store_that_cannot_be_reached_is_tried_again(monkeypatch):
    put, refused = DictionaryStore.put, []

    async def unreachable(store, dictionary, packed=None):
        refused.append(dictionary.hash)
        if len(refused) < 3:
            raise BrokerUnavailable(url="nats://nowhere")
        await put(store, dictionary, packed)

    monkeypatch.setattr(DictionaryStore, "put", unreachable)

    async def tell(broker, connect):
        notes = await Notes.begin(broker)
        async with running(await connect()):
            await notes.publish(100)
            document = await until(notes.in_use)
            assert len(set(refused)) == 1, "trained once, stored as soon as that can be done"
            assert refused[-1] == document.dictionaries[0].hash_bytes
            assert len(refused) == 3

    run(tell)


def test_who_finds_that_another_wrote_takes_that_up():
    async def tell(broker, connect):
        notes = await Notes.begin(broker)
        async with running(await connect()) as service:
            await until(lambda: at_work(service, notes.topic))
            other = Dictionary(note(1) * 4, "zlib", level=6, largest=256)
            await DictionaryStore(notes.bucket).put(other)
            said = DictionaryReference(other.hash.hex(), 1 << 40)
            await notes.bucket.put(
                active_dictionaries_key(notes.topic), ActiveDictionaries(notes.topic, 7, (said,)).encode()
            )
            await notes.bucket.put(
                stored_dictionaries_key(notes.topic), StoredDictionaries(notes.topic, (said,)).encode()
            )
            await notes.publish(100)

            async def taken_up():
                work = await at_work(service, notes.topic)
                return work is not None and work.lease.epoch > 1 and work.sampler

            sampler = await until(taken_up)
            assert (sampler.active_dictionary.hash, sampler.active.version) == (other.hash, 7)

    run(tell)


@pytest.mark.parametrize("value", [b"not JSON", b'{"topic": "elsewhere but bad", "version": 3}', b"{}"])
def test_documents_nobody_can_read_are_begun_again(value):
    async def tell(broker, connect):
        notes = await Notes.begin(broker)
        for key in (active_dictionaries_key, stored_dictionaries_key):
            await notes.bucket.put(key(notes.topic), value)
        async with running(await connect()):
            await notes.publish(100)
            document = await until(notes.in_use)
            assert document.version > 1_600_000_000, "above any that publishers can have heard"

    run(tell)


def test_topics_are_let_go_when_their_owner_wants_no_dictionaries():
    async def tell(broker, connect):
        notes = await Notes.begin(broker)
        async with running(await connect()) as service:
            await until(lambda: at_work(service, notes.topic))
            await register_schema(notes.registry, opaque(notes.topic), Settings(retain=True))
            await until(lambda: idle(service))

    async def idle(service):
        return not service.active_work

    run(tell)


def test_two_share_the_topics():
    async def tell(broker, connect):
        topics = [await Notes.begin(broker) for _ in range(8)]
        names = {notes.topic for notes in topics}
        shares = [{name for name in names if choose_instance(name, ["d1", "d2"]) == one} for one in ("d1", "d2")]
        options = {"handover": 0.1}
        async with (
            running(await connect(), name="d1", **options) as one,
            running(await connect(), name="d2", **options) as two,
        ):

            async def shared_out():
                return [set(one.active_work), set(two.active_work)] == shares

            await until(shared_out)

    run(tell)


def test_what_the_log_cannot_need_any_more_is_deleted():
    async def tell(broker, connect):
        notes = await Notes.begin(broker, Retention(max_messages=5))
        old, older = (Dictionary(note(n) * 4, "zlib", level=6, largest=256) for n in (1, 2))
        store = DictionaryStore(notes.bucket)
        for dictionary in (old, older):
            await store.put(dictionary)
        kept = StoredDictionaries(
            notes.topic, (DictionaryReference(older.hash.hex(), 1000), DictionaryReference(old.hash.hex(), 1 << 40))
        )
        await notes.bucket.put(stored_dictionaries_key(notes.topic), kept.encode())
        settings = replace(HABITS, retention_interval=0.1)
        async with running(await connect(), settings=settings):
            for _ in range(6):
                await notes.publish(1)
            await until(lambda: gone(store, older))
            assert await store.get(old.hash) == old
            assert [said.hash for said in (await notes.shelf.read_stored()).dictionaries] == [old.hash.hex()]

    async def gone(store, dictionary):
        return await store.get(dictionary.hash) is None

    run(tell)


def test_what_the_store_lost_is_stored_again():
    async def tell(broker, connect):
        notes = await Notes.begin(broker)
        async with running(await connect(), settings=replace(HABITS, retention_interval=0.1)):
            await notes.publish(100)
            said = (await until(notes.in_use)).dictionaries[0]
            store = DictionaryStore(notes.bucket)
            await store.delete(said.hash_bytes)
            assert (await until(lambda: store.get(said.hash_bytes))).hash == said.hash_bytes
            await notes.bucket.put(said.hash, b"\x03not a dictionary")

            async def back():
                with suppress(CorruptDictionary):
                    return await store.get(said.hash_bytes)

            assert (await until(back)).hash == said.hash_bytes

    run(tell)
