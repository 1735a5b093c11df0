"""Reading logs: order, flow control, retention; and queries compared with a list."""

from __future__ import annotations

import asyncio

import numpy as np

from broker_checks.check_site import Site, ensure_log, fresh, raises, take, write
from thinwire.brokers.protocol import Broker, Retention, StoredMessage
from thinwire.brokers.subjects import matches
from thinwire.errors import PayloadTooLarge, UnknownLog


async def check_order(site: Site) -> None:
    """Concurrent writers: one numbering that keeps the order of each writer and is the same for every reader."""
    async with site.client() as first, site.client() as second, site.client() as other:
        log = await ensure_log(first)
        everything = await other.read(log, first=1)
        part = await other.read(log, first=1, subjects=[f"{log}.b.*"])
        scripts = [[f"{name}.{number}" for number in range(25)] for name in "abc"]
        writers = zip((first, second, second), scripts, strict=True)
        offsets = await asyncio.gather(*(write(broker, log, script) for broker, script in writers))
        messages = await take(everything, 75)
        assert [message.offset for message in messages] == list(range(1, 76))
        by_offset = {message.offset: message.payload.decode() for message in messages}
        assert [[by_offset[offset] for offset in own] for own in offsets] == scripts
        assert all(own == sorted(own) for own in offsets)
        assert all(message.subject == f"{log}.{message.payload.decode()}" for message in messages)
        assert [message.offset for message in await take(part, 25)] == offsets[1]
        late = await other.read(log, first=40)
        assert await take(late, 36) == messages[39:]


async def check_start(site: Site) -> None:
    """Without an offset reading starts with new messages; with one beyond the end, when it is reached."""
    async with site.client() as broker:
        log = await ensure_log(broker)
        await write(broker, log, ["before"])
        live, ahead = await broker.read(log), await broker.read(log, first=4)
        assert await live.next(timeout=0.05) is None
        await write(broker, log, ["two", "three", "four"])
        assert [message.payload for message in await take(live, 3)] == [b"two", b"three", b"four"]
        assert [message.offset for message in await take(ahead, 1)] == [4]
        await live.close()
        await ahead.close()


async def check_redelivery(site: Site) -> None:
    """Redelivered messages are dropped by their offset."""
    async with site.client() as broker:
        log = await ensure_log(broker)
        await write(broker, log, [f"w{number}" for number in range(30)])
        reader = await broker.read(log, first=1, max_unacknowledged=10)
        offsets = []
        for number in (1, 4, 5, 20):
            offsets += [message.offset for message in await take(reader, number)]
            await site.redeliver(broker)
        await write(broker, log, ["last"])
        offsets += [message.offset for message in await take(reader, 1)]
        assert offsets == list(range(1, 32))
        assert await reader.next(timeout=0.05) is None


