"""The broker in memory: what is its own beside the promises that every broker keeps."""

import asyncio

import pytest

from thinwire.brokers.memory import LocalBroker, LocalServer
from thinwire.brokers.protocol import Broker, Retention
from thinwire.clock import VirtualClock
from thinwire.errors import (
    BadSubject,
    BrokerUnavailable,
    ConfigError,
    NobodyAnswers,
    PayloadTooLarge,
    TransportClosed,
    TransportError,
    UnknownLog,
)


def run(story, **settings):
    """Tell a story about a server and two of its clients."""

    async def told():
        server = LocalServer(**settings)
        async with LocalBroker(server) as here, LocalBroker(server) as there:
            await here.open_log("log", ["a.>"])
            await asyncio.wait_for(story(server, here, there), 20)

    asyncio.run(told())


def test_it_is_a_broker():
    async def story(server, here, there):
        broker: Broker = here
        assert broker.url == "memory://"
        assert broker.capabilities.gapless
        assert broker.capabilities.max_payload == 1 << 20

    run(story)


@pytest.mark.parametrize("lost", [1, 3])
@pytest.mark.parametrize("delay", [0, 0.0005])
def test_a_lost_acknowledgement_is_found_out(lost, delay):
    async def story(server, here, there):
        server.lose_acknowledgements(lost)
        assert [await here.append("log", "a.b", b"%d" % number) for number in range(5)] == [1, 2, 3, 4, 5]
        assert (await there.span("log")).messages == 5

    run(story, delay=delay)


def test_a_lost_acknowledgement_is_no_conflict():
    async def story(server, here, there):
        server.lose_acknowledgements(2)
        assert await here.append("log", "a.b", b"", after=0) == 1
        assert await here.append("log", "a.b", b"", after=1) == 2

    run(story)


def test_redelivered_messages_are_counted_and_dropped():
    async def story(server, here, there):
        mine, theirs = await here.read("log", first=1), await there.read("log", first=1)
        for _ in range(3):
            await here.append("log", "a.b", b"")
        assert [(await reader.next()).offset for reader in (mine, mine, theirs)] == [1, 2, 1]
        server.redeliver(2, here)
        assert [(await reader.next()).offset for reader in (mine, theirs)] == [3, 2]
        assert (mine.dropped, theirs.dropped) == (2, 0)
        server.redeliver(10)
        assert await mine.next(0) is None
        assert (await theirs.next()).offset == 3
        assert (mine.dropped, theirs.dropped) == (5, 2)

    run(story)


def test_messages_grow_old_by_the_clock():
    clock = VirtualClock(100.0)

    async def story(server, here, there):
        await here.open_log("short", ["s"], Retention(seconds=10))
        for _ in range(3):
            await here.append("short", "s", b"12345")
            clock.advance(4)
        assert tuple(await here.span("short"))[:4] == (2, 3, 2, 12)
        clock.advance(100)
        assert tuple(await here.span("short"))[:4] == (4, 3, 0, 0)
        assert await here.offset_at("short", 0.0) == 4
        assert await here.last("short", "s") is None
        assert await here.append("short", "s", b"") == 4

    run(story, clock=clock)


def test_a_clock_that_is_set_back_leaves_times_in_order():
    class Clock:
        time = 0.0

        def now(self):
            return self.time

    clock = Clock()

    async def story(server, here, there):
        for clock.time in (5.0, 3.0, 7.0):
            await here.append("log", "a.b", b"")
        reader = await here.read("log", first=1)
        assert [(await reader.next()).time for _ in range(3)] == [5.0, 5.0, 7.0]
        assert [await here.offset_at("log", time) for time in (4, 5, 6, 8)] == [1, 1, 3, 4]

    run(story, clock=clock)


def test_a_log_is_bounded_by_its_size():
    async def story(server, here, there):
        await here.open_log("small", ["s"], Retention(size=30))
        for _ in range(10):
            await here.append("small", "s", b"123456789")
            await here.append("log", "a.b", b"1234567")
        assert tuple(await here.span("small"))[:4] == (8, 10, 3, 30)
        assert tuple(await here.span("log"))[:4] == (7, 10, 4, 40)

    run(story, log_size=40)


def test_bad_input_is_refused_and_named():
    async def story(server, here, there):
        with pytest.raises(BadSubject, match="not one that this log keeps"):
            await here.append("log", "elsewhere", b"")
        with pytest.raises(BadSubject):
            await here.append("log", "a.*", b"")
        with pytest.raises(BadSubject):
            await here.read("log", subjects=["a..b"])
        with pytest.raises(TransportError, match="a payload is bytes"):
            await here.append("log", "a.b", "text")
        with pytest.raises(ConfigError, match="limit=0"):
            await here.read("log", limit=0)
        with pytest.raises(PayloadTooLarge, match="size=11, limit=10"):
            await (await here.bucket("b")).put("key", bytes(11))
        assert (await here.span("log")).messages == 0

    run(story, max_payload=10)
    with pytest.raises(ConfigError, match="max_payload=0"):
        LocalServer(max_payload=0)


