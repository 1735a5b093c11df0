"""`thinwire edge`: a host that runs the processing functions of the topics assigned to it, until somebody stops it."""

from __future__ import annotations

import asyncio
import json as json_text
import os
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Annotated

import typer

from thinwire.brokers.broker_url import read_url
from thinwire.brokers.embedded import EmbeddedServer
from thinwire.cli.connection_options import DEFAULT_URL, NOBODY, Access, Identity, identified
from thinwire.cli.output import Output
from thinwire.cli.terminal import Interruptible, run
from thinwire.cli.up import PULSE, STOPPING, JsonLineOption
from thinwire.client.local_services import open_broker
from thinwire.edge import EdgeHostDocument
from thinwire.edge.leaf_broker import edge_node, edge_server
from thinwire.errors import BrokerUnavailable, ConfigError

NameOption = Annotated[str, typer.Option("--name", help="The host's own name, as placements know it.")]
HubOption = Annotated[str, typer.Option("--hub", metavar="URL", envvar="THINWIRE_URL", help="The hub's broker.")]
LeafOption = Annotated[
    str | None,
    typer.Option("--leaf", metavar="URL", help="Where leaf nodes join the hub (`thinwire up --leaves PORT`)."),
]
DirectoryOption = Annotated[
    Path | None, typer.Option("--dir", metavar="DIR", help="Where the data of its own broker stay; else they go.")
]
PortOption = Annotated[
    int, typer.Option("--port", help="Where its own broker listens; 0: a free port.", min=0, max=65535)
]
CoresOption = Annotated[int | None, typer.Option("--cores", help="Cores for topics; all of this machine by default.")]
SpeedOption = Annotated[float, typer.Option("--speed", help="How much faster than the reference host a core is.")]
ContentionOption = Annotated[float, typer.Option("--contention", help="Share by which a busy core slows the others.")]
PathOption = Annotated[
    list[Path] | None,
    typer.Option("--path", metavar="DIR", help="A folder with modules of functions; may be repeated."),
]
EmulateOption = Annotated[
    bool, typer.Option("--emulate", help="Cores by timer: call no function, take as long as the topic says.")
]


@identified
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
    emulate: EmulateOption = False,
    who: Identity = NOBODY,
    json: JsonLineOption = False,
) -> None:
    """Run a host of the edge, until Ctrl-C or SIGTERM.

    It starts a broker of its own, joins the hub, and processes the topics
    that `thinwire place apply` assigns to it, each in a process of its own.
    Leaves with 0 when it is stopped, with 2 where it cannot start.

    \b
    thinwire up --leaves 7422
    thinwire edge --name h1 --hub nats://hub:4222 --leaf nats-leaf://hub:7422 --path functions
    """
    about = EdgeHostDocument(name, cores or os.cpu_count() or 1, speed, contention)
    if read_url(hub).scheme not in ("nats", "tls"):
        raise ConfigError("name a broker that runs: nats://host:4222 or tls://host:4222", hub=read_url(hub).shown)
    access = Access(hub, who)
    folders = [str(folder.resolve()) for folder in path or ()]
    server = edge_server(name, leaf, directory, port)
    run(_served(Output(json), access, about, server, emulate, folders), patience=STOPPING)


async def _served(
    output: Output, access: Access, about: EdgeHostDocument, server: EmbeddedServer, emulate: bool, path: list[str]
) -> None:
    async with AsyncExitStack() as stack:
        hub, _ = await open_broker(read_url(access.url), {"name": about.name, **access.options()}, stack)
        await stack.enter_async_context(server)
        _, task = await stack.enter_async_context(edge_node(hub, about, server, emulated=emulate, path=path))
        _announce(output, about, access, server)
        with Interruptible():
            await _watch(task, server)


async def _watch(task: asyncio.Task[None], server: EmbeddedServer) -> None:
    """Until the host, or the broker beside it, ends by itself."""
    ended: set[asyncio.Task[None]] = set()
    while not ended:
        ended, _ = await asyncio.wait({task}, timeout=PULSE)
        if not server.running:
            raise BrokerUnavailable(f"the broker ended by itself. Its log ends with:\n{server.log_tail()}\n")
    task.result()


def _announce(output: Output, about: EdgeHostDocument, access: Access, server: EmbeddedServer) -> None:
    if output.json:
        print(json_text.dumps({"name": about.name, "url": server.url, "pid": os.getpid()}), flush=True)
    output.note(f"{about.name} serves {access.shown}; its own broker is at {server.url}. Ctrl-C stops it.")
