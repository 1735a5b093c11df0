"""Dictionaries in a bucket: what comes back is what was stored, or it is said that it is not."""

import asyncio
import os

import pytest

from thinwire.brokers.memory import LocalBroker, LocalServer
from thinwire.dictionaries import Dictionary, Facts
from thinwire.dictionaries.dictionary_transfer import pack
from thinwire.errors import CorruptDictionary
from thinwire.topics.dictionary_store import MAX_CHAIN, PIECE, DictionaryCache, DictionaryStore, fetched, pieces
from thinwire.wire import varint

SMALL = Dictionary(b"small", "zlib", level=6, largest=64, facts=Facts(10, 1000, 80.5))
LARGE = Dictionary(os.urandom(2 * PIECE + 100), "zstd", level=3, largest=4096)


def story(tell):
    async def told():
        async with LocalBroker(LocalServer()) as broker:
            bucket = await broker.bucket("dictionaries")
            await tell(DictionaryStore(bucket), bucket)

    asyncio.run(told())


async def documents(bucket):
    return {entry.key: entry.value for entry in await bucket.entries() if entry.value is not None}


def test_what_was_stored_comes_back():
    async def tell(store, bucket):
        for dictionary, many in ((SMALL, 1), (LARGE, 3)):
            await store.put(dictionary)
            await store.put(dictionary)
            assert await store.get(dictionary.hash) == dictionary
            kept = await documents(bucket)
            assert len([key for key in kept if key.startswith(dictionary.hash.hex())]) == many
            assert fetched(dictionary.hash, kept.get) == dictionary
        assert await store.get(bytes(16)) is None
        assert fetched(bytes(16), {}.get) is None

    story(tell)


@pytest.mark.parametrize("number", ["", ".1", ".2"])
def test_a_piece_that_is_missing(number):
    async def tell(store, bucket):
        await store.put(LARGE)
        await bucket.delete(LARGE.hash.hex() + number)
        if not number:
            assert await store.get(LARGE.hash) is None
            return
        with pytest.raises(CorruptDictionary, match="missing"):
            await store.get(LARGE.hash)

    story(tell)


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"\xff" * 12,
        varint.write(1 << 40) + b"x",
        varint.write(3) + b"much more than three",
        varint.write(100_000) + b"cut off",
        varint.write(4) + b"\x01\x09\x03\x00",
        varint.write(len(pack(LARGE).body)) + pack(LARGE).body[: PIECE - 1],
    ],
)
def test_garbage_is_refused(value):
    async def tell(store, bucket):
        await bucket.put(SMALL.hash.hex(), value)
        with pytest.raises(CorruptDictionary):
            await store.get(SMALL.hash)

    story(tell)


def test_a_store_that_lies():
    async def tell(store, bucket):
        await bucket.put(LARGE.hash.hex(), pieces(LARGE.hash, pack(SMALL).body)[LARGE.hash.hex()])
        with pytest.raises(CorruptDictionary, match="not the one that was asked for"):
            await store.get(LARGE.hash)

    story(tell)


def test_a_reader_keeps_what_it_used_last():
    known = DictionaryCache(limit=25)
    made = [Dictionary(bytes((n,)) * 10, "zlib", 6, 64) for n in range(4)]
    for dictionary in made[:2]:
        known.keep(dictionary)
    assert known.find(made[0].hash) is made[0]
    known.keep(made[2])
    assert [known.find(d.hash) is d for d in made] == [True, False, True, False]
    known.keep(LARGE)
    assert known.find(LARGE.hash) is LARGE, "the last one stays, however large"
    assert known.find(made[0].hash) is None


def lineage(length):
    """Dictionaries, each a little more than the one before."""
    content = os.urandom(3000)
    return [Dictionary(content + bytes(n), "zlib", level=6, largest=64) for n in range(length)]


def test_changes_are_read_through_those_before_them():
    async def tell(store, bucket):
        line = lineage(MAX_CHAIN)
        for parent, dictionary in zip([None, *line], line, strict=False):
            told = await store.put(dictionary, parent)
            assert told.parent == (parent.hash if parent else b"")
        assert (await store.get(line[-1].hash)).content == line[-1].content
        assert fetched(line[-1].hash, (await documents(bucket)).get).content == line[-1].content
        before = store.received
        known = DictionaryCache()
        known.keep(line[-2])
        assert (await store.get(line[-1].hash, known.find)).content == line[-1].content
        assert store.received - before < 100, "who has the parent reads the change alone"

    story(tell)


def test_a_change_of_too_many_of_itself_or_of_nothing():
    async def tell(store, bucket):
        line = lineage(MAX_CHAIN + 1)
        for parent, dictionary in zip([None, *line], line, strict=False):
            await store.put(dictionary, parent)
        with pytest.raises(CorruptDictionary, match="too many"):
            await store.get(line[-1].hash)
        loop = bytes((3,)) + line[0].hash
        await bucket.put(line[0].hash.hex(), varint.write(len(loop)) + loop)
        with pytest.raises(CorruptDictionary, match="too many"):
            await store.get(line[0].hash)
        await store.delete(line[0].hash)
        with pytest.raises(CorruptDictionary, match="missing"):
            await store.get(line[1].hash)

    story(tell)


def test_a_deleted_one_leaves_nothing_behind():
    async def tell(store, bucket):
        await store.put(SMALL)
        await store.put(LARGE)
        await store.delete(LARGE.hash)
        assert await store.get(LARGE.hash) is None
        assert list(await documents(bucket)) == [SMALL.hash.hex()]

    story(tell)
