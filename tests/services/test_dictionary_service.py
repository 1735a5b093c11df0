"""The dictionary service at brokers: it stores, announces and explains dictionaries, also after a crash."""

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

LEASE = 0.4
SETTINGS = SamplerSettings(lifetimes=DictionaryLifetimes(latency=0.5, shortest=60.0, longest=600.0), poll_interval=0.02)
_numbers = count()


def note(n):
    return b'{"sensor": "T%d", "room": "11.%d", "temperature": %d.5, "state": "as it should be"}' % (
        n % 5,
        n % 7,
        n % 31,
    )


def run(main, kind="memory", timeout=120.0):
    async def execute(connect):
        async with asyncio.timeout(timeout), AsyncExitStack() as stack:

            async def connected():
                broker = await connect()
                stack.push_async_callback(broker.close)
                return broker

            await main(await connected(), connected)

    with site(kind) as connect:
        asyncio.run(execute(connect))


@asynccontextmanager
async def running(broker, **options):
    """Run a dictionary service as a task, cancelled and awaited at the end."""
    service = DictionaryService(broker, **({"lease": LEASE, "settings": SETTINGS} | options))
    task = asyncio.create_task(service.run())
    try:
        await service.ready()
        yield service
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


class Notes:
    """A topic of notes, its publisher, and the announcements of its dictionaries."""

    def __init__(self, broker, bucket, registry, topic):
        self.broker, self.bucket, self.registry, self.topic = broker, bucket, registry, topic
        self.metadata = DictionaryMetadata(bucket, topic)
        self.encoder = StreamEncoder(opaque(topic), name="p", compiled=False)
        self.announcements = []
        self.published = 0

    @classmethod
    async def begin(cls, broker, retention=None):
        topic = f"notes{next(_numbers)}"
        registry = await open_registry(broker)
        await register_schema(registry, opaque(topic), Settings(retain=True, dictionaries=True))
        await broker.ensure_log(log_of(topic), [publisher_subjects(topic)], retention)
        notes = cls(broker, await broker.bucket(DICTIONARIES), registry, topic)
        await broker.listen(dictionary_subject(topic), notes.on_announcement)
        await notes.append(notes.encoder.start(0.0))
        return notes

    async def on_announcement(self, subject, payload):
        self.announcements.append(ActiveDictionaries.decode(payload))

    async def append(self, frames):
        for frame in frames if len(frames) == 1 or begins_round(frames[0]) else [join(frames)]:
            subject = (key_subject if begins_round(frame) else data_subject)(self.topic, "p")
            await self.broker.append(log_of(self.topic), subject, frame)

    async def publish(self, number):
        await self.append([frame for n in range(number) for frame in self.encoder.send(note(self.published + n), 0.0)])
        self.published += number

    async def active(self):
        """Return the document of the active dictionary, or None if there is none."""
        document = await self.metadata.read_active()
        return document if document is not None and document.dictionaries else None

    async def decisions(self, kind):
        return [one for one in await self.metadata.read_decisions() if one.kind == kind]


@pytest.mark.parametrize("kind", KINDS)
def test_a_dictionary_is_stored_announced_and_explained(kind):
    async def main(broker, connect):
        notes = await Notes.begin(broker)
        async with running(await connect()):
            await notes.publish(100)
            document = await until(notes.active)
            reference = document.dictionaries[0]
            found = await DictionaryStore(notes.bucket).get(reference.hash_bytes)
            assert found.facts.ratio > 30
            assert document.sample_count == 100
            await until(lambda: announcements(notes))
            assert notes.announcements[-1] == document
            assert (await notes.metadata.read_stored()).dictionaries == document.dictionaries
            [decision] = await until(lambda: notes.decisions("replace"))
            assert (decision.hash, decision.why["saving"] > decision.why["cost"]) == (reference.hash, True)

    async def announcements(notes):
        return notes.announcements

    run(main, kind)


def test_after_a_crash_a_successor_resumes_from_the_store():
    async def main(broker, connect):
        notes = await Notes.begin(broker)
        own = await connect()
        task = asyncio.create_task(DictionaryService(own, lease=LEASE, settings=SETTINGS).run())
        await notes.publish(100)
        document = await until(notes.active)
        await notes.append(notes.encoder.use(await notes.metadata.store.get(document.dictionaries[0].hash_bytes), 9))
        await notes.publish(20)
        await own.close()  # the lease is not released: it has to expire
        await task
        await notes.publish(30)
        async with running(await connect()) as service:
            sampler = (await until(lambda: running_work(service, notes.topic))).sampler
            assert sampler.active_dictionary.hash == document.dictionaries[0].hash_bytes
            await notes.publish(10)
            await until(lambda: has_sampled(sampler, 160))
            assert sampler.active.version == document.version, "the announced dictionary is kept"
            lease = LeaseDocument.decode((await (await broker.bucket(SAMPLERS)).get(lease_key(notes.topic))).value)
            assert lease.epoch == 2

    run(main)


async def running_work(service, topic):
    work = service.active_work.get(topic)
    return work if work is not None and hasattr(work, "sampler") else None


async def has_sampled(sampler, number):
    return sampler.sample_count >= number


def test_slots_bound_before_the_start_are_found():
    async def main(broker, connect):
        notes = await Notes.begin(broker)
        shared = Dictionary(note(1) * 4, "zlib", level=6, largest=256)
        await DictionaryStore(notes.bucket).put(shared)
        await notes.append(notes.encoder.use(shared, 7))
        await notes.publish(20)
        offset = (await broker.span(log_of(notes.topic))).last
        await notes.bucket.put(
            active_dictionaries_key(notes.topic),
            ActiveDictionaries(notes.topic, 1, sample_count=5000, offset=offset).encode(),
        )
        async with running(await connect()) as service:
            work = await until(lambda: running_work(service, notes.topic))
            await notes.publish(10)

            async def caught_up():
                await notes.publish(1)
                await asyncio.sleep(0.05)
                return work.sampler.sample_count > 5000

            await until(caught_up)

    run(main)


