"""Retention of dictionaries: those that no message of the log needs are deleted."""

import asyncio

import pytest

from thinwire.brokers.memory import LocalBroker, LocalServer
from thinwire.dictionaries import Dictionary
from thinwire.errors import Superseded
from thinwire.topics.dictionary_documents import ActiveDictionaries, DictionaryReference, StoredDictionaries
from thinwire.topics.dictionary_metadata import RETENTION_MARGIN, DictionaryMetadata
from thinwire.topics.names import DICTIONARIES, log_of, publisher_subjects

TOPIC = "notes"


def dictionary(n):
    content = b"".join(b'{"room": "%d", "state": %d}' % (k * k, k % 7) for k in range(99)) + b"%d" % n
    return Dictionary(content, "zlib", level=6, largest=64)


async def store(metadata, stored, expires):
    await metadata.store.put(stored)
    retained = await metadata.read_stored()
    await metadata.write_stored(retained.with_reference(DictionaryReference(stored.hash.hex(), expires)))


def run(check):
    async def connected():
        async with LocalBroker(LocalServer()) as broker:
            await broker.ensure_log(log_of(TOPIC), [publisher_subjects(TOPIC)])
            bucket = await broker.bucket(DICTIONARIES)
            metadata = DictionaryMetadata(bucket, TOPIC)

            async def tidy_at(now):
                stored = await metadata.read_stored()
                return await metadata.delete_unneeded(broker, stored, ActiveDictionaries(TOPIC), now)

            await check(bucket, metadata, tidy_at)

    asyncio.run(connected())


def test_a_dictionary_that_no_message_needs_is_deleted():
    async def check(bucket, metadata, tidy_at):
        old, new = dictionary(1), dictionary(2)
        await store(metadata, old, 1000)
        await store(metadata, new, 5000)
        assert len((await tidy_at(1000 + RETENTION_MARGIN)).dictionaries) == 2
        retained = await tidy_at(1001 + RETENTION_MARGIN)
        assert [one.hash for one in retained.dictionaries] == [new.hash.hex()]
        assert await metadata.read_stored() == retained
        assert await metadata.store.get(old.hash) is None
        assert await metadata.store.get(new.hash) == new

    run(check)


def test_a_prolonged_dictionary_stays():
    async def check(bucket, metadata, tidy_at):
        used = dictionary(1)
        await store(metadata, used, 1000)
        await store(metadata, used, 3000)
        retained = await tidy_at(2500 + RETENTION_MARGIN)
        assert [one.expires for one in retained.dictionaries] == [3000]

    run(check)


def test_a_dictionary_of_another_topic_is_not_deleted():
    async def check(bucket, metadata, tidy_at):
        shared = dictionary(1)
        await store(metadata, shared, 1000)
        await store(DictionaryMetadata(bucket, "others"), shared, 9000)
        assert not (await tidy_at(1001 + RETENTION_MARGIN)).dictionaries
        assert await metadata.store.get(shared.hash) == shared

    run(check)


def test_a_document_that_was_not_read_is_written_if_there_is_none_and_refused_otherwise():
    async def check(bucket, metadata, tidy_at):
        listed = StoredDictionaries(TOPIC, (DictionaryReference("ab" * 16, 1000),))
        await metadata.write_stored(listed)
        assert await metadata.read_stored() == listed
        with pytest.raises(Superseded):
            await DictionaryMetadata(bucket, TOPIC).write_stored(StoredDictionaries(TOPIC))
        assert await metadata.read_stored() == listed

    run(check)
