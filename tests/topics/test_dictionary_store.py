"""Dictionaries in a bucket: the stored dictionary is returned, or an error."""

import asyncio
import os

import pytest

from thinwire.brokers.memory import LocalBroker, LocalServer
from thinwire.dictionaries import Dictionary, Facts
from thinwire.dictionaries.dictionary_transfer import pack
from thinwire.errors import CorruptDictionary
from thinwire.topics.dictionary_store import MAX_CHAIN, PIECE_SIZE, DictionaryCache, DictionaryStore, dictionary_pieces
from thinwire.wire import varint

SMALL = Dictionary(b"small", "zlib", level=6, largest=64, facts=Facts(10, 1000, 80.5))
LARGE = Dictionary(os.urandom(2 * PIECE_SIZE + 100), "zstd", level=3, largest=4096)


def run_scenario(scenario):
    async def run():
        async with LocalBroker(LocalServer()) as broker:
            bucket = await broker.bucket("dictionaries")
            await scenario(DictionaryStore(bucket), bucket)

    asyncio.run(run())


async def documents(bucket):
    return {entry.key: entry.value for entry in await bucket.entries() if entry.value is not None}


def test_a_stored_dictionary_is_read_back():
    async def scenario(store, bucket):
        for dictionary, many in ((SMALL, 1), (LARGE, 3)):
            await store.put(dictionary)
            await store.put(dictionary)
            assert await store.get(dictionary.hash) == dictionary
            keys = await documents(bucket)
            assert len([key for key in keys if key.startswith(dictionary.hash.hex())]) == many
        assert await store.get(bytes(16)) is None

    run_scenario(scenario)


@pytest.mark.parametrize("number", ["", ".1", ".2"])
def test_a_missing_piece_is_an_error(number):
    async def scenario(store, bucket):
        await store.put(LARGE)
        await bucket.delete(LARGE.hash.hex() + number)
        if not number:
            assert await store.get(LARGE.hash) is None
            return
        with pytest.raises(CorruptDictionary, match="missing"):
            await store.get(LARGE.hash)

    run_scenario(scenario)


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"\xff" * 12,
        varint.write(1 << 40) + b"x",
        varint.write(3) + b"much more than three",
        varint.write(100_000) + b"cut off",
        varint.write(4) + b"\x01\x09\x03\x00",
        varint.write(len(pack(LARGE).body)) + pack(LARGE).body[: PIECE_SIZE - 1],
    ],
)
def test_garbage_is_refused(value):
    async def scenario(store, bucket):
        await bucket.put(SMALL.hash.hex(), value)
        with pytest.raises(CorruptDictionary):
            await store.get(SMALL.hash)

    run_scenario(scenario)


def test_a_dictionary_with_another_hash_is_refused():
    async def scenario(store, bucket):
        await bucket.put(LARGE.hash.hex(), dictionary_pieces(LARGE.hash, pack(SMALL).body)[LARGE.hash.hex()])
        with pytest.raises(CorruptDictionary, match="not the requested one"):
            await store.get(LARGE.hash)

    run_scenario(scenario)


def test_the_cache_keeps_recently_used_dictionaries():
    cache = DictionaryCache(limit=25)
    made = [Dictionary(bytes((n,)) * 10, "zlib", 6, 64) for n in range(4)]
    for dictionary in made[:2]:
        cache.add(dictionary)
    assert cache.find(made[0].hash) is made[0]
    cache.add(made[2])
    assert [cache.find(d.hash) is d for d in made] == [True, False, True, False]
    cache.add(LARGE)
    assert cache.find(LARGE.hash) is LARGE, "the newest one is retained, however large"
    assert cache.find(made[0].hash) is None


def lineage(length):
    """Dictionaries, each a little more than the one before."""
    content = os.urandom(3000)
    return [Dictionary(content + bytes(n), "zlib", level=6, largest=64) for n in range(length)]


def test_a_difference_is_read_with_its_parents():
    async def scenario(store, bucket):
        line = lineage(MAX_CHAIN)
        for parent, dictionary in zip([None, *line], line, strict=False):
            packed = pack(dictionary, parent)
            await store.put(dictionary, packed)
            assert packed.parent == (parent.hash if parent else b"")
        assert (await store.get(line[-1].hash)).content == line[-1].content
        before = store.received
        cache = DictionaryCache()
        cache.add(line[-2])
        assert (await store.get(line[-1].hash, cache.find)).content == line[-1].content
        assert store.received - before < 100, "who has the parent reads the change alone"

    run_scenario(scenario)


def test_a_chain_of_parents_that_is_too_long_circular_or_broken():
    async def scenario(store, bucket):
        line = lineage(MAX_CHAIN + 1)
        for parent, dictionary in zip([None, *line], line, strict=False):
            await store.put(dictionary, pack(dictionary, parent))
        with pytest.raises(CorruptDictionary, match="too many parents"):
            await store.get(line[-1].hash)
        loop = bytes((3,)) + line[0].hash
        await bucket.put(line[0].hash.hex(), varint.write(len(loop)) + loop)
        with pytest.raises(CorruptDictionary, match="too many parents"):
            await store.get(line[0].hash)
        await store.delete(line[0].hash)
        with pytest.raises(CorruptDictionary, match="missing"):
            await store.get(line[1].hash)

    run_scenario(scenario)


def test_delete_removes_all_pieces():
    async def scenario(store, bucket):
        await store.put(SMALL)
        await store.put(LARGE)
        await store.delete(LARGE.hash)
        assert await store.get(LARGE.hash) is None
        assert list(await documents(bucket)) == [SMALL.hash.hex()]

    run_scenario(scenario)
