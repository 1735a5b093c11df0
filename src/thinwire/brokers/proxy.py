"""TCP proxy on the loopback address that counts the bytes of a link.

async with Proxy("127.0.0.1", server.port) as proxy:
    broker = await connect(f"nats://127.0.0.1:{proxy.port}")
    ...
    print(proxy.to_broker, proxy.from_broker)
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Self

from thinwire.brokers.embedded import LOOPBACK

BUFFER_SIZE = 1 << 18
"""bytes of a read, and of the buffer of a connection"""


class Proxy:
    """A proxy in front of a TCP server. A subclass delays or discards bytes by overriding `forward`.

    to_broker, from_broker: bytes forwarded in each direction
    """

    def __init__(self, target_host: str, target_port: int, *, port: int = 0) -> None:
        self.target_host, self.target_port = target_host, target_port
        self.port = port
        self.to_broker = self.from_broker = 0
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> Self:
        self._server = await asyncio.start_server(self.serve, LOOPBACK, self.port, limit=BUFFER_SIZE)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def stop(self) -> None:
        """Abort all connections and stop listening."""
        if self._server is not None:
            self._server.close()
        self.abort_connections()
        await asyncio.gather(*self._tasks)
        await asyncio.sleep(0)  # aborted sockets close in the next iteration of the loop

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    def abort_connections(self) -> None:
        """Abort all connections. Bytes in transit are lost."""
        for task in self._tasks:
            task.cancel()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Connect a new client to the server, and forward bytes until one of them closes."""
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        writers = [writer]
        try:
            server_in, server_out = await asyncio.open_connection(self.target_host, self.target_port, limit=BUFFER_SIZE)
            writers.append(server_out)
            await asyncio.gather(self._pipe(reader, server_out, True), self._pipe(server_in, writer, False))
            for end in writers:
                await end.wait_closed()
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            self._tasks.discard(task)
            for end in writers:
                end.transport.abort()

    async def forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, to_broker: bool) -> None:
        """Forward the bytes of one direction of a connection until it ends."""
        while data := await reader.read(BUFFER_SIZE):
            self.write(writer, data, to_broker)
            await writer.drain()

    def write(self, writer: asyncio.StreamWriter, data: bytes, to_broker: bool) -> None:
        """Count bytes and write them."""
        if to_broker:
            self.to_broker += len(data)
        else:
            self.from_broker += len(data)
        writer.write(data)

    async def _pipe(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, to_broker: bool) -> None:
        with suppress(OSError):
            await self.forward(reader, writer, to_broker)
        writer.close()  # which also ends the other direction
