"""The proxy forwards and counts all bytes in order, and interrupts connections."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import cast

import pytest
from fault_proxy import FaultProxy

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class _Echo(asyncio.Protocol):
    """A server that returns all bytes; with `deaf` it never reads."""

    def __init__(self, ends: list[asyncio.Transport], deaf: bool) -> None:
        self.ends, self.deaf = ends, deaf

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.ends.append(self.transport)
        if self.deaf:
            self.transport.pause_reading()

    def data_received(self, data: bytes) -> None:
        self.transport.write(data)


@asynccontextmanager
async def _server(deaf: bool = False) -> AsyncIterator[int]:
    ends: list[asyncio.Transport] = []
    server = await asyncio.get_running_loop().create_server(lambda: _Echo(ends, deaf), "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]
        for end in ends:
            end.abort()
        await asyncio.sleep(0)


@asynccontextmanager
async def _wire(delay: float = 0.0, deaf: bool = False) -> AsyncIterator[FaultProxy]:
    async with _server(deaf) as port, FaultProxy("127.0.0.1", port, delay=delay) as wire:
        yield wire


async def _client(wire: FaultProxy) -> Streams:
    return await asyncio.open_connection("127.0.0.1", wire.port)


async def _flood(writer: asyncio.StreamWriter, megabytes: int) -> None:
    for _ in range(megabytes):
        writer.write(bytes(1 << 20))
        await writer.drain()


async def _leave(writer: asyncio.StreamWriter) -> None:
    writer.close()
    await writer.wait_closed()


def _run(scenario: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(20):
            await scenario()

    asyncio.run(bounded())


@pytest.mark.parametrize("delay", [0.0, 0.001])
def test_bytes_arrive_in_order_and_are_counted(delay: float) -> None:
    async def scenario() -> None:
        async with _wire(delay) as wire:
            reader, writer = await _client(wire)
            sent = bytes(range(256)) * 8000
            writer.write(sent)
            assert await reader.readexactly(len(sent)) == sent
            assert (wire.to_broker, wire.from_broker, wire.connections) == (len(sent), len(sent), 1)
            await _leave(writer)

    _run(scenario)


def test_cut_ends_connections_and_refuses_new_ones_until_restored() -> None:
    async def scenario() -> None:
        async with _wire() as wire:
            reader, writer = await _client(wire)
            writer.write(b"one")
            assert await reader.readexactly(3) == b"one"
            wire.cut()
            with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
                await reader.readexactly(1)
            writer.close()
            refused, other = await _client(wire)
            with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
                await refused.readexactly(1)
            other.close()
            wire.restore()
            reader, writer = await _client(wire)
            writer.write(b"two")
            assert await reader.readexactly(3) == b"two"
            await _leave(writer)

    _run(scenario)


def test_paused_bytes_wait_and_arrive() -> None:
    async def scenario() -> None:
        async with _wire() as wire:
            reader, writer = await _client(wire)
            writer.write(b"one")
            assert await reader.readexactly(3) == b"one"
            wire.pause()
            writer.write(b"two")
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.05):
                    await reader.readexactly(3)
            wire.resume()
            assert await reader.readexactly(3) == b"two"
            await _leave(writer)

    _run(scenario)


def test_blocked_receiver_stops_the_sender() -> None:
    async def scenario() -> None:
        async with _wire(deaf=True) as wire:
            _, writer = await _client(wire)
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(_flood(writer, 200), 0.5)
            assert wire.to_broker < 150 << 20
            writer.transport.abort()

    _run(scenario)


def test_unreachable_server_ends_the_connection() -> None:
    async def scenario() -> None:
        async with _wire() as wire:
            wire.target_port = 1
            reader, writer = await _client(wire)
            with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
                await reader.readexactly(1)
            writer.close()

    _run(scenario)
