"""An edge host with its own broker, which is connected to the hub as a leaf node.

Publishers and subscribers near the host use its broker. Messages under `tw.near` stay there; the broker does not
forward them. Everything that must survive the host is stored at the hub: logs of topics that may move, the assignment
and the leases.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

from thinwire.brokers.embedded import EmbeddedServer
from thinwire.brokers.nats.broker import connect
from thinwire.brokers.protocol import Broker
from thinwire.edge.edge_documents import NEAR, EdgeHostDocument
from thinwire.edge.edge_host import TERM, EdgeHost, running_host


def edge_server(name: str, leaf: str | None, directory: Path | None = None, port: int = 0) -> EmbeddedServer:
    """Return the broker of a host, not started; `leaf` is the hub's address for leaf nodes, None without a hub."""
    return EmbeddedServer(directory, port=port, hub=leaf, name=name, inside=[NEAR])


@asynccontextmanager
async def edge_node(
    hub: Broker, about: EdgeHostDocument, server: EmbeddedServer, *, path: Sequence[str] = (), term: float = TERM
) -> AsyncIterator[tuple[EdgeHost, asyncio.Task[None]]]:
    """Run a host with its own broker, which has been started; yields the host and its task."""
    near = await connect(server.url)
    host = EdgeHost(hub, replace(about, url=server.url), near=near, path=path, term=term)
    try:
        async with running_host(host) as task:
            yield host, task
    finally:
        await near.close()
