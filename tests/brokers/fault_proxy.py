"""Proxy that delays, holds and discards bytes, and interrupts connections."""

from __future__ import annotations

import asyncio

from thinwire.brokers.proxy import BUFFER_SIZE, Proxy


class FaultProxy(Proxy):
    """A proxy with faults.

    delay: seconds that bytes are held in each direction
    discarding: bytes from the server are counted and discarded
    connections: number of accepted clients
    """

    def __init__(self, target_host: str, target_port: int, *, delay: float = 0.0) -> None:
        super().__init__(target_host, target_port)
        self.delay = delay
        self.discarding = False
        self.connections = 0
        self._refusing = False
        self._running = asyncio.Event()
        self._running.set()

    @property
    def is_busy(self) -> bool:
        """Whether a connection has not ended."""
        return bool(self._tasks)

    def cut(self) -> None:
        """Abort all connections with the bytes in transit, and refuse new ones until `restore`."""
        self._refusing = True
        self.abort_connections()

    def restore(self) -> None:
        """Accept connections again."""
        self._refusing = False

    def pause(self) -> None:
        """Stop forwarding; bytes wait until `resume`."""
        self._running.clear()

    def resume(self) -> None:
        self._running.set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._refusing:
            writer.transport.abort()
        else:
            self.connections += 1
            await super().serve(reader, writer)

    async def forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, to_broker: bool) -> None:
        while data := await reader.read(BUFFER_SIZE):
            if self.delay:
                await asyncio.sleep(self.delay)
            await self._running.wait()
            self.write(writer, data, to_broker)
            await writer.drain()

    def write(self, writer: asyncio.StreamWriter, data: bytes, to_broker: bool) -> None:
        if self.discarding and not to_broker:
            self.from_broker += len(data)
        else:
            super().write(writer, data, to_broker)
