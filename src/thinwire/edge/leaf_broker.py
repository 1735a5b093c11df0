"""A host as it stands at the edge: its own broker beside it, joined to the hub as a leaf node, and the host at work.

Publishers and subscribers nearby use the host's own broker. What is published under `tw.near` stays there: the broker
itself refuses to let it out. Everything that must outlive the host, such as the logs of topics that may move, the
assignment and the leases, is at the hub.
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
from thinwire.edge.edge_host import TERM, EdgeHost, at_work


def edge_server(name: str, leaf: str | None, directory: Path | None = None, port: int = 0) -> EmbeddedServer:
    """The broker of a host, not started yet; `leaf`: where the hub lets leaf nodes join, None where it does not."""
    return EmbeddedServer(directory, port=port, hub=leaf, name=name, inside=[NEAR])


@asynccontextmanager
async def edge_node(
    hub: Broker,
    about: EdgeHostDocument,
    server: EmbeddedServer,
    *,
    emulated: bool = False,
    path: Sequence[str] = (),
    term: float = TERM,
) -> AsyncIterator[tuple[EdgeHost, asyncio.Task[None]]]:
    """A host at work with its own broker, which has been started; the task ends when the host does."""
    near = await connect(server.url)
    host = EdgeHost(hub, replace(about, url=server.url), near=near, emulated=emulated, path=path, term=term)
    try:
        async with at_work(host) as task:
            yield host, task
    finally:
        await near.close()