def test_an_unavailable_store_is_tried_again(monkeypatch):
    put, attempts = DictionaryStore.put, []

    async def unreachable(store, dictionary, packed=None):
        attempts.append(dictionary.hash)
        if len(attempts) < 3:
            raise BrokerUnavailable(url="nats://nowhere")
        await put(store, dictionary, packed)

    monkeypatch.setattr(DictionaryStore, "put", unreachable)

    async def main(broker, connect):
        notes = await Notes.begin(broker)
        async with running(await connect()):
            await notes.publish(100)
            document = await until(notes.active)
            assert len(set(attempts)) == 1, "trained once, stored when the store is available"
            assert attempts[-1] == document.dictionaries[0].hash_bytes
            assert len(attempts) == 3

    run(main)


def test_documents_of_another_writer_are_restored():
    async def main(broker, connect):
        notes = await Notes.begin(broker)
        async with running(await connect()) as service:
            await until(lambda: running_work(service, notes.topic))
            other = Dictionary(note(1) * 4, "zlib", level=6, largest=256)
            await DictionaryStore(notes.bucket).put(other)
            reference = DictionaryReference(other.hash.hex(), 1 << 40)
            await notes.bucket.put(
                active_dictionaries_key(notes.topic), ActiveDictionaries(notes.topic, 7, (reference,)).encode()
            )
            await notes.bucket.put(
                stored_dictionaries_key(notes.topic), StoredDictionaries(notes.topic, (reference,)).encode()
            )
            await notes.publish(100)

            async def restored():
                work = await running_work(service, notes.topic)
                return work is not None and work.lease.epoch > 1 and work.sampler

            sampler = await until(restored)
            assert (sampler.active_dictionary.hash, sampler.active.version) == (other.hash, 7)

    run(main)


@pytest.mark.parametrize("value", [b"not JSON", b'{"topic": "elsewhere but bad", "version": 3}', b"{}"])
def test_unreadable_documents_are_replaced(value):
    async def main(broker, connect):
        notes = await Notes.begin(broker)
        for key in (active_dictionaries_key, stored_dictionaries_key):
            await notes.bucket.put(key(notes.topic), value)
        async with running(await connect()):
            await notes.publish(100)
            document = await until(notes.active)
            assert document.version > 1_600_000_000, "above any version that publishers can have received"

    run(main)


def test_topics_are_released_when_their_settings_disable_dictionaries():
    async def main(broker, connect):
        notes = await Notes.begin(broker)
        async with running(await connect()) as service:
            await until(lambda: running_work(service, notes.topic))
            await register_schema(notes.registry, opaque(notes.topic), Settings(retain=True))
            await until(lambda: is_idle(service))

    async def is_idle(service):
        return not service.active_work

    run(main)


def test_two_services_share_the_topics():
    async def main(broker, connect):
        topics = [await Notes.begin(broker) for _ in range(8)]
        names = {notes.topic for notes in topics}
        shares = [{name for name in names if choose_instance(name, ["d1", "d2"]) == one} for one in ("d1", "d2")]
        options = {"handover": 0.1}
        async with (
            running(await connect(), name="d1", **options) as one,
            running(await connect(), name="d2", **options) as two,
        ):

            async def are_distributed():
                return [set(one.active_work), set(two.active_work)] == shares

            await until(are_distributed)

    run(main)


def test_dictionaries_that_the_log_no_longer_needs_are_deleted():
    async def main(broker, connect):
        notes = await Notes.begin(broker, Retention(max_messages=5))
        old, older = (Dictionary(note(n) * 4, "zlib", level=6, largest=256) for n in (1, 2))
        store = DictionaryStore(notes.bucket)
        for dictionary in (old, older):
            await store.put(dictionary)
        stored = StoredDictionaries(
            notes.topic, (DictionaryReference(older.hash.hex(), 1000), DictionaryReference(old.hash.hex(), 1 << 40))
        )
        await notes.bucket.put(stored_dictionaries_key(notes.topic), stored.encode())
        settings = replace(SETTINGS, retention_interval=0.1)
        async with running(await connect(), settings=settings):
            for _ in range(6):
                await notes.publish(1)
            await until(lambda: is_deleted(store, older))
            assert await store.get(old.hash) == old
            assert [one.hash for one in (await notes.metadata.read_stored()).dictionaries] == [old.hash.hex()]

    async def is_deleted(store, dictionary):
        return await store.get(dictionary.hash) is None

    run(main)


def test_a_dictionary_that_the_store_lost_is_stored_again():
    async def main(broker, connect):
        notes = await Notes.begin(broker)
        async with running(await connect(), settings=replace(SETTINGS, retention_interval=0.1)):
            await notes.publish(100)
            reference = (await until(notes.active)).dictionaries[0]
            store = DictionaryStore(notes.bucket)
            await store.delete(reference.hash_bytes)
            assert (await until(lambda: store.get(reference.hash_bytes))).hash == reference.hash_bytes
            await notes.bucket.put(reference.hash, b"\x03not a dictionary")

            async def read_again():
                with suppress(CorruptDictionary):
                    return await store.get(reference.hash_bytes)

            assert (await until(read_again)).hash == reference.hash_bytes

    run(main)
