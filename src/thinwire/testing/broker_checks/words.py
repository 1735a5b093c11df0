"""Words that are not stored, their answers, and leaving in good order."""

from __future__ import annotations

import asyncio

from thinwire.errors import NobodyAnswers, TransportClosed
from thinwire.testing.broker_checks.site import Site, fresh, open_log, raises, write


async def check_words(site: Site) -> None:
    """Whoever listens hears what matches, in order; who does not listen any more does not."""
    async with site.client() as broker, site.client() as other:
        name, heard, enough = fresh("words"), [], asyncio.Event()

        async def hear(subject: str, payload: bytes) -> None:
            heard.append((subject, payload))
            if payload == b"enough":
                enough.set()

        listener = await other.listen(f"{name}.*", hear)
        for payload in (b"1", b"2"):
            await broker.send(f"{name}.a", payload)
        await broker.send(name, b"not for this pattern")
        await broker.send(f"{name}.b", b"enough")
        async with asyncio.timeout(10):
            await enough.wait()
        assert heard == [(f"{name}.a", b"1"), (f"{name}.a", b"2"), (f"{name}.b", b"enough")]
        await listener.close()
        await raises(NobodyAnswers, broker.request(f"{name}.a", b"too late", timeout=1))
        assert len(heard) == 3


async def check_answers(site: Site) -> None:
    """Who asks gets the first answer; a handler that fails or keeps silent hurts nobody else."""
    async with site.client() as broker, site.client() as other:
        name = fresh("words")

        async def answer(subject: str, payload: bytes) -> bytes | None:
            if payload == b"silence":
                return None
            return subject.encode() + b" " + payload

        await other.listen(f"{name}.*", answer)
        questions = [broker.request(f"{name}.{number}", b"?", timeout=10) for number in range(20)]
        assert await asyncio.gather(*questions) == [f"{name}.{number} ?".encode() for number in range(20)]
        await raises(NobodyAnswers, broker.request(f"{name}.a", b"silence", timeout=0.1))
        assert await broker.request(f"{name}.a", b"still there", timeout=10) == f"{name}.a still there".encode()


async def check_listening_again(site: Site) -> None:
    """A listener whose connection breaks hears again when it is back; in between nobody answers."""
    async with site.client() as broker, site.client() as other:
        name = fresh("words")

        async def answer(subject: str, payload: bytes) -> bytes:
            return payload

        await other.listen(name, answer)
        async with site.interrupted(other):
            pass
        async with asyncio.timeout(10):
            while True:
                try:
                    assert await broker.request(name, b"back", timeout=1) == b"back"
                    break
                except NobodyAnswers:
                    await asyncio.sleep(0.01)


async def check_handlers_that_leave(site: Site) -> None:
    """A handler may end its own listener; nobody hears words after that."""
    async with site.client() as broker, site.client() as other:
        name, left = fresh("words"), asyncio.Event()

        async def leave(subject: str, payload: bytes) -> None:
            await listener.close()
            left.set()

        listener = await other.listen(name, leave)
        await broker.send(name, b"")
        async with asyncio.timeout(10):
            await left.wait()
        await raises(NobodyAnswers, broker.request(name, b"", timeout=1))


async def check_nobody(site: Site) -> None:
    """Without a listener a request fails at once: it would be waited for longer than a check may take."""
    async with site.client() as broker:
        await raises(NobodyAnswers, broker.request(fresh("words"), b"", timeout=600))


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
