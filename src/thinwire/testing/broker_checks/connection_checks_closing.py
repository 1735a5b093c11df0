"""Leaving in good order, whatever was going on."""

from __future__ import annotations

import asyncio

from thinwire.errors import TransportClosed
from thinwire.testing.broker_checks.check_site import Site, fresh, open_log, raises, write


async def check_close(site: Site) -> None:
    """After leaving no task is left, whatever was going on, and every call says that it is too late."""
    before = asyncio.all_tasks()
    broker = await site.connect()
    log = await open_log(broker)
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
    """A connection that was cut again while it was coming back leaves nothing behind either."""
    before = asyncio.all_tasks()
    broker = await site.connect()
    log = await open_log(broker)
    for pause in (0.0, 0.001, 0.003, 0.005, 0.008):
        async with site.interrupted(broker, 0.0):
            await write(broker, log, ["a"])
        await asyncio.sleep(pause)
    await broker.close()
    assert asyncio.all_tasks() <= before


async def check_close_while_cut(site: Site) -> None:
    """A client that is cut off can leave."""
    before = asyncio.all_tasks()
    broker = await site.connect()
    log = await open_log(broker)
    await broker.read(log)
    await site.cut(broker)
    waiting = asyncio.create_task(broker.append(log, f"{log}.a", b"", timeout=60))
    await asyncio.sleep(0.05)
    await broker.close()
    async with asyncio.timeout(10):
        await raises(TransportClosed, waiting)
    await site.restore(broker)
    assert asyncio.all_tasks() <= before


async def _deaf(subject: str, payload: bytes) -> None:
    return None
