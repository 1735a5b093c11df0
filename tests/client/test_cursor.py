"""The stored position of a durable subscription."""

import asyncio

from thinwire.brokers.memory import LocalBroker, LocalServer
from thinwire.client.cursor import Cursor, CursorStore


def test_a_cancelled_write_does_not_refuse_the_next_one() -> None:
    async def write_twice() -> Cursor | None:
        async with LocalBroker(LocalServer(delay=0.01)) as broker:
            store, _ = await CursorStore.open(broker, "rooms", "hvac", every=0.0)
            write = asyncio.create_task(store.save(Cursor(1), 0.0))
            await asyncio.wait([write], timeout=0.015)  # the request has arrived, its response has not
            write.cancel()
            await store.save(Cursor(2), 0.0)
            return (await CursorStore.open(broker, "rooms", "hvac", every=0.0))[1]

    assert asyncio.run(write_twice()) == Cursor(2)
