"""Retention of dictionaries: those that no message of the log needs are deleted."""

import asyncio

from thinwire.brokers.memory import LocalBroker, LocalServer
from thinwire.dictionaries import Dictionary
from thinwire.topics.dictionary_documents import ActiveDictionaries, DictionaryReference
from thinwire.topics.dictionary_metadata import DictionaryMetadata
from thinwire.topics.dictionary_retention import MARGIN, tidy
from thinwire.topics.names import DICTIONARIES, log_of, publisher_subjects

TOPIC = "notes"


def dictionary(n):
    content = b"".join(b'{"room": "%d", "state": %d}' % (k * k, k % 7) for k in range(99)) + b"%d" % n
    return Dictionary(content, "zlib", level=6, largest=64)


async def store(metadata, stored, expires):
    await metadata.store.put(stored)
    kept = await metadata.kept()
    await metadata.write_kept(kept.with_reference(DictionaryReference(stored.hash.hex(), expires)))


def run(check):
    async def connected():
        async with LocalBroker(LocalServer()) as broker:
            await broker.ensure_log(log_of(TOPIC), [publisher_subjects(TOPIC)])
            bucket = await broker.bucket(DICTIONARIES)
            metadata = DictionaryMetadata(bucket, TOPIC)

            async def tidy_at(now):
                return await tidy(broker, metadata, bucket, await metadata.kept(), ActiveDictionaries(TOPIC), now)

            await check(bucket, metadata, tidy_at)

    asyncio.run(connected())


def test_a_dictionary_that_no_message_needs_is_deleted():
    async def check(bucket, metadata, tidy_at):
        old, new = dictionary(1), dictionary(2)
        await store(metadata, old, 1000)
        await store(metadata, new, 5000)
        assert len((await tidy_at(1000 + MARGIN)).dictionaries) == 2
        kept = await tidy_at(1001 + MARGIN)
        assert [one.hash for one in kept.dictionaries] == [new.hash.hex()]
        assert await metadata.kept() == kept
        assert await metadata.store.get(old.hash) is None
        assert await metadata.store.get(new.hash) == new

    run(check)


def test_a_prolonged_dictionary_stays():
    async def check(bucket, metadata, tidy_at):
        used = dictionary(1)
        await store(metadata, used, 1000)
        await store(metadata, used, 3000)
        kept = await tidy_at(2500 + MARGIN)
        assert [one.expires for one in kept.dictionaries] == [3000]

    run(check)


def test_a_dictionary_of_another_topic_is_not_deleted():
    async def check(bucket, metadata, tidy_at):
        shared = dictionary(1)
        await store(metadata, shared, 1000)
        await store(DictionaryMetadata(bucket, "others"), shared, 9000)
        assert not (await tidy_at(1001 + MARGIN)).dictionaries
        assert await metadata.store.get(shared.hash) == shared

    run(check)
