"""The shaped proxy enforces its limits, preserves the order of bytes, has bounded buffers and closes cleanly."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from thinwire.brokers.embedded import LOOPBACK, EmbeddedServer
from thinwire.brokers.nats.broker import connect
from thinwire_lab.live.link_limits import Limits, read_limits
from thinwire_lab.live.shaped_proxy import EARLY, QUEUE, ShapedProxy, capacity

SOME = bytes(range(256)) * 200
HOP = EARLY + 1e-4
"""seconds by which a line may be early"""


def _run(scenario: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(60):
            await scenario()

    asyncio.run(bounded())


async def _echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()
    except ConnectionError:
        pass
    finally:
        writer.close()


@asynccontextmanager
async def _wire(limits: Limits) -> AsyncIterator[ShapedProxy]:
    server = await asyncio.start_server(_echo, LOOPBACK, 0)
    async with server:
        async with ShapedProxy(LOOPBACK, server.sockets[0].getsockname()[1], limits=limits, seed=3) as wire:
            yield wire
        while others := asyncio.all_tasks() - {asyncio.current_task()}:
            await asyncio.wait(others)


async def _round_trip(wire: ShapedProxy, data: bytes) -> tuple[bytes, float]:
    """Return the echoed bytes and the elapsed seconds."""
    reader, writer = await asyncio.open_connection(LOOPBACK, wire.port)
    begun = time.monotonic()
    writer.write(data)
    back = await reader.readexactly(len(data))
    took = time.monotonic() - begun
    writer.close()
    await writer.wait_closed()
    return back, took


TAKES = {
    "up=200kB": len(SOME) / 200e3,
    "down=200kB,up.delay=50ms": len(SOME) / 200e3 + 0.05,
    "bandwidth=400kB,delay=20ms,jitter=10ms": 0.02 + len(SOME) / 400e3,
    "up=100kB,up.burst=51200B": 0.0,
    "delay=100ms": 0.2,
}


@pytest.mark.parametrize("text", sorted(TAKES))
def test_bytes_come_in_order_and_not_before_their_time(text: str) -> None:
    async def scenario() -> None:
        async with _wire(read_limits(text)) as wire:
            back, took = await _round_trip(wire, SOME)
            assert back == SOME
            assert took >= TAKES[text] - 2 * HOP
            assert (wire.to_broker, wire.from_broker) == (len(SOME), len(SOME))

    _run(scenario)


def test_connections_share_the_line() -> None:
    async def scenario() -> None:
        async with _wire(read_limits("up=200kB")) as wire:
            begun = time.monotonic()
            found = await asyncio.gather(*(_round_trip(wire, SOME) for _ in range(2)))
            assert [back for back, _ in found] == [SOME, SOME]
            assert time.monotonic() - begun >= 2 * len(SOME) / 200e3 - HOP

    _run(scenario)


def test_a_narrow_line_stops_the_sender() -> None:
    """It accepts only what its queue and the kernel buffers of two sockets hold, not all that is sent."""

    async def scenario() -> None:
        async with _wire(read_limits("up=10kB")) as wire:
            _, writer = await asyncio.open_connection(LOOPBACK, wire.port)
            offered = 50 << 20
            writer.write(bytes(offered))
            await asyncio.sleep(0.5)
            taken = offered - writer.transport.get_write_buffer_size()
            assert taken < 12 << 20
            assert wire.to_broker < QUEUE
            writer.transport.abort()

    _run(scenario)


def test_a_cut_loses_what_is_on_its_way_and_frees_the_line() -> None:
    async def scenario() -> None:
        async with _wire(read_limits("up=8kB,delay=10ms")) as wire:
            reader, writer = await asyncio.open_connection(LOOPBACK, wire.port)
            writer.write(SOME)
            await asyncio.sleep(0.1)
            wire.abort_connections()
            with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
                await reader.readexactly(len(SOME))
            writer.close()
            back, took = await _round_trip(wire, b"again")
            assert back == b"again"
            assert took < len(SOME) / 8e3  # it does not wait behind lost bytes

    _run(scenario)


def test_bytes_sent_before_a_close_still_arrive() -> None:
    async def scenario() -> None:
        async with _wire(read_limits("up=100kB,delay=50ms")) as wire:
            reader, writer = await asyncio.open_connection(LOOPBACK, wire.port)
            writer.write(SOME[:5000])
            writer.write_eof()
            while wire.to_broker < 5000:
                await asyncio.sleep(0.01)
            assert await reader.read(5000) == b"" or wire.to_broker == 5000
            writer.close()

    _run(scenario)


def test_a_line_holds_what_is_on_it_and_a_queue() -> None:
    limits = read_limits("up=1mbit,delay=100ms,jitter=50ms")
    assert capacity(limits.up) == QUEUE + 18_750


def test_a_log_over_a_modem() -> None:
    """Acknowledgements take their time too: each append is a round trip."""

    async def scenario() -> None:
        async with (
            EmbeddedServer() as server,
            ShapedProxy(LOOPBACK, server.port, limits=read_limits("delay=30ms")) as wire,
        ):
            broker = await connect(f"nats://{LOOPBACK}:{wire.port}")
            await broker.ensure_log("rooms", ["rooms.*"])
            reader = await broker.read("rooms", first=1)
            begun = time.monotonic()
            offsets = [await broker.append("rooms", "rooms.a", bytes([n])) for n in range(3)]
            assert time.monotonic() - begun >= 3 * 0.06 - 6 * HOP
            found = [await reader.next() for _ in range(3)]
            assert [(one.offset, one.payload) for one in found if one] == [(n, bytes([n - 1])) for n in offsets]
            await reader.close()
            await broker.close()

    _run(scenario)
