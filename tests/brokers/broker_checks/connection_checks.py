"""Lost connections and killed servers: no message lost or duplicated, and a clean close."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from broker_checks.check_site import Site, ensure_log, fresh, raises, take, write
from thinwire.brokers.protocol import NOTHING, Broker, LogReader
from thinwire.errors import BrokerUnavailable, Conflict, TransportClosed

INSTANTS = (0.0, 0.0004, 0.001, 0.0015, 0.002, 0.003)
"""seconds after the start of an append at which the connection is cut: before, during and after storing"""


async def check_cut_writer(site: Site) -> None:
    """An append whose connection is lost is stored once and returns its offset."""
    async with site.client() as writer, site.client() as other:
        log = await ensure_log(writer)
        offsets = []
        for instant in INSTANTS:
            appending = asyncio.create_task(writer.append(log, f"{log}.a", f"at {instant}".encode(), timeout=10))
            await asyncio.sleep(instant)
            async with site.interrupted(writer):
                offsets.append(await appending)
            offsets += await write(writer, log, ["between"])
        assert offsets == list(range(1, 2 * len(INSTANTS) + 1))
        messages = await take(await other.read(log, first=1), len(offsets))
        assert [message.payload for message in messages[::2]] == [f"at {instant}".encode() for instant in INSTANTS]
        assert (await other.span(log)).messages == len(offsets)


async def check_cut_writer_with_expected_offset(site: Site) -> None:
    """The same with an expected offset: the own message is no conflict, that of another client is."""
    async with site.client() as writer, site.client() as other:
        log = await ensure_log(writer)
        last = NOTHING
        for instant in INSTANTS:
            own = writer.append(log, f"{log}.a", b"", expected_last=last, last_pattern=f"{log}.*", timeout=10)
            appending = asyncio.create_task(own)
            await asyncio.sleep(instant)
            async with site.interrupted(writer):
                assert await appending == last + 1
            last += 1
        await write(other, log, ["b"])
        await raises(Conflict, writer.append(log, f"{log}.a", b"", expected_last=last, last_pattern=f"{log}.*"))
        assert (await other.span(log)).messages == last + 1


async def check_cut_reader(site: Site) -> None:
    """A reader whose connection is lost continues at its position, with the messages written meanwhile."""
    async with site.client() as writer, site.client() as other:
        log = await ensure_log(writer)
        reader = await other.read(log, first=1, max_unacknowledged=16)
        script = [f"w{number}" for number in range(60)]
        got = []
        for start in range(0, 60, 20):
            await write(writer, log, script[start : start + 10])
            got += await take(reader, 3)
            async with site.interrupted(other):
                await write(writer, log, script[start + 10 : start + 20])
                got += await take(reader, 14)
        got += await take(reader, 60 - len(got))
        assert [message.offset for message in got] == list(range(1, 61))
        assert [message.payload.decode() for message in got] == script


async def check_killed_server(site: Site) -> None:
    """Messages that were acknowledged before the server was killed are stored, and all clients reconnect."""
    async with site.client() as writer, site.client() as other:
        log = await ensure_log(writer)
        bucket = await writer.bucket(f"{log}-documents")
        reader = await other.read(log, first=1, max_unacknowledged=64)
        offsets = await write(writer, log, [f"before{number}" for number in range(20)])
        revision = await bucket.put("key", b"before")
        got = await take(reader, 5)
        async with _stopped(site):
            appending = asyncio.create_task(write(writer, log, ["during"]))
            await asyncio.sleep(0.05)
        offsets += await appending
        offsets += await write(writer, log, [f"after{number}" for number in range(20)])
        got += await take(reader, 36)
        assert [message.offset for message in got] == offsets == list(range(1, 42))
        assert await bucket.put("key", b"after", revision=revision) > revision
        await _check_alive(writer, reader, log)


async def check_unavailable(site: Site) -> None:
    """During an outage calls wait until their timeout and raise; afterwards they work again."""
    async with site.client() as broker:
        log = await ensure_log(broker)
        reader = await broker.read(log, first=1)
        async with _stopped(site):
            await raises(BrokerUnavailable, broker.append(log, f"{log}.a", b"lost", timeout=0.3))
            await raises(BrokerUnavailable, broker.request("unused", b"", timeout=0.3))
            assert not broker.connected
            assert await reader.next(timeout=0.1) is None
        await _check_alive(broker, reader, log)
        assert broker.connected


async def _check_alive(broker: Broker, reader: LogReader, log: str) -> None:
    """Messages that are written now are read; an append that timed out may precede them."""
    (offset,) = await write(broker, log, ["alive"])
    while (await take(reader, 1))[0].offset < offset:
        pass


@asynccontextmanager
async def _stopped(site: Site) -> AsyncIterator[None]:
    await site.stop()
    try:
        yield
    finally:
        await site.start()


async def check_close(site: Site) -> None:
    """After close no task is left, and every call raises `TransportClosed`."""
    before = asyncio.all_tasks()
    broker = await site.connect()
    log = await ensure_log(broker)
    bucket = await broker.bucket(fresh("bucket"))
    reader, watching = await broker.read(log, first=1), bucket.watch()
    await broker.listen(fresh("words"), _deaf)
    silent = fresh("words")
    await broker.listen(silent, _deaf)
    assert await anext(watching) is None
    await write(broker, log, ["a", "b"])
    await reader.next(timeout=10)
    idle = await broker.read(log)
    waiting = [asyncio.create_task(idle.next()), asyncio.create_task(broker.request(silent, b"", timeout=60))]
    await asyncio.sleep(0.05)
    await broker.close()
    await broker.close()
    assert not broker.connected
    async with asyncio.timeout(10):
        assert [type(one) for one in await asyncio.gather(*waiting, return_exceptions=True)] == [TransportClosed] * 2
        assert await anext(watching, "ended") == "ended"
    await site.disconnected(broker)
    assert asyncio.all_tasks() <= before
    for call in (
        broker.append(log, f"{log}.a", b""),
        broker.read(log),
        broker.span(log),
        broker.logs(),
        broker.send("a", b""),
        broker.request("a", b""),
        broker.bucket("a"),
        bucket.get("a"),
        bucket.put("a", b""),
        reader.next(),
    ):
        await raises(TransportClosed, call)


async def check_close_after_cuts(site: Site) -> None:
    """A connection that was cut again while reconnecting leaves no task behind."""
    before = asyncio.all_tasks()
    broker = await site.connect()
    log = await ensure_log(broker)
    for pause in (0.0, 0.001, 0.003, 0.005, 0.008):
        async with site.interrupted(broker, 0.0):
            await write(broker, log, ["a"])
        await asyncio.sleep(pause)
    await broker.close()
    await site.disconnected(broker)
    assert asyncio.all_tasks() <= before


async def check_close_while_cut(site: Site) -> None:
    """A disconnected client can be closed."""
    before = asyncio.all_tasks()
    broker = await site.connect()
    log = await ensure_log(broker)
    await broker.read(log)
    await site.cut(broker)
    waiting = asyncio.create_task(broker.append(log, f"{log}.a", b"", timeout=60))
    await asyncio.sleep(0.05)
    await broker.close()
    async with asyncio.timeout(10):
        await raises(TransportClosed, waiting)
    await site.restore(broker)
    await site.disconnected(broker)
    assert asyncio.all_tasks() <= before


async def _deaf(subject: str, payload: bytes) -> None:
    return None
