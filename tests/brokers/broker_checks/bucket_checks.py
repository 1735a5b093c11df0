"""Buckets: documents, revisions, concurrent writes, watches."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from broker_checks.check_site import Site, ensure_log, fresh, raises
from thinwire.brokers.protocol import NOTHING, Bucket, BucketEntry
from thinwire.errors import Conflict


async def check_documents(site: Site) -> None:
    """Documents are stored, found by pattern ordered by revision, and deleted."""
    async with site.client() as broker, site.client() as other:
        name = fresh("bucket")
        mine, theirs = await broker.bucket(name), await other.bucket(name)
        assert await mine.get("a.x") is None
        assert await mine.entries() == []
        first = await mine.put("a.x", b"1", revision=NOTHING)
        await mine.put("b.x", b"2")
        third = await mine.put("a.x", b"3", revision=first)
        fourth = await mine.put("a.y", b"")
        assert await theirs.get("a.x") == BucketEntry("a.x", b"3", third)
        assert await theirs.entries("a.*") == [BucketEntry("a.x", b"3", third), BucketEntry("a.y", b"", fourth)]
        assert [entry.key for entry in await theirs.entries()] == ["b.x", "a.x", "a.y"]
        await theirs.delete("a.x")
        await theirs.delete("a.x")
        await theirs.delete("never")
        assert await mine.get("a.x") is None
        assert [entry.key for entry in await mine.entries()] == ["b.x", "a.y"]


async def check_expected_revision(site: Site) -> None:
    """A write or delete with another expected revision is refused and changes nothing."""
    async with site.client() as broker:
        bucket = await broker.bucket(fresh("bucket"))
        first = await bucket.put("key", b"1", revision=NOTHING)
        await raises(Conflict, bucket.put("key", b"2", revision=NOTHING))
        second = await bucket.put("key", b"2", revision=first)
        await raises(Conflict, bucket.put("key", b"3", revision=first))
        await raises(Conflict, bucket.delete("key", revision=first))
        assert await bucket.get("key") == BucketEntry("key", b"2", second)
        await bucket.delete("key", revision=second)
        await bucket.delete("key", revision=second)
        assert await bucket.put("key", b"again", revision=NOTHING) > second


async def check_concurrent_writes(site: Site) -> None:
    """Counting in one document with expected revisions loses no step; one of several first appends succeeds."""
    async with site.client() as broker, site.client() as other:
        name = fresh("bucket")
        mine, theirs = await broker.bucket(name), await other.bucket(name)
        won = await asyncio.gather(_count(mine, 15), _count(theirs, 15))
        counted = await mine.get("count")
        assert counted is not None
        assert counted.value == b"30"
        assert len({revision for revisions in won for revision in revisions}) == 30
        log = await ensure_log(broker)
        firsts = (one.append(log, f"{log}.a", b"", expected_last=NOTHING) for one in (broker, other, broker, other))
        results = await asyncio.gather(*firsts, return_exceptions=True)
        assert sorted(str(type(result).__name__) for result in results) == ["Conflict"] * 3 + ["int"]
        assert (await broker.span(log)).messages == 1


async def check_watch(site: Site) -> None:
    """A watch yields the documents, None, then each change in order, deletions too, across a lost connection."""
    async with site.client() as broker, site.client() as other:
        name = fresh("bucket")
        mine, theirs = await broker.bucket(name), await other.bucket(name)
        for key in ("a.x", "b.x", "a.y", "a.gone"):
            await mine.put(key, b"1")
        await mine.delete("a.gone")
        watching = theirs.watch("a.*")
        assert [_short(entry) for entry in await _next(watching, 3)] == [("a.x", b"1"), ("a.y", b"1"), None]
        await mine.put("b.x", b"2")
        await mine.put("a.z", b"2")
        assert [_short(entry) for entry in await _next(watching, 1)] == [("a.z", b"2")]
        await mine.delete("a.x")
        assert [_short(entry) for entry in await _next(watching, 1)] == [("a.x", None)]
        async with site.interrupted(other):
            await mine.put("a.y", b"3")
            await mine.put("a.z", b"4")
            assert [_short(entry) for entry in await _next(watching, 2)] == [("a.y", b"3"), ("a.z", b"4")]
        await mine.put("a.y", b"5")
        assert [_short(entry) for entry in await _next(watching, 1)] == [("a.y", b"5")]
        await _close(watching)


async def check_watch_of_empty_bucket(site: Site) -> None:
    """Watches of an empty bucket yield None at once, and then the same changes."""
    async with site.client() as broker:
        bucket = await broker.bucket(fresh("bucket"))
        watches = bucket.watch(), bucket.watch("k.>")
        assert [await _next(watching, 1) for watching in watches] == [[None], [None]]
        revision = await bucket.put("k.a", b"1")
        assert [await _next(watching, 1) for watching in watches] == [[BucketEntry("k.a", b"1", revision)]] * 2
        for watching in watches:
            await _close(watching)


async def _count(bucket: Bucket, steps: int) -> list[int]:
    won: list[int] = []
    while len(won) < steps:
        entry = await bucket.get("count")
        value, revision = (0, NOTHING) if entry is None else (int(entry.value or 0), entry.revision)
        try:
            won.append(await bucket.put("count", str(value + 1).encode(), revision=revision))
        except Conflict:
            continue
    return won


async def _next(watching: AsyncIterator[BucketEntry | None], number: int) -> list[BucketEntry | None]:
    async with asyncio.timeout(10):
        return [await anext(watching) for _ in range(number)]


def _short(entry: BucketEntry | None) -> tuple[str, bytes | None] | None:
    return None if entry is None else entry[:2]


async def _close(watching: AsyncIterator[BucketEntry | None]) -> None:
    await watching.aclose()  # type: ignore[attr-defined]  # the protocol guarantees it, its type does not
