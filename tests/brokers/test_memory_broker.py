"""The memory broker: features beyond the checks of every broker."""

import asyncio

import pytest

from thinwire.brokers.memory import LocalBroker, LocalServer
from thinwire.brokers.protocol import Broker, Retention
from thinwire.clock import VirtualClock
from thinwire.errors import (
    BadSubject,
    BrokerUnavailable,
    ConfigError,
    PayloadTooLarge,
    ServiceUnavailable,
    TransportClosed,
    TransportError,
    UnknownLog,
)


def run(scenario, **settings):
    """Run a scenario with a server and two of its clients."""

    async def bounded():
        server = LocalServer(**settings)
        async with LocalBroker(server) as here, LocalBroker(server) as there:
            await here.ensure_log("log", ["a.>"])
            await asyncio.wait_for(scenario(server, here, there), 20)

    asyncio.run(bounded())


def test_implements_broker():
    async def scenario(server, here, there):
        broker: Broker = here
        assert broker.url == "memory://"
        assert broker.max_payload == 1 << 20

    run(scenario)


@pytest.mark.parametrize("lost", [1, 3])
@pytest.mark.parametrize("delay", [0, 0.0005])
def test_lost_acknowledgement_is_resolved(lost, delay):
    async def scenario(server, here, there):
        server.lose_acknowledgements(lost)
        assert [await here.append("log", "a.b", b"%d" % number) for number in range(5)] == [1, 2, 3, 4, 5]
        assert (await there.span("log")).messages == 5

    run(scenario, delay=delay)


def test_lost_acknowledgement_is_no_conflict():
    async def scenario(server, here, there):
        server.lose_acknowledgements(2)
        assert await here.append("log", "a.b", b"", expected_last=0) == 1
        assert await here.append("log", "a.b", b"", expected_last=1) == 2

    run(scenario)


def test_redelivered_messages_are_counted_and_dropped():
    async def scenario(server, here, there):
        mine, theirs = await here.read("log", first=1), await there.read("log", first=1)
        for _ in range(3):
            await here.append("log", "a.b", b"")
        assert [(await reader.next()).offset for reader in (mine, mine, theirs)] == [1, 2, 1]
        server.redeliver(2, here)
        assert [(await reader.next()).offset for reader in (mine, theirs)] == [3, 2]
        assert (mine.duplicates, theirs.duplicates) == (2, 0)
        server.redeliver(10)
        assert await mine.next(0) is None
        assert (await theirs.next()).offset == 3
        assert (mine.duplicates, theirs.duplicates) == (5, 2)

    run(scenario)


def test_messages_expire_by_the_clock():
    clock = VirtualClock(100.0)

    async def scenario(server, here, there):
        await here.ensure_log("short", ["s"], Retention(max_age=10))
        for _ in range(3):
            await here.append("short", "s", b"12345")
            clock.advance(4)
        assert tuple(await here.span("short"))[:4] == (2, 3, 2, 12)
        clock.advance(100)
        assert tuple(await here.span("short"))[:4] == (4, 3, 0, 0)
        assert await here.offset_at("short", 0.0) == 4
        assert await here.last("short", "s") is None
        assert await here.append("short", "s", b"") == 4

    run(scenario, clock=clock)


def test_clock_set_back_keeps_times_in_order():
    class Clock:
        time = 0.0

        def now(self):
            return self.time

    clock = Clock()

    async def scenario(server, here, there):
        for clock.time in (5.0, 3.0, 7.0):
            await here.append("log", "a.b", b"")
        reader = await here.read("log", first=1)
        assert [(await reader.next()).time for _ in range(3)] == [5.0, 5.0, 7.0]
        assert [await here.offset_at("log", time) for time in (4, 5, 6, 8)] == [1, 1, 3, 4]

    run(scenario, clock=clock)