def test_a_deleted_log_is_told_to_its_readers():
    async def story(server, here, there):
        reader = await there.read("log")
        waiting = asyncio.create_task(reader.next())
        await asyncio.sleep(0)
        await here.delete_log("log")
        with pytest.raises(UnknownLog):
            await waiting

    run(story)


def test_a_client_that_is_cut_off_waits_and_comes_back():
    async def story(server, here, there):
        server.cut(here)
        assert (here.connected, there.connected) == (False, True)
        with pytest.raises(BrokerUnavailable, match=r"timeout=0\.01"):
            await here.append("log", "a.b", b"", timeout=0.01)
        here.line.timeout = 0.01
        with pytest.raises(BrokerUnavailable):
            await here.span("log")
        waiting = asyncio.create_task(here.append("log", "a.b", b"", timeout=10))
        await asyncio.sleep(0.01)
        server.restore()
        assert await waiting == 1

    run(story)


def test_who_comes_while_the_server_is_stopped_waits_too():
    async def story(server, here, there):
        server.stop()
        async with LocalBroker(server) as late:
            waiting = asyncio.create_task(late.append("log", "a.b", b""))
            await asyncio.sleep(0.01)
            assert not waiting.done()
            server.start()
            assert await waiting == 1

    run(story)


def test_an_answer_that_is_slower_than_the_timeout_counts_as_none():
    async def story(server, here, there):
        here.line.delay, here.line.timeout = 1.0, 0.01
        with pytest.raises(BrokerUnavailable):
            await here.span("log")

    run(story)


def test_a_handler_that_fails_is_logged_and_hears_on(caplog):
    async def story(server, here, there):
        async def handler(subject, payload):
            if payload == b"fail":
                raise ValueError(payload)
            return payload

        await there.listen("q", handler)
        with pytest.raises(NobodyAnswers):
            await here.request("q", b"fail", timeout=0.05)
        assert await here.request("q", b"fine") == b"fine"

    run(story)
    assert "listener on q failed" in caplog.text


def test_a_watch_that_lags_is_told_the_newest():
    async def story(server, here, there):
        bucket = await here.bucket("b")
        watching = bucket.watch()
        assert await anext(watching) is None
        for value in (b"1", b"2", b"3"):
            await bucket.put("key", value)
        assert (await anext(watching)).value == b"3"
        await watching.aclose()
        assert server.buckets["b"].listeners == set()

    run(story)


def test_an_answer_that_was_on_a_broken_line_is_asked_for_again():
    async def story(server, here, there):
        appending = asyncio.create_task(here.append("log", "a.b", b"", timeout=10))
        while not server.logs["log"].span().messages:
            await asyncio.sleep(0.001)
        server.cut(here)
        await asyncio.sleep(0.05)
        assert not appending.done()
        server.restore(here)
        assert await appending == 1
        assert server.logs["log"].span().messages == 1

    run(story, delay=0.02)


def test_nothing_is_heard_while_cut_off():
    async def story(server, here, there):
        bucket, reader = await here.bucket("b"), await here.read("log")
        watching, heard = bucket.watch(), []
        assert await anext(watching) is None
        await here.listen("q", lambda subject, payload: heard.append(payload))
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
        assert heard == []
        await watching.aclose()

    run(story)


def test_names_lead_to_one_server_until_the_last_client_leaves():
    async def story():
        first = LocalBroker(LocalServer.named("here"))
        second = LocalBroker(LocalServer.named("here"))
        assert first.server is second.server
        assert first.server is not LocalServer.named("there")
        assert first.url == "memory://here"
        await first.close()
        assert LocalServer.named("here") is second.server
        await second.close()
        assert LocalServer.named("here") is not second.server

    asyncio.run(story())
    asyncio.run(story())


def test_a_server_that_was_never_left_does_not_outlive_its_loop():
    async def story():
        server = LocalServer.named("left behind")
        LocalBroker(server)
        return server

    assert asyncio.run(story()) is not asyncio.run(story())


def test_a_server_serves_one_loop_at_a_time():
    server = LocalServer()

    async def write():
        async with LocalBroker(server) as broker:
            await broker.open_log("log", ["a"])
            return await broker.append("log", "a", b"")

    async def never_leave():
        LocalBroker(server)

    assert [asyncio.run(write()), asyncio.run(write())] == [1, 2]
    asyncio.run(never_leave())
    with pytest.raises(TransportError, match="one event loop"):
        asyncio.run(write())


def test_nothing_is_left_after_closing():
    async def story(server, here, there):
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
        assert server.logs["log"].listeners == server.buckets["b"].listeners == there.line.bells == set()
        assert len(asyncio.all_tasks()) <= 2

    run(story)
