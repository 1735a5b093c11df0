"""`thinwire edge`: run an edge host, which processes the topics assigned to it."""

from __future__ import annotations

import asyncio
import json as json_text
import os
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Annotated

import typer

from thinwire.brokers.broker_url import open_broker, read_url
from thinwire.brokers.embedded import EmbeddedServer
from thinwire.cli.connection_options import DEFAULT_URL, NO_CREDENTIALS, BrokerAccess, Credentials, with_credentials
from thinwire.cli.output import Output
from thinwire.cli.terminal import Interruptible, run
from thinwire.cli.up import POLL_INTERVAL, STOP_TIMEOUT, JsonLineOption
from thinwire.edge import EdgeHostDocument
from thinwire.edge.edge_host import edge_node, edge_server
from thinwire.errors import BrokerUnavailable, ConfigError

NameOption = Annotated[str, typer.Option("--name", help="Name of the host in placements.")]
HubOption = Annotated[str, typer.Option("--hub", metavar="URL", envvar="THINWIRE_URL", help="Broker of the hub.")]
LeafOption = Annotated[
    str | None,
    typer.Option("--leaf", metavar="URL", help="Leaf node URL of the hub (`thinwire up --leaves PORT`)."),
]
DirectoryOption = Annotated[
    Path | None,
    typer.Option("--dir", metavar="DIR", help="Data directory of its own broker; default: a temporary one."),
]
PortOption = Annotated[int, typer.Option("--port", help="Port of its own broker; 0 for a free one.", min=0, max=65535)]
CoresOption = Annotated[int | None, typer.Option("--cores", help="Cores for topics; default: all.")]
SpeedOption = Annotated[float, typer.Option("--speed", help="Speed of a core relative to the reference host.")]
ContentionOption = Annotated[
    float, typer.Option("--contention", help="Share by which a busy core slows down the others.")
]
PathOption = Annotated[
    list[Path] | None,
    typer.Option("--path", metavar="DIR", help="Directory with modules of functions; may be repeated."),
]


@with_credentials
def edge(
    name: NameOption,
    hub: HubOption = DEFAULT_URL,
    leaf: LeafOption = None,
    directory: DirectoryOption = None,
    port: PortOption = 0,
    cores: CoresOption = None,
    speed: SpeedOption = 1.0,
    contention: ContentionOption = 0.0,
    path: PathOption = None,
    credentials: Credentials = NO_CREDENTIALS,
    json: JsonLineOption = False,
) -> None:
    """Run an edge host, until Ctrl-C or SIGTERM.

    The host starts its own broker, connects it to the hub, and processes
    the topics that `thinwire place apply` assigns to it, each in a separate
    process. Exits with 0 when stopped, with 2 if it cannot start.

    \b
    thinwire up --leaves 7422
    thinwire edge --name h1 --hub nats://hub:4222 --leaf nats-leaf://hub:7422 --path functions
    """
    about = EdgeHostDocument(name, cores or os.cpu_count() or 1, speed, contention)
    if read_url(hub).scheme not in ("nats", "tls"):
        raise ConfigError(
            "give the URL of a running broker: nats://host:4222 or tls://host:4222", hub=read_url(hub).shown
        )
    access = BrokerAccess(hub, credentials)
    folders = [str(folder.resolve()) for folder in path or ()]
    server = edge_server(name, leaf, directory, port)
    run(_run_host(Output(json), access, about, server, folders), close_timeout=STOP_TIMEOUT)


async def _run_host(
    output: Output,
    access: BrokerAccess,
    about: EdgeHostDocument,
    server: EmbeddedServer,
    path: list[str],
) -> None:
    async with AsyncExitStack() as stack:
        hub, _ = await open_broker(read_url(access.url), {"name": about.name, **access.options()}, stack)
        await stack.enter_async_context(server)
        _, task = await stack.enter_async_context(edge_node(hub, about, server, path=path))
        _announce(output, about, access, server)
        with Interruptible():
            await _wait_for_end(task, server)


async def _wait_for_end(task: asyncio.Task[None], server: EmbeddedServer) -> None:
    """Wait until the host or its broker ends, and raise its error."""
    ended: set[asyncio.Task[None]] = set()
    while not ended:
        ended, _ = await asyncio.wait({task}, timeout=POLL_INTERVAL)
        if not server.running:
            raise BrokerUnavailable(f"the broker has exited. End of its log:\n{server.log_tail()}\n")
    task.result()


def _announce(output: Output, about: EdgeHostDocument, access: BrokerAccess, server: EmbeddedServer) -> None:
    if output.json:
        print(json_text.dumps({"name": about.name, "url": server.url, "pid": os.getpid()}), flush=True)
    output.note(f"{about.name} serves {access.redacted_url}; its own broker is at {server.url}. Ctrl-C stops it.")