def test_log_is_bounded_by_its_size(monkeypatch):
    monkeypatch.setattr("thinwire.brokers.memory.server.DEFAULT_LOG_BYTES", 40)

    async def scenario(server, here, there):
        await here.ensure_log("small", ["s"], Retention(max_bytes=30))
        for _ in range(10):
            await here.append("small", "s", b"123456789")
            await here.append("log", "a.b", b"1234567")
        assert tuple(await here.span("small"))[:4] == (8, 10, 3, 30)
        assert tuple(await here.span("log"))[:4] == (7, 10, 4, 40)

    run(scenario)


def test_invalid_input_is_named():
    async def scenario(server, here, there):
        with pytest.raises(BadSubject, match="the log does not store this subject"):
            await here.append("log", "elsewhere", b"")
        with pytest.raises(BadSubject):
            await here.append("log", "a.*", b"")
        with pytest.raises(BadSubject):
            await here.read("log", subjects=["a..b"])
        with pytest.raises(TransportError, match="a payload is bytes"):
            await here.append("log", "a.b", "text")
        with pytest.raises(ConfigError, match="max_unacknowledged=0"):
            await here.read("log", max_unacknowledged=0)
        with pytest.raises(PayloadTooLarge, match="size=11, limit=10"):
            await (await here.bucket("b")).put("key", bytes(11))
        assert (await here.span("log")).messages == 0

    run(scenario, max_payload=10)
    with pytest.raises(ConfigError, match="max_payload=0"):
        LocalServer(max_payload=0)


def test_deleted_log_fails_its_readers():
    async def scenario(server, here, there):
        reader = await there.read("log")
        waiting = asyncio.create_task(reader.next())
        await asyncio.sleep(0)
        await here.delete_log("log")
        with pytest.raises(UnknownLog):
            await waiting

    run(scenario)


def test_disconnected_client_waits_and_reconnects():
    async def scenario(server, here, there):
        server.cut(here)
        assert (here.connected, there.connected) == (False, True)
        with pytest.raises(BrokerUnavailable, match=r"timeout=0\.01"):
            await here.append("log", "a.b", b"", timeout=0.01)
        here.connection.timeout = 0.01
        with pytest.raises(BrokerUnavailable):
            await here.span("log")
        waiting = asyncio.create_task(here.append("log", "a.b", b"", timeout=10))
        await asyncio.sleep(0.01)
        server.restore()
        assert await waiting == 1

    run(scenario)


def test_client_of_a_stopped_server_waits():
    async def scenario(server, here, there):
        server.stop()
        async with LocalBroker(server) as late:
            waiting = asyncio.create_task(late.append("log", "a.b", b""))
            await asyncio.sleep(0.01)
            assert not waiting.done()
            server.start()
            assert await waiting == 1

    run(scenario)


def test_slow_response_times_out():
    async def scenario(server, here, there):
        here.connection.delay, here.connection.timeout = 1.0, 0.01
        with pytest.raises(BrokerUnavailable):
            await here.span("log")

    run(scenario)


def test_failing_handler_is_logged_and_continues(caplog):
    async def scenario(server, here, there):
        async def handler(subject, payload):
            if payload == b"fail":
                raise ValueError(payload)
            return payload

        await there.listen("q", handler)
        with pytest.raises(ServiceUnavailable):
            await here.request("q", b"fail", timeout=0.05)
        assert await here.request("q", b"fine") == b"fine"

    run(scenario)
    assert "handler of q failed" in caplog.text


def test_lagging_watch_receives_the_newest():
    async def scenario(server, here, there):
        bucket = await here.bucket("b")
        watching = bucket.watch()
        assert await anext(watching) is None
        for value in (b"1", b"2", b"3"):
            await bucket.put("key", value)
        assert (await anext(watching)).value == b"3"
        await watching.aclose()
        assert not server.buckets["b"].watchers

    run(scenario)


