"""Checkpoints in a bucket: the stored checkpoint is returned, or an error is raised."""

import asyncio
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from thinwire.brokers.memory import LocalBroker, LocalServer
from thinwire.errors import CorruptCheckpoint, RegistryError
from thinwire.topics.checkpoint_store import MAX_CHECKPOINTS, Checkpoint, CheckpointStore, thin_out

TOPIC = "building.rooms"
PARTS = {"log/p1": b"a" * 2_500, "log/p2": b"", "class/00ff/p1": bytes(range(256)) * 4}


def run_scenario(scenario):
    async def run():
        async with LocalBroker(LocalServer()) as broker:
            bucket = await broker.bucket("checkpoints")
            await scenario(CheckpointStore(bucket, piece_size=1_000), bucket)

    asyncio.run(run())


async def nearest(store, topic, offset):
    """Return the last checkpoint at or before an offset."""
    return next((one for one in reversed(await store.read_all(topic)) if one.offset <= offset), None)


async def pieces(bucket):
    return {entry.key for entry in await bucket.entries("part.>")}


def test_a_stored_checkpoint_is_read_back():
    async def scenario(store, bucket):
        made = await store.put(TOPIC, 120, PARTS, epoch=3, time=7.5, channel_offsets={"class/00ff/p1": 44})
        found = await nearest(store, TOPIC, 500)
        assert found == made
        assert (found.offset, found.epoch, found.time) == (120, 3, 7.5)
        assert {name: await store.read_part(TOPIC, found, name) for name in found.parts} == PARTS
        assert [found.parts[name].pieces for name in PARTS] == [3, 0, 2]
        assert found.parts["class/00ff/p1"].channel_offset == 44

    run_scenario(scenario)


def test_checkpoints_are_ordered_by_offset():
    async def scenario(store, bucket):
        for offset in (100, 300, 200):
            await store.put(TOPIC, offset, PARTS, epoch=1)
        found = {offset: await nearest(store, TOPIC, offset) for offset in (99, 100, 299, 300, 10_000)}
        assert {offset: one and one.offset for offset, one in found.items()} == {
            99: None,
            100: 100,
            299: 200,
            300: 300,
            10_000: 300,
        }
        assert await nearest(store, "another", 300) is None

    run_scenario(scenario)


@pytest.mark.parametrize("harm", ["missing", "other", "longer", "swapped"])
def test_a_damaged_part_is_refused(harm):
    async def scenario(store, bucket):
        made = await store.put(TOPIC, 120, PARTS, epoch=3)
        first, second, _ = made.piece_keys(TOPIC, made.parts["log/p1"])
        if harm == "missing":
            await bucket.delete(first)
        elif harm == "swapped":
            first, second = (made.piece_keys(TOPIC, made.parts["class/00ff/p1"])[n] for n in (0, 1))
            values = [(await bucket.get(key)).value for key in (first, second)]
            await bucket.put(first, values[1])
            await bucket.put(second, values[0])
        else:
            await bucket.put(first, b"b" * (1_000 if harm == "other" else 100_000))
        harmed = "class/00ff/p1" if harm == "swapped" else "log/p1"
        with pytest.raises(CorruptCheckpoint):
            await store.read_part(TOPIC, made, harmed)
        with pytest.raises(CorruptCheckpoint):
            await store.read_part(TOPIC, made, "log/nobody")

    run_scenario(scenario)


def test_pruning_keeps_what_readers_of_the_log_can_use():
    async def scenario(store, bucket):
        for offset in (100, 200, 300, 400):
            await store.put(TOPIC, offset, PARTS, epoch=1)
        await store.prune(TOPIC, 350)
        assert [one.offset for one in await store.read_all(TOPIC)] == [300, 400]
        assert {key.split(".")[3].split("-")[0] for key in await pieces(bucket)} == {"300", "400"}
        await store.prune(TOPIC, 350)
        await store.delete(TOPIC)
        assert await store.read_all(TOPIC) == []
        assert await pieces(bucket) == set()

    run_scenario(scenario)


def test_the_number_of_checkpoints_is_bounded_and_no_pieces_are_left_over():
    async def scenario(store, bucket):
        for offset in range(10, 600, 10):
            await store.put(TOPIC, offset, {"log/p1": b"state"}, epoch=1)
        retained = [one.offset for one in await store.read_all(TOPIC)]
        assert len(retained) == MAX_CHECKPOINTS
        assert (retained[0], retained[-1]) == (10, 590)
        assert len(await pieces(bucket)) == MAX_CHECKPOINTS

    run_scenario(scenario)


def test_an_incomplete_checkpoint_is_not_listed_and_is_removed():
    async def scenario(store, bucket):
        await store.put(TOPIC, 100, PARTS, epoch=1)
        complete = await pieces(bucket)

        class Full(Exception):
            pass

        put, left = bucket.put, [3]

        async def failing(key, value, **options):
            left[0] -= 1
            if not left[0]:
                raise Full
            return await put(key, value, **options)

        bucket.put = failing
        with pytest.raises(Full):
            await store.put(TOPIC, 200, PARTS, epoch=1)
        del bucket.put
        assert (await nearest(store, TOPIC, 250)).offset == 100
        assert await pieces(bucket) - complete
        await store.put(TOPIC, 300, PARTS, epoch=2)
        assert [one.offset for one in await store.read_all(TOPIC)] == [100, 300]
        assert {key.split(".")[3] for key in await pieces(bucket)} == {"100-1", "300-2"}

    run_scenario(scenario)


def test_concurrent_writers_both_store_their_checkpoint():
    async def scenario(store, bucket):
        await asyncio.gather(*(store.put(TOPIC, offset, PARTS, epoch=1) for offset in (10, 20)))
        found = await nearest(store, TOPIC, 10_000)
        assert found is not None
        assert {name: await store.read_part(TOPIC, found, name) for name in found.parts} == PARTS

    run_scenario(scenario)


@pytest.mark.parametrize(
    "index",
    [
        b"\xff",
        b"[]",
        b'{"checkpoints": 7}',
        b'{"checkpoints": [7]}',
        b'{"checkpoints": [{"offset": -1, "epoch": 0}]}',
        b'{"checkpoints": [{"offset": 1, "epoch": 0, "parts": {"log/p1": {"number": 0, "pieces": 1e9}}}]}',
    ],
)
def test_an_unreadable_index_is_replaced(index):
    async def scenario(store, bucket):
        await bucket.put(f"index.{TOPIC}", index)
        assert await nearest(store, TOPIC, 10_000) is None
        await store.put(TOPIC, 100, PARTS, epoch=1)
        assert (await nearest(store, TOPIC, 10_000)).offset == 100

    run_scenario(scenario)


def test_too_many_parts_are_refused():
    async def scenario(store, bucket):
        with pytest.raises(RegistryError, match="too many parts"):
            await store.put(TOPIC, 1, {f"log/p{n}": b"" for n in range(2_000)}, epoch=1)

    run_scenario(scenario)


@given(st.lists(st.integers(1, 10**6), min_size=1, max_size=60, unique=True), st.integers(2, 20))
def test_thinning_keeps_the_ends_and_spreads_old_checkpoints(offsets, limit):
    checkpoints = [Checkpoint(offset, 1) for offset in sorted(offsets)]
    retained = thin_out(checkpoints, limit)
    assert len(retained) == min(len(checkpoints), limit)
    assert (retained[0], retained[-1]) == (checkpoints[0], checkpoints[-1])
    assert all(one.offset < other.offset for one, other in pairwise(retained))