async def check_slow_reader(site: Site) -> None:
    """Without `done` a reader receives `limit` messages; afterwards it receives the rest."""
    async with site.client() as broker:
        log = await ensure_log(broker)
        reader, quick = (
            await broker.read(log, first=1, max_unacknowledged=8),
            await broker.read(log, first=1, max_unacknowledged=300),
        )
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
    """A payload of exactly the limit is stored; one byte more is refused by the client."""
    async with site.client() as broker:
        log = await ensure_log(broker)
        limit = broker.max_payload
        largest = bytes(range(256)) * (limit // 256) + bytes(limit % 256)
        assert await broker.append(log, f"{log}.a", largest) == 1
        await raises(PayloadTooLarge, broker.append(log, f"{log}.a", largest + b"!"))
        await raises(PayloadTooLarge, broker.send("unused", largest + b"!"))
        assert await broker.append(log, f"{log}.a", largest, expected_last=1, last_pattern=f"{log}.*") == 2
        assert await broker.append(log, f"{log}.a", b"") == 3
        reader = await broker.read(log, first=1)
        assert [message.payload for message in await take(reader, 3)] == [largest, largest, b""]


async def check_retention(site: Site) -> None:
    """The oldest messages are removed first. A reader of a removed offset starts at the first retained one."""
    async with site.client() as broker:
        log = await ensure_log(broker, Retention(max_messages=5))
        await write(broker, log, [f"w{number}" for number in range(12)])
        assert (await broker.span(log))[:3] == (8, 12, 5)
        reader = await broker.read(log, first=2)
        assert [message.offset for message in await take(reader, 5)] == [8, 9, 10, 11, 12]
        assert await broker.last(log, f"{log}.>", up_to=7) is None
        assert await broker.subjects(log) == {f"{log}.w{number}": 1 for number in range(7, 12)}


async def check_retained_while_reading(site: Site) -> None:
    """A reader whose next message was removed continues with the first retained one."""
    async with site.client() as broker:
        log = await ensure_log(broker, Retention(max_messages=10))
        reader = await broker.read(log, first=1, max_unacknowledged=2)
        await write(broker, log, [f"w{number}" for number in range(40)])
        offsets: list[int] = []
        while not offsets or offsets[-1] < 40:
            offsets += [message.offset for message in await take(reader, 1)]
        assert offsets == sorted(set(offsets))
        assert offsets[-9:] == list(range(32, 41))


async def check_logs(site: Site) -> None:
    """A log is created once, listed and deleted; a missing log raises `UnknownLog`."""
    async with site.client() as broker, site.client() as other:
        log = await ensure_log(broker)
        await write(broker, log, ["a"])
        await other.ensure_log(log, [f"{log}.>"])
        assert (await other.span(log)).messages == 1
        assert log in await other.logs()
        await other.delete_log(log)
        await other.delete_log(log)
        assert log not in await broker.logs()
        await raises(UnknownLog, broker.span(log))
        await raises(UnknownLog, broker.read(log))
        await raises(UnknownLog, broker.last(log, ">"))
        await raises(UnknownLog, broker.append(log, f"{log}.a", b"", timeout=2))


WORDS = ("p.d", "p.k", "q.d", "q.k", "p.x.d")
PATTERNS = ("p.d", "p.*", "*.k", ">", "p.>", "unused")


async def check_seeking(site: Site) -> None:
    """`last`, `offset_at`, `span` and `subjects` agree with a list, over random histories with and without a limit."""
    for seed, retained in ((1, None), (2, 7), (3, None)):
        chance = np.random.default_rng(seed)
        script = [WORDS[index] for index in chance.integers(len(WORDS), size=25)]
        async with site.client() as broker:
            await compare_history(broker, script, retained)


async def check_many_subjects(site: Site) -> None:
    """More subjects than a broker returns in one response."""
    async with site.client() as broker:
        log, number = fresh("log"), 1100
        await broker.ensure_log(log, [f"{log}.>"])
        subjects = [f"{log}.p{index}.k" for index in range(number)]
        offsets = await asyncio.gather(*(broker.append(log, subject, subject.encode()) for subject in subjects))
        assert sorted(offsets) == list(range(1, number + 1))
        assert await broker.subjects(log) == dict.fromkeys(subjects, 1)
        for offset in (1, 1050, number, number + 5):
            newest = await broker.last(log, f"{log}.*.k", up_to=offset)
            assert newest is not None
            assert newest.offset == min(offset, number)
        await broker.delete_log(log)


async def compare_history(broker: Broker, script: list[str], retained: int | None = None) -> None:
    """Write messages to a log that retains `retained` of them, and compare all queries with a list."""
    log = fresh("log")
    await broker.ensure_log(log, [f"{log}.>"], Retention(max_messages=retained))
    assert (await broker.span(log))[:3] == (1, 0, 0)
    assert await broker.offset_at(log, 0.0) == 1
    for number, word in enumerate(script):
        await broker.append(log, f"{log}.{word}", str(number).encode())
        if number % 8 == 0:
            await asyncio.sleep(0.002)  # so that times differ now and then
    messages = await take(await broker.read(log, first=1), min(len(script), retained or len(script)))
    await _check_span(broker, log, script, messages)
    for pattern in PATTERNS:
        await _check_pattern(broker, log, f"{log}.{pattern}", messages)
    for message in messages:
        for time in (message.time, message.time - 0.0005):
            expected = next((one.offset for one in messages if one.time >= time), messages[-1].offset + 1)
            assert await broker.offset_at(log, time) == expected, (time, message)
    assert await broker.offset_at(log, messages[-1].time + 1000 if messages else 0.0) == len(script) + 1
    await broker.delete_log(log)


async def _check_span(broker: Broker, log: str, script: list[str], messages: list[StoredMessage]) -> None:
    span = await broker.span(log)
    assert (span.last, span.messages) == (len(script), len(messages))
    assert span.first == (messages[0].offset if messages else 1)
    assert (span.stored_bytes > 0) == bool(messages)


async def _check_pattern(broker: Broker, log: str, pattern: str, messages: list[StoredMessage]) -> None:
    matching = [message for message in messages if matches(pattern, message.subject)]
    assert await broker.last(log, pattern) == (matching[-1] if matching else None)
    names = [message.subject for message in matching]
    assert await broker.subjects(log, pattern) == {name: names.count(name) for name in names}
    for offset in {0, 1, *(message.offset for message in messages[::3]), 10**6}:
        before = [message for message in matching if message.offset <= offset]
        assert await broker.last(log, pattern, up_to=offset) == (before[-1] if before else None), offset
