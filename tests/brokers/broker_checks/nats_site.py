"""A real nats-server, and a wire of its own to each client that can be cut; needs the extra `nats`."""

from __future__ import annotations

import asyncio

from thinwire.brokers.embedded import LOOPBACK, EmbeddedServer
from thinwire.brokers.link_limits import Limit, Limits
from thinwire.brokers.nats.broker import connect
from thinwire.brokers.nats.options import NatsOptions
from thinwire.brokers.protocol import Broker
from thinwire.brokers.proxy import Proxy
from thinwire.testing.broker_checks.check_site import Site


class NatsSite(Site):
    """A server that runs. Wires need a moment for each byte, so that messages can be caught on their way."""

    def __init__(self, server: EmbeddedServer, delay: float = 0.001) -> None:
        self.server = server
        self.delay = delay
        self._wires: dict[Broker, Proxy] = {}

    async def connect(self) -> Broker:
        wire = await Proxy(LOOPBACK, self.server.port, limits=Limits.both(Limit(delay=self.delay))).start()
        broker = await connect(f"nats://{LOOPBACK}:{wire.port}", NatsOptions(timeout=10))
        self._wires[broker] = wire
        return broker

    async def cut(self, broker: Broker) -> None:
        self._wires[broker].cut()
        while broker.connected:  # the client learns of it from its socket
            await asyncio.sleep(0)

    async def restore(self, broker: Broker) -> None:
        self._wires[broker].restore()

    async def stop(self) -> None:
        self.server.kill()

    async def start(self) -> None:
        await self.server.restart()

    async def redeliver(self, broker: Broker) -> None:
        """A new connection is where this broker may deliver again."""
        async with self.interrupted(broker):
            pass

    async def close(self) -> None:
        for wire in self._wires.values():
            await wire.stop()
        self._wires.clear()