def test_interrupted_response_is_requested_again():
    async def scenario(server, here, there):
        appending = asyncio.create_task(here.append("log", "a.b", b"", timeout=10))
        while not server.logs["log"].span().messages:
            await asyncio.sleep(0.001)
        server.cut(here)
        await asyncio.sleep(0.05)
        assert not appending.done()
        server.restore(here)
        assert await appending == 1
        assert server.logs["log"].span().messages == 1

    run(scenario, delay=0.02)


def test_disconnected_client_receives_nothing():
    async def scenario(server, here, there):
        bucket, reader = await here.bucket("b"), await here.read("log")
        watching, received = bucket.watch(), []
        assert await anext(watching) is None
        await here.listen("q", lambda subject, payload: received.append(payload))
        server.cut(here)
        await there.append("log", "a.b", b"")
        await (await there.bucket("b")).put("key", b"")
        await there.send("q", b"")
        assert await reader.next(0.01) is None
        change = asyncio.ensure_future(anext(watching))
        await asyncio.wait([change], timeout=0.01)
        assert not change.done()
        server.restore(here)
        assert (await reader.next()).offset == 1
        assert (await change).key == "key"
        assert received == []
        await watching.aclose()

    run(scenario)


def test_name_identifies_one_server_until_the_last_client_closes():
    async def scenario():
        first = LocalBroker(LocalServer.named("here"))
        second = LocalBroker(LocalServer.named("here"))
        assert first.server is second.server
        assert first.server is not LocalServer.named("there")
        assert first.url == "memory://here"
        await first.close()
        assert LocalServer.named("here") is second.server
        await second.close()
        assert LocalServer.named("here") is not second.server

    asyncio.run(scenario())
    asyncio.run(scenario())


def test_unclosed_server_ends_with_its_loop():
    async def scenario():
        server = LocalServer.named("left behind")
        LocalBroker(server)
        return server

    assert asyncio.run(scenario()) is not asyncio.run(scenario())


def test_server_serves_one_loop_at_a_time():
    server = LocalServer()

    async def write():
        async with LocalBroker(server) as broker:
            await broker.ensure_log("log", ["a"])
            return await broker.append("log", "a", b"")

    async def never_leave():
        LocalBroker(server)

    assert [asyncio.run(write()), asyncio.run(write())] == [1, 2]
    asyncio.run(never_leave())
    with pytest.raises(TransportError, match="one event loop"):
        asyncio.run(write())


def test_nothing_is_left_after_closing():
    async def scenario(server, here, there):
        reader = await there.read("log")
        await there.listen("q", None)
        watching = (await there.bucket("b")).watch()
        await anext(watching)
        await there.close()
        assert await anext(watching, "ended") == "ended"
        with pytest.raises(TransportClosed):
            await reader.next()
        assert server.clients == [here]
        assert server.listeners == []
        assert not any((server.logs["log"].watchers, server.buckets["b"].watchers, there.connection.watchers))
        assert len(asyncio.all_tasks()) <= 2

    run(scenario)


def test_recreated_log_has_another_identity():
    async def scenario(server, here, there):
        reader = await there.read("log", first=1)
        before = (await here.span("log")).log_id
        assert reader.log_id == before != ""
        await here.delete_log("log")
        await here.ensure_log("log", ["a.>"])
        await here.append("log", "a.b", b"")
        assert (await here.span("log")).log_id != before
        with pytest.raises(UnknownLog):
            await reader.next()

    run(scenario)


def test_the_order_of_wake_ups_is_the_order_of_registration():
    """Reproducible runs need it: futures and wake-ups in sets are ordered by address."""

    async def scenario(server, here, there):
        order = []

        async def read(number, reader):
            await reader.next()
            order.append(number)

        readers = [await there.read("log", first=1) for _ in range(50)]
        tasks = [asyncio.create_task(read(number, reader)) for number, reader in enumerate(readers)]
        await asyncio.sleep(0.01)
        await here.append("log", "a.b", b"")
        await asyncio.gather(*tasks)
        assert order == list(range(50))

    run(scenario)
