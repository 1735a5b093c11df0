"""A nats-server, with a proxy per client; needs the extra `nats`."""

from __future__ import annotations

import asyncio

from fault_proxy import FaultProxy

from broker_checks.check_site import Site
from thinwire.brokers.embedded import LOOPBACK, EmbeddedServer
from thinwire.brokers.nats.broker import connect
from thinwire.brokers.nats.options import NatsOptions
from thinwire.brokers.protocol import Broker


class NatsSite(Site):
    """A running server. The proxies delay bytes, so that messages can be interrupted in transit."""

    def __init__(self, server: EmbeddedServer, delay: float = 0.001) -> None:
        self.server = server
        self.delay = delay
        self._wires: dict[Broker, FaultProxy] = {}

    async def connect(self) -> Broker:
        wire = await FaultProxy(LOOPBACK, self.server.port, delay=self.delay).start()
        broker = await connect(f"nats://{LOOPBACK}:{wire.port}", NatsOptions(timeout=10))
        self._wires[broker] = wire
        return broker

    async def cut(self, broker: Broker) -> None:
        self._wires[broker].cut()
        while broker.connected:  # the client detects it at its socket
            await asyncio.sleep(0)

    async def restore(self, broker: Broker) -> None:
        self._wires[broker].restore()

    async def disconnected(self, broker: Broker) -> None:
        while self._wires[broker].is_busy:
            await asyncio.sleep(0)

    async def stop(self) -> None:
        self.server.kill()

    async def start(self) -> None:
        await self.server.restart()

    async def redeliver(self, broker: Broker) -> None:
        """Reconnect: the server then delivers unacknowledged messages again."""
        async with self.interrupted(broker):
            pass

    async def close(self) -> None:
        for wire in self._wires.values():
            await wire.stop()
        self._wires.clear()
