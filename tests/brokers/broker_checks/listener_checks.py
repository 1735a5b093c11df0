"""Unstored messages and requests."""

from __future__ import annotations

import asyncio

from broker_checks.check_site import Site, fresh, raises
from thinwire.errors import ServiceUnavailable


async def check_listeners(site: Site) -> None:
    """A listener receives matching messages in order, until it is closed."""
    async with site.client() as broker, site.client() as other:
        name, received, enough = fresh("words"), [], asyncio.Event()

        async def on_message(subject: str, payload: bytes) -> None:
            received.append((subject, payload))
            if payload == b"enough":
                enough.set()

        listener = await other.listen(f"{name}.*", on_message)
        for payload in (b"1", b"2"):
            await broker.send(f"{name}.a", payload)
        await broker.send(name, b"not for this pattern")
        await broker.send(f"{name}.b", b"enough")
        async with asyncio.timeout(10):
            await enough.wait()
        assert received == [(f"{name}.a", b"1"), (f"{name}.a", b"2"), (f"{name}.b", b"enough")]
        await listener.close()
        await raises(ServiceUnavailable, broker.request(f"{name}.a", b"too late", timeout=60))
        assert len(received) == 3


async def check_requests(site: Site) -> None:
    """A request returns the first reply; a handler that fails or does not reply affects no other."""
    async with site.client() as broker, site.client() as other:
        name = fresh("words")

        async def answer(subject: str, payload: bytes) -> bytes | None:
            if payload == b"silence":
                return None
            return subject.encode() + b" " + payload

        await other.listen(f"{name}.*", answer)
        questions = [broker.request(f"{name}.{number}", b"?", timeout=10) for number in range(20)]
        assert await asyncio.gather(*questions) == [f"{name}.{number} ?".encode() for number in range(20)]
        await raises(ServiceUnavailable, broker.request(f"{name}.a", b"silence", timeout=0.1))
        assert await broker.request(f"{name}.a", b"still there", timeout=10) == f"{name}.a still there".encode()


async def check_listener_reconnect(site: Site) -> None:
    """A listener receives again after a reconnect; meanwhile requests fail."""
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
                except ServiceUnavailable:
                    await asyncio.sleep(0.01)


async def check_handler_closes_its_listener(site: Site) -> None:
    """A handler may close its own listener, which then receives no more messages."""
    async with site.client() as broker, site.client() as other:
        name, left = fresh("words"), asyncio.Event()

        async def leave(subject: str, payload: bytes) -> None:
            await listener.close()
            left.set()

        listener = await other.listen(name, leave)
        await broker.send(name, b"")
        async with asyncio.timeout(10):
            await left.wait()
        await raises(ServiceUnavailable, broker.request(name, b"", timeout=60))


async def check_no_listener(site: Site) -> None:
    """Without a listener a request fails at once instead of after its timeout."""
    async with site.client() as broker:
        await raises(ServiceUnavailable, broker.request(fresh("words"), b"", timeout=600))
