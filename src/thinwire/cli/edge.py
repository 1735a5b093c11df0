"""`thinwire edge`: run an edge host, which processes the topics assigned to it."""

from __future__ import annotations

import os
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from thinwire.brokers.broker_url import open_broker, read_url
from thinwire.brokers.embedded import EmbeddedServer
from thinwire.cli.connection_options import DEFAULT_URL, BrokerAccess, Credentials, with_options
from thinwire.cli.output import Output
from thinwire.cli.terminal import interruptible, run
from thinwire.cli.up import STOP_TIMEOUT, JsonLineOption, announce, wait_for_end
from thinwire.edge import EdgeHostDocument
from thinwire.edge.edge_host import edge_node, edge_server

NameOption = Annotated[str, typer.Option("--name", help="Name of the host in placements.")]
HubOption = Annotated[str, typer.Option("--hub", metavar="URL", envvar="THINWIRE_URL", help="Broker of the hub.")]


@dataclass(frozen=True)
class EdgeOptions:
    """Options of `thinwire edge`."""

    leaf: Annotated[
        str | None,
        typer.Option("--leaf", metavar="URL", help="Leaf node URL of the hub (`thinwire up --leaves PORT`)."),
    ] = None
    directory: Annotated[
        Path | None,
        typer.Option("--dir", metavar="DIR", help="Data directory of the host's broker; default: a temporary one."),
    ] = None
    port: Annotated[int, typer.Option("--port", help="Port of the host's broker; 0: a free one.", min=0, max=65535)] = 0
    cores: Annotated[int | None, typer.Option("--cores", help="Cores for topics; default: all.")] = None
    speed: Annotated[float, typer.Option("--speed", help="Speed of a core relative to the reference host.")] = 1.0
    contention: Annotated[
        float, typer.Option("--contention", help="Fraction by which a busy core slows down each other core.")
    ] = 0.0
    path: Annotated[
        list[Path] | None,
        typer.Option("--path", metavar="DIR", help="Directory with modules of functions; may be repeated."),
    ] = None


@with_options
def edge(
    name: NameOption,
    hub: HubOption = DEFAULT_URL,
    *,
    options: EdgeOptions,
    credentials: Credentials,
    json: JsonLineOption = False,
) -> None:
    """Run an edge host, until Ctrl-C or SIGTERM.

    The host starts its own broker, connects it to the hub, and processes
    the topics that `thinwire place apply` assigns to it, each in a separate
    process. Exits with 0 after Ctrl-C, with 2 if it cannot start.

    \b
    thinwire up --leaves 7422
    thinwire edge --name h1 --hub nats://hub:4222 --leaf nats-leaf://hub:7422 --path functions
    """
    host = EdgeHostDocument(name, options.cores or os.cpu_count() or 1, options.speed, options.contention)
    broker = BrokerAccess(hub, credentials)
    broker.check_running("hub")
    path = [str(folder.resolve()) for folder in options.path or ()]
    server = edge_server(name, options.leaf, options.directory, options.port)
    run(_run_host(Output(json), broker, host, server, path), close_timeout=STOP_TIMEOUT)


async def _run_host(
    output: Output, broker: BrokerAccess, host: EdgeHostDocument, server: EmbeddedServer, path: list[str]
) -> None:
    async with AsyncExitStack() as stack:
        hub, _ = await open_broker(read_url(broker.url), {"name": host.name, **broker.options()}, stack)
        await stack.enter_async_context(server)
        _, task = await stack.enter_async_context(edge_node(hub, host, server, path=path))
        text = f"{host.name} serves {broker.redacted_url}; its own broker is at {server.url}. Ctrl-C ends the command."
        announce(output, {"name": host.name, "url": server.url, "pid": os.getpid()}, text)
        with interruptible():
            await wait_for_end({task}, server)
