"""Documents and unstored messages on a NATS server."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator

import pytest

pytest.importorskip("nats")

from thinwire.brokers.embedded import EmbeddedServer
from thinwire.brokers.nats.broker import NatsBroker, connect
from thinwire.brokers.protocol import NOTHING, BucketEntry
from thinwire.errors import BadSubject, Conflict, ServiceUnavailable


@pytest.fixture(scope="module")
def server() -> Iterator[EmbeddedServer]:
    with EmbeddedServer() as running:
        yield running


def _run(server: EmbeddedServer, scenario: Callable[[NatsBroker], Awaitable[None]]) -> None:
    """Run a scenario with empty buckets, in bounded time, and check that no task is left."""

    async def bounded() -> None:
        async with asyncio.timeout(30), await connect(server.url) as broker:
            await broker.delete_log("KV_docs")
            await scenario(broker)
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(bounded())


def test_document_is_written_read_and_deleted(server: EmbeddedServer) -> None:
    async def scenario(broker: NatsBroker) -> None:
        docs = await broker.bucket("docs")
        assert await docs.get("topic.rooms") is None
        assert await docs.put("topic.rooms", b"one") == 1
        assert await docs.get("topic.rooms") == BucketEntry("topic.rooms", b"one", 1)
        await docs.delete("topic.rooms")
        await docs.delete("topic.rooms")
        await docs.delete("never.there")
        assert await docs.get("topic.rooms") is None
        assert await docs.entries() == []
        for key in ("", "a..b", ".a", "a b", "a.*", "ä"):
            with pytest.raises(BadSubject):
                await docs.put(key, b"")

    _run(server, scenario)


def test_write_with_expected_revision(server: EmbeddedServer) -> None:
    async def scenario(broker: NatsBroker) -> None:
        docs = await broker.bucket("docs")
        first = await docs.put("a", b"1", revision=NOTHING)
        with pytest.raises(Conflict):
            await docs.put("a", b"x", revision=NOTHING)
        second = await docs.put("a", b"2", revision=first)
        with pytest.raises(Conflict) as error:
            await docs.put("a", b"x", revision=first)
        assert (error.value.key, error.value.revision) == ("a", first)
        with pytest.raises(Conflict):
            await docs.delete("a", revision=first)
        assert await docs.get("a") == BucketEntry("a", b"2", second)
        await docs.delete("a", revision=second)
        assert await docs.get("a") is None
        again = await docs.put("a", b"3", revision=NOTHING)  # deleted is as good as never written
        assert await docs.entries() == [BucketEntry("a", b"3", again)]

    _run(server, scenario)


def test_one_of_two_concurrent_writes_succeeds(server: EmbeddedServer) -> None:
    async def scenario(broker: NatsBroker) -> None:
        docs = await broker.bucket("docs")
        revision = await docs.put("a", b"0")
        writes = (docs.put("a", b"%d" % number, revision=revision) for number in range(5))
        results = await asyncio.gather(*writes, return_exceptions=True)
        assert sorted(type(result).__name__ for result in results) == ["Conflict"] * 4 + ["int"]

    _run(server, scenario)


def test_entries_match_and_are_ordered_by_revision(server: EmbeddedServer) -> None:
    async def scenario(broker: NatsBroker) -> None:
        docs = await broker.bucket("docs")
        for number in range(300):
            await docs.put(f"many.k{number}", b"%d" % number)
        await docs.put("other.x", b"x")
        await docs.put("many.k0", b"again")
        found = await docs.entries("many.*")
        assert [entry.key for entry in found] == [f"many.k{number}" for number in range(1, 300)] + ["many.k0"]
        assert [entry.revision for entry in found] == sorted(entry.revision for entry in found)
        assert await docs.entries("other.x") == [BucketEntry("other.x", b"x", 301)]
        assert await docs.entries("none.>") == []

    _run(server, scenario)


def test_watch_yields_documents_then_changes(server: EmbeddedServer) -> None:
    async def scenario(broker: NatsBroker) -> None:
        docs = await broker.bucket("docs")
        await docs.put("a.1", b"one")
        await docs.put("a.2", b"two")
        await docs.delete("a.2")
        await docs.put("b.1", b"not watched")
        watch, nothing = docs.watch("a.*"), docs.watch("z.*")
        assert [await anext(watch), await anext(watch)] == [BucketEntry("a.1", b"one", 1), None]
        assert await anext(nothing) is None
        await docs.put("a.3", b"three")
        await docs.delete("a.1")
        await docs.put("z.1", b"first")
        assert [await anext(watch), await anext(watch)] == [
            BucketEntry("a.3", b"three", 5),
            BucketEntry("a.1", None, 6),
        ]
        assert await anext(nothing) == BucketEntry("z.1", b"first", 7)
        await watch.aclose()
        assert [entry async for entry in watch] == []
        ending = asyncio.create_task(anext(nothing, "ended"))
        await asyncio.sleep(0.01)
        await broker.close()
        assert await ending == "ended"

    _run(server, scenario)


def test_bucket_is_compatible_with_other_clients(server: EmbeddedServer) -> None:
    async def scenario(broker: NatsBroker) -> None:
        import nats

        docs = await broker.bucket("compatible")
        await docs.put("a", b"ours")
        client = await nats.connect(server.url)
        theirs = await client.jetstream().key_value("compatible")
        assert (await theirs.get("a")).value == b"ours"
        await theirs.put("b", b"theirs")
        await theirs.delete("a")
        assert (await theirs.status()).history == 1
        await client.close()
        assert await docs.entries() == [BucketEntry("b", b"theirs", 2)]

    _run(server, scenario)


def test_request_is_answered_by_a_listener(server: EmbeddedServer) -> None:
    async def scenario(broker: NatsBroker) -> None:
        received: list[tuple[str, bytes]] = []

        async def answer(subject: str, payload: bytes) -> bytes | None:
            received.append((subject, payload))
            if payload == b"broken":
                raise ValueError("a handler that fails")
            return None if payload == b"silent" else payload.upper()

        listener = await broker.listen("tw.ask.*", answer)
        async with await connect(server.url) as other:
            assert await other.request("tw.ask.rooms", b"hello") == b"HELLO"
            await other.send("tw.ask.rooms", b"silent")
            for question in (b"silent", b"broken"):
                with pytest.raises(ServiceUnavailable, match="in time"):
                    await other.request("tw.ask.rooms", question, timeout=0.1)
            assert await other.request("tw.ask.rooms", b"still there") == b"STILL THERE"
            assert [payload for _, payload in received] == [b"hello", b"silent", b"silent", b"broken", b"still there"]
            with pytest.raises(ServiceUnavailable, match="no client is subscribed"):
                await other.request("tw.unused", b"", timeout=60)
            await listener.close()
            with pytest.raises(ServiceUnavailable, match="no client is subscribed"):
                await other.request("tw.ask.rooms", b"", timeout=60)

    _run(server, scenario)
