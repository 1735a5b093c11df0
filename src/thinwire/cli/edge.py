"""`thinwire edge`: run an edge host, which processes the topics assigned to it."""

from __future__ import annotations

import os
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

from thinwire.brokers.embedded import EmbeddedServer
from thinwire.cli.connection_options import DEFAULT_URL, BrokerAccess
from thinwire.cli.option_groups import option, with_options
from thinwire.cli.terminal import interruptible, run
from thinwire.cli.up import STOP_TIMEOUT, StartOutput, wait_for_end
from thinwire.edge import EdgeHostDocument
from thinwire.edge.edge_host import edge_node, edge_server


@dataclass(frozen=True)
class HubAccess(BrokerAccess):
    url: str = option(DEFAULT_URL, "Broker of the hub.", "--hub", metavar="URL", envvar="THINWIRE_URL")


@dataclass(frozen=True)
class EdgeOptions:
    name: str = option(..., "Name of the host in placements.")
    leaf: str | None = option(None, "Leaf node URL of the hub (`thinwire up --leaves PORT`).", metavar="URL")
    directory: Path | None = option(
        None, "Data directory of the host's broker; default: a temporary one.", "--dir", metavar="DIR"
    )
    port: int = option(0, "Port of the host's broker; 0: a free one.", min=0, max=65535)
    cores: int | None = option(None, "Cores for topics; default: all.")
    speed: float = option(1.0, "Speed of a core relative to the reference host.")
    contention: float = option(0.0, "Fraction by which a busy core slows down each other core.")
    path: list[Path] | None = option(None, "Directory with modules of functions; may be repeated.", metavar="DIR")


@with_options
def edge(*, options: EdgeOptions, hub: HubAccess, output: StartOutput) -> None:
    """Run an edge host, until Ctrl-C or SIGTERM.

    The host starts its own broker, connects it to the hub, and processes
    the topics that `thinwire place apply` assigns to it, each in a separate
    process. Exits with 0 after Ctrl-C, with 2 if it cannot start.

    \b
    thinwire up --leaves 7422
    thinwire edge --name h1 --hub nats://hub:4222 --leaf nats-leaf://hub:7422 --path functions
    """
    host = EdgeHostDocument(options.name, options.cores or os.cpu_count() or 1, options.speed, options.contention)
    hub.check_running("hub")
    path = [str(folder.resolve()) for folder in options.path or ()]
    server = edge_server(host.name, options.leaf, options.directory, options.port)
    run(_run_host(output, hub, host, server, path), close_timeout=STOP_TIMEOUT)


async def _run_host(
    output: StartOutput, hub: HubAccess, host: EdgeHostDocument, server: EmbeddedServer, path: list[str]
) -> None:
    async with AsyncExitStack() as stack:
        broker = await hub.open(host.name, stack)
        await stack.enter_async_context(server)
        _, task = await stack.enter_async_context(edge_node(broker, host, server, path=path))
        text = f"{host.name} serves {hub.redacted_url}; its own broker is at {server.url}"
        output.announce({"name": host.name, "url": server.url, "pid": os.getpid()}, text)
        with interruptible():
            await wait_for_end({task}, server)
