"""Dictionaries that nobody looks after: publishers write down what they store, and what nobody needs goes again."""

import asyncio

from thinwire.brokers.memory import LocalBroker, LocalServer
from thinwire.dictionaries import Dictionary
from thinwire.dictionaries.dictionary_transfer import pack
from thinwire.topics.dictionary_documents import DictionaryReference, StoredDictionaries, kept_key
from thinwire.topics.dictionary_retention import MARGIN, PublisherDictionaryStore
from thinwire.topics.dictionary_store import DictionaryStore
from thinwire.topics.names import DICTIONARIES, log_of, publisher_subjects

TOPIC = "notes"


def made(n):
    content = b"".join(b'{"room": "%d", "state": %d}' % (k * k, k % 7) for k in range(99)) + b"%d" % n
    return Dictionary(content, "zlib", level=6, largest=64)


def said(dictionary, expires, parent=None):
    return DictionaryReference(dictionary.hash.hex(), expires, parent.hash.hex() if parent else "")


def story(tell):
    async def told():
        server = LocalServer()
        async with LocalBroker(server) as broker, LocalBroker(server) as other:
            await broker.open_log(log_of(TOPIC), [publisher_subjects(TOPIC)])
            bucket = await broker.bucket(DICTIONARIES)
            await tell(PublisherDictionaryStore(broker, TOPIC), PublisherDictionaryStore(other, TOPIC), bucket)

    asyncio.run(told())


async def kept(bucket):
    entry = await bucket.get(kept_key(TOPIC))
    return {one.hash: one for one in StoredDictionaries.decode(entry.value).dictionaries} if entry else {}


def test_several_publishers_write_into_one_document():
    async def tell(one, other, bucket):
        several = [made(n) for n in range(6)]
        await asyncio.gather(
            *((one, other)[n % 2].keep(said(dictionary, 100 + n), dictionary) for n, dictionary in enumerate(several))
        )
        assert set(await kept(bucket)) == {dictionary.hash.hex() for dictionary in several}
        for dictionary in several:
            assert await DictionaryStore(bucket).get(dictionary.hash) == dictionary

    story(tell)


def test_what_no_message_needs_is_deleted_by_whoever_comes_next():
    async def tell(one, other, bucket):
        old, new = made(1), made(2)
        await one.keep(said(old, 1000), old)
        await one.keep(said(new, 5000), new)
        await other.tidy(now=1000 + MARGIN)
        assert len(await kept(bucket)) == 2
        await other.tidy(now=1001 + MARGIN)
        assert set(await kept(bucket)) == {new.hash.hex()}
        assert await DictionaryStore(bucket).get(old.hash) is None
        assert await DictionaryStore(bucket).get(new.hash) == new

    story(tell)


def test_a_prolonged_one_stays():
    async def tell(one, other, bucket):
        used = made(1)
        await one.keep(said(used, 1000), used)
        await one.keep(said(used, 3000), used)
        await other.tidy(now=2500 + MARGIN)
        assert (await kept(bucket))[used.hash.hex()].expires == 3000

    story(tell)


def test_a_change_of_one_that_is_gone_is_told_by_itself():
    async def tell(one, other, bucket):
        parent, child = made(1), made(2)
        change = pack(child, parent)
        assert change.parent == parent.hash
        await one.keep(said(parent, 1000), parent)
        await other.tidy(now=1001 + MARGIN)
        await one.keep(said(child, 9000, parent), child, change)
        assert (await kept(bucket))[child.hash.hex()].parent == ""
        assert await DictionaryStore(bucket).get(child.hash) == child

    story(tell)


def test_the_one_in_use_is_stored_again_where_it_is_lost():
    async def tell(one, other, bucket):
        used = made(1)
        await one.keep(said(used, 9000), used)
        await DictionaryStore(bucket).delete(used.hash)
        await one.tidy(now=100.0, present=used)
        assert await DictionaryStore(bucket).get(used.hash) == used
        await bucket.put(used.hash.hex(), b"\x04spoilt")
        await one.tidy(now=100.0, present=used)
        assert await DictionaryStore(bucket).get(used.hash) == used

    story(tell)
