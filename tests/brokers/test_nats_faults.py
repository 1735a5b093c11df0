"""Killed brokers and lost connections: no message is lost or duplicated."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager

import pytest
from fault_proxy import FaultProxy

pytest.importorskip("nats")

from thinwire.brokers.embedded import EmbeddedServer
from thinwire.brokers.nats import connection, jetstream_api
from thinwire.brokers.nats import log_reader as reading
from thinwire.brokers.nats.asyncio_socket import AsyncioSocket
from thinwire.brokers.nats.broker import NatsBroker, connect
from thinwire.brokers.nats.options import NatsOptions
from thinwire.brokers.protocol import ANY, NOTHING, BucketEntry, LogReader
from thinwire.errors import BrokerUnavailable, Conflict, TransportClosed, UnknownLog

LOG, SUBJECT = "tw_log_rooms", "tw.log.rooms.p1.d"


@asynccontextmanager
async def _link() -> AsyncIterator[tuple[EmbeddedServer, FaultProxy, NatsBroker]]:
    """A client behind a proxy that can be cut."""
    async with asyncio.timeout(40), EmbeddedServer() as server, FaultProxy("127.0.0.1", server.port) as wire:
        options = NatsOptions(timeout=20, connect_timeout=0.5)
        async with await connect(f"nats://127.0.0.1:{wire.port}", options) as broker:
            await broker.ensure_log(LOG, ["tw.log.rooms.*.*"])
            yield server, wire, broker
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def _append(broker: NatsBroker, count: int) -> list[int]:
    return [await broker.append(LOG, SUBJECT, b"%d" % number) for number in range(count)]


async def _stored(server: EmbeddedServer) -> list[bytes]:
    """The content of the log, read over a direct connection."""
    async with await connect(server.url) as broker:
        reader = await broker.read(LOG, first=1)
        return [await _payload(reader) for _ in range((await broker.span(LOG)).messages)]


async def _payload(reader: LogReader) -> bytes:
    message = await reader.next(20)
    assert message is not None
    reader.done(message.offset)
    return message.payload


def _run(scenario: Callable[[], Coroutine[None, None, None]]) -> None:
    asyncio.run(scenario())


def test_killed_broker_loses_and_duplicates_nothing() -> None:
    async def scenario() -> None:
        async with _link() as (server, _, broker):
            appending = asyncio.create_task(_append(broker, 1500))
            reader = await broker.read(LOG, first=1, max_unacknowledged=64)
            reading_on = asyncio.create_task(_all(reader, 1500))
            for _ in range(3):
                await asyncio.sleep(0.08)
                server.kill()
                await server.restart()
            offsets = await appending
            assert offsets == sorted(set(offsets))
            expected = [b"%d" % number for number in range(1500)]
            assert await _stored(server) == expected
            assert await reading_on == expected

    _run(scenario)


async def _all(reader: LogReader, count: int) -> list[bytes]:
    return [await _payload(reader) for _ in range(count)]


def test_repeated_cuts_lose_and_duplicate_nothing() -> None:
    async def scenario() -> None:
        async with _link() as (server, wire, broker):
            reader = await broker.read(LOG, first=1, max_unacknowledged=32)
            reading_on = asyncio.create_task(_all(reader, 1500))
            appending = asyncio.create_task(_append(broker, 1500))
            for cuts in range(1, 5):
                await asyncio.sleep(0.05)
                wire.cut()
                wire.restore()
                while wire.connections <= cuts:
                    await asyncio.sleep(0.01)
            await appending
            expected = [b"%d" % number for number in range(1500)]
            assert await _stored(server) == expected
            assert await reading_on == expected

    _run(scenario)


@pytest.mark.parametrize("insist", [False, True])
def test_lost_acknowledgement_is_looked_up(insist: bool) -> None:
    """The message arrives and its acknowledgement does not: the connection is cut in between."""

    async def scenario() -> None:
        async with _link() as (server, wire, broker):
            await broker.append(LOG, SUBJECT, b"before")
            await broker.append(LOG, SUBJECT, b"the same")
            wire.discarding = True
            appending = asyncio.create_task(
                broker.append(LOG, SUBJECT, b"the same", expected_last=2 if insist else ANY)
            )
            while len(await _stored(server)) < 3:
                await asyncio.sleep(0.01)
            wire.cut()
            wire.discarding = False
            wire.restore()
            assert await appending == 3
            assert await broker.append(LOG, SUBJECT, b"after") == 4
            assert await _stored(server) == [b"before", b"the same", b"the same", b"after"]

    _run(scenario)


def test_lost_message_is_sent_again_with_expected_offset() -> None:
    async def scenario() -> None:
        async with _link() as (server, wire, broker):
            await broker.append(LOG, SUBJECT, b"before")
            wire.pause()
            appending = asyncio.create_task(broker.append(LOG, SUBJECT, b"once"))
            await asyncio.sleep(0.02)
            wire.cut()
            async with await connect(server.url) as other:
                await other.append(LOG, SUBJECT, b"other")
            wire.resume()
            wire.restore()
            assert await appending == 3
            assert await _stored(server) == [b"before", b"other", b"once"]

    _run(scenario)


def test_write_of_another_client_during_a_cut_is_a_conflict() -> None:
    async def scenario() -> None:
        async with _link() as (server, wire, broker):
            await broker.append(LOG, SUBJECT, b"before")
            wire.pause()
            appending = asyncio.create_task(
                broker.append(LOG, SUBJECT, b"mine", expected_last=1, last_pattern="tw.log.rooms.p1.*")
            )
            await asyncio.sleep(0.02)
            wire.cut()
            async with await connect(server.url) as other:
                await other.append(LOG, "tw.log.rooms.p1.k", b"theirs")
            wire.resume()
            wire.restore()
            with pytest.raises(Conflict):
                await appending
            assert await _stored(server) == [b"before", b"theirs"]

    _run(scenario)


def test_append_after_a_timeout_is_stored_once() -> None:
    async def scenario() -> None:
        async with _link() as (server, wire, broker):
            await broker.append(LOG, SUBJECT, b"before")
            wire.discarding = True
            with pytest.raises(BrokerUnavailable, match="unknown whether"):
                await broker.append(LOG, SUBJECT, b"maybe", timeout=0.3)
            wire.cut()
            wire.discarding = False
            with pytest.raises(BrokerUnavailable):
                await broker.append(LOG, SUBJECT, b"maybe", timeout=0.1)
            assert not broker.connected
            wire.restore()
            assert await broker.append(LOG, SUBJECT, b"maybe") == 2
            assert await _stored(server) == [b"before", b"maybe"]

    _run(scenario)


def test_dead_link_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jetstream_api, "REQUEST_TIMEOUT", 0.2)
    monkeypatch.setattr(connection, "PROBE_TIMEOUT", 0.2)

    async def scenario() -> None:
        async with _link() as (server, wire, broker):
            await broker.append(LOG, SUBJECT, b"before")
            wire.discarding = True
            appending = asyncio.create_task(broker.append(LOG, SUBJECT, b"once"))
            while wire.connections < 2:
                await asyncio.sleep(0.01)
            wire.discarding = False
            assert await appending == 2
            assert await _stored(server) == [b"before", b"once"]

    _run(scenario)


def test_vanished_consumer_is_recreated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "HEARTBEAT", 0.15)

    async def scenario() -> None:
        async with _link() as (_, _, broker):
            await _append(broker, 3)
            reader = await broker.read(LOG, first=1)
            assert await _all(reader, 3) == [b"0", b"1", b"2"]
            await broker._connection.call_api(
                f"CONSUMER.DELETE.{LOG}.{reader._consumer.name}", deadline=broker._connection.deadline()
            )
            await broker.append(LOG, SUBJECT, b"3")
            assert await _payload(reader) == b"3"

    _run(scenario)


def test_heartbeats_keep_an_idle_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "HEARTBEAT", 0.1)

    async def scenario() -> None:
        async with _link() as (_, _, broker):
            await _append(broker, 10)
            full, idle = await broker.read(LOG, first=1, max_unacknowledged=4), await broker.read(LOG)
            names = full._consumer.name, idle._consumer.name
            await asyncio.sleep(1)
            assert (full._consumer.name, idle._consumer.name) == names
            assert await _payload(full) == b"0"

    _run(scenario)


def test_watch_continues_after_a_killed_broker() -> None:
    async def scenario() -> None:
        async with _link() as (server, wire, broker):
            docs = await broker.bucket("docs")
            await docs.put("a", b"1", revision=NOTHING)
            watch = docs.watch()
            assert [await anext(watch), await anext(watch)] == [BucketEntry("a", b"1", 1), None]
            server.kill()
            waiting = asyncio.create_task(docs.put("b", b"2", revision=NOTHING))
            await server.restart()
            assert await waiting == 2
            assert await anext(watch) == BucketEntry("b", b"2", 2)
            wire.cut()
            async with await connect(server.url) as other:
                await (await other.bucket("docs")).delete("a")
            wire.restore()
            assert await anext(watch) == BucketEntry("a", None, 3)
            assert await docs.get("a") is None
            await watch.aclose()

    _run(scenario)


def test_listener_receives_after_a_cut() -> None:
    async def scenario() -> None:
        async with _link() as (server, wire, broker):

            async def answer(subject: str, payload: bytes) -> bytes:
                return payload[::-1]

            await broker.listen("tw.ask.>", answer)
            wire.cut()
            wire.restore()
            async with await connect(server.url) as other:
                while not broker.connected:
                    await asyncio.sleep(0.01)
                assert await other.request("tw.ask.a", b"abc") == b"cba"

    _run(scenario)


def test_close_during_an_outage_is_quick_and_fails_pending_calls() -> None:
    async def scenario() -> None:
        async with _link() as (server, _, broker):
            server.kill()
            appending = asyncio.create_task(broker.append(LOG, SUBJECT, b"x"))
            await asyncio.sleep(0.05)
            await asyncio.wait_for(broker.close(), 5)
            with pytest.raises(TransportClosed):
                await appending

    _run(scenario)


def test_close_ends_an_attempt_that_swallows_its_cancellation(monkeypatch: pytest.MonkeyPatch) -> None:
    """An attempt that swallows its cancellation must not be repeated."""

    async def scenario() -> None:
        async with asyncio.timeout(40), EmbeddedServer() as server:
            broker = await connect(server.url)
            trying = asyncio.Event()

            async def refused(*_: object) -> None:
                trying.set()
                try:
                    await asyncio.sleep(60)
                except asyncio.CancelledError:
                    raise ConnectionRefusedError from None

            monkeypatch.setattr(AsyncioSocket, "open", refused)
            server.kill()
            await trying.wait()
            await broker.close()
        assert asyncio.all_tasks() == {asyncio.current_task()}

    _run(scenario)


@pytest.mark.parametrize("messages", [1, 5])
def test_reader_of_a_recreated_log_fails_by_identity(messages: int) -> None:
    """The new log has as many messages as the reader has read, or more: only its identity differs."""

    async def scenario() -> None:
        async with _link() as (server, wire, broker):
            await _append(broker, 1)
            reader = await broker.read(LOG, first=1)
            assert await _payload(reader) == b"0"
            assert reader.log_id == (await broker.span(LOG)).log_id
            wire.cut()
            async with await connect(server.url) as other:
                await other.delete_log(LOG)
                await other.ensure_log(LOG, ["tw.log.rooms.*.*"])
                await _append(other, messages)
            wire.restore()
            with pytest.raises(UnknownLog):
                await reader.next(20)

    _run(scenario)
