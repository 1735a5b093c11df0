"""Words that are not stored, and their answers."""

from __future__ import annotations

import asyncio

from thinwire.errors import NobodyAnswers
from thinwire.testing.broker_checks.check_site import Site, fresh, raises


async def check_listeners(site: Site) -> None:
    """Whoever listens hears what matches, in order; who does not listen any more does not."""
    async with site.client() as broker, site.client() as other:
        name, heard, enough = fresh("words"), [], asyncio.Event()

        async def on_message(subject: str, payload: bytes) -> None:
            heard.append((subject, payload))
            if payload == b"enough":
                enough.set()

        listener = await other.listen(f"{name}.*", on_message)
        for payload in (b"1", b"2"):
            await broker.send(f"{name}.a", payload)
        await broker.send(name, b"not for this pattern")
        await broker.send(f"{name}.b", b"enough")
        async with asyncio.timeout(10):
            await enough.wait()
        assert heard == [(f"{name}.a", b"1"), (f"{name}.a", b"2"), (f"{name}.b", b"enough")]
        await listener.close()
        await raises(NobodyAnswers, broker.request(f"{name}.a", b"too late", timeout=60))
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
        await raises(NobodyAnswers, broker.request(name, b"", timeout=60))


async def check_nobody(site: Site) -> None:
    """Without a listener a request fails at once: it would be waited for longer than a check may take."""
    async with site.client() as broker:
        await raises(NobodyAnswers, broker.request(fresh("words"), b"", timeout=600))
