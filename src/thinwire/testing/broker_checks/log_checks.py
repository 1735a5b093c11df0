"""Logs as they are read: in order, each message once, no faster than they are worked off."""

from __future__ import annotations

import asyncio

from thinwire.brokers.protocol_broker import Retention
from thinwire.errors import PayloadTooLarge, UnknownLog
from thinwire.testing.broker_checks.check_site import Site, open_log, raises, take, write


async def check_order(site: Site) -> None:
    """Writers under several subjects at once: one numbering, in it the order of each, the same for every reader."""
    async with site.client() as first, site.client() as second, site.client() as other:
        log = await open_log(first)
        whole = await other.read(log, first=1)
        part = await other.read(log, first=1, subjects=[f"{log}.b.*"])
        scripts = [[f"{name}.{number}" for number in range(25)] for name in "abc"]
        writers = zip((first, second, second), scripts, strict=True)
        offsets = await asyncio.gather(*(write(broker, log, script) for broker, script in writers))
        messages = await take(whole, 75)
        assert [message.offset for message in messages] == list(range(1, 76))
        by_offset = {message.offset: message.payload.decode() for message in messages}
        assert [[by_offset[offset] for offset in own] for own in offsets] == scripts
        assert all(own == sorted(own) for own in offsets)
        assert all(message.subject == f"{log}.{message.payload.decode()}" for message in messages)
        assert [message.offset for message in await take(part, 25)] == offsets[1]
        late = await other.read(log, first=40)
        assert await take(late, 36) == messages[39:]


async def check_start(site: Site) -> None:
    """Without an offset reading begins with what comes next, with one beyond the end when it is reached."""
    async with site.client() as broker:
        log = await open_log(broker)
        await write(broker, log, ["before"])
        live, ahead = await broker.read(log), await broker.read(log, first=4)
        assert await live.next(timeout=0.05) is None
        await write(broker, log, ["two", "three", "four"])
        assert [message.payload for message in await take(live, 3)] == [b"two", b"three", b"four"]
        assert [message.offset for message in await take(ahead, 1)] == [4]
        await live.close()
        await ahead.close()


async def check_redelivery(site: Site) -> None:
    """What the broker delivers again is dropped by its offset."""
    async with site.client() as broker:
        log = await open_log(broker)
        await write(broker, log, [f"w{number}" for number in range(30)])
        reader = await broker.read(log, first=1, limit=10)
        offsets = []
        for number in (1, 4, 5, 20):
            offsets += [message.offset for message in await take(reader, number)]
            await site.redeliver(broker)
        await write(broker, log, ["last"])
        offsets += [message.offset for message in await take(reader, 1)]
        assert offsets == list(range(1, 32))
        assert await reader.next(timeout=0.05) is None


async def check_slow_reader(site: Site) -> None:
    """A reader that does not say `done` is given `limit` messages and no more; in the end it has had everything."""
    async with site.client() as broker:
        log = await open_log(broker)
        reader, quick = await broker.read(log, first=1, limit=8), await broker.read(log, first=1, limit=300)
        await write(broker, log, [f"w{number}" for number in range(100)])
        held = [await reader.next(timeout=10) for _ in range(8)]
        assert await reader.next(timeout=0.1) is None
        assert len(await take(quick, 100)) == 100, "one reader must not hold up another"
        offsets = [message.offset for message in held if message is not None]
        reader.done(offsets[3])
        more = [await reader.next(timeout=10) for _ in range(4)]
        assert await reader.next(timeout=0.1) is None
        offsets += [message.offset for message in more if message is not None]
        reader.done(offsets[-1])
        offsets += [message.offset for message in await take(reader, 88)]
        assert offsets == list(range(1, 101))


async def check_payloads(site: Site) -> None:
    """A payload of exactly the limit passes unharmed, one byte more is refused here, and the next one passes."""
    async with site.client() as broker:
        log = await open_log(broker)
        limit = broker.capabilities.max_payload
        largest = bytes(range(256)) * (limit // 256) + bytes(limit % 256)
        assert await broker.append(log, f"{log}.a", largest) == 1
        await raises(PayloadTooLarge, broker.append(log, f"{log}.a", largest + b"!"))
        await raises(PayloadTooLarge, broker.send("nobody", largest + b"!"))
        assert await broker.append(log, f"{log}.a", largest, after=1, within=f"{log}.*") == 2
        assert await broker.append(log, f"{log}.a", b"") == 3
        reader = await broker.read(log, first=1)
        assert [message.payload for message in await take(reader, 3)] == [largest, largest, b""]


async def check_retention(site: Site) -> None:
    """The oldest go first; who asks for them gets the first there is, and sees it by the offset."""
    async with site.client() as broker:
        log = await open_log(broker, Retention(messages=5))
        await write(broker, log, [f"w{number}" for number in range(12)])
        assert (await broker.span(log))[:3] == (8, 12, 5)
        reader = await broker.read(log, first=2)
        assert [message.offset for message in await take(reader, 5)] == [8, 9, 10, 11, 12]
        assert await broker.last(log, f"{log}.>", up_to=7) is None
        assert await broker.subjects(log) == {f"{log}.w{number}": 1 for number in range(7, 12)}


async def check_retained_while_reading(site: Site) -> None:
    """A reader that is overtaken by the oldest message goes on with what is there."""
    async with site.client() as broker:
        log = await open_log(broker, Retention(messages=10))
        reader = await broker.read(log, first=1, limit=2)
        await write(broker, log, [f"w{number}" for number in range(40)])
        offsets: list[int] = []
        while not offsets or offsets[-1] < 40:
            offsets += [message.offset for message in await take(reader, 1)]
        assert offsets == sorted(set(offsets))
        assert offsets[-9:] == list(range(32, 41))


async def check_logs(site: Site) -> None:
    """A log is made once, listed, deleted once; one that is not there is unknown."""
    async with site.client() as broker, site.client() as other:
        log = await open_log(broker)
        await write(broker, log, ["a"])
        await other.open_log(log, [f"{log}.>"])
        assert (await other.span(log)).messages == 1
        assert log in await other.logs()
        await other.delete_log(log)
        await other.delete_log(log)
        assert log not in await broker.logs()
        await raises(UnknownLog, broker.span(log))
        await raises(UnknownLog, broker.read(log))
        await raises(UnknownLog, broker.last(log, ">"))
        await raises(UnknownLog, broker.append(log, f"{log}.a", b"", timeout=2))
