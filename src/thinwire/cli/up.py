"""`thinwire up`: run a broker and the services, or the services alone."""

from __future__ import annotations

import asyncio
import json as json_text
import os
import tempfile
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from thinwire.brokers.broker_url import open_broker, read_url
from thinwire.brokers.embedded import EmbeddedServer
from thinwire.cli.connection_options import NO_CREDENTIALS, BrokerAccess, Credentials, with_credentials
from thinwire.cli.output import Output
from thinwire.cli.terminal import Interruptible, run
from thinwire.client.local_services import run_dictionaries, run_registry, run_translator, run_watches
from thinwire.clock import WallClock
from thinwire.errors import BrokerUnavailable, ConfigError
from thinwire.topics.registry_client import open_registry
from thinwire.topics.topic_plan import Plan, load_plan, register_plan

POLL_INTERVAL = 0.5
"""seconds between two checks whether the broker still runs"""
STOP_TIMEOUT = 15.0
"""seconds that a busy broker may need to stop"""


class Service(StrEnum):
    """A service that runs beside a broker."""

    REGISTRY = "registry"
    TRANSLATOR = "translator"
    DICTIONARIES = "dictionaries"
    WATCHES = "watches"


PortOption = Annotated[int, typer.Option("--port", help="Port of the broker; 0 for a free one.", min=0, max=65535)]
DirectoryOption = Annotated[
    Path | None,
    typer.Option("--dir", metavar="DIR", help="Data directory of the broker; default: a temporary one."),
]
LeavesOption = Annotated[
    int | None,
    typer.Option(
        "--leaves", metavar="PORT", help="Port for leaf nodes of edge hosts; 0 for a free one.", min=0, max=65535
    ),
]
RunningOption = Annotated[
    str | None, typer.Option("--to", metavar="URL", help="Start no broker; run the services on the one at URL.")
]
OnlyOption = Annotated[
    Service | None,
    typer.Option("--only", help="Run one service alone; all but the registry share topics with other instances."),
]
PlanOption = Annotated[
    Path | None, typer.Option("--plan", metavar="FILE", help="Register the topics of this plan with their settings.")
]
JsonLineOption = Annotated[bool, typer.Option("--json", help="Print one line of JSON when everything has started.")]


@with_credentials
def up(
    port: PortOption = 4222,
    leaves: LeavesOption = None,
    directory: DirectoryOption = None,
    to: RunningOption = None,
    only: OnlyOption = None,
    plan: PlanOption = None,
    credentials: Credentials = NO_CREDENTIALS,
    json: JsonLineOption = False,
) -> None:
    """Run a broker, the registry, a translator, the dictionary trainer and
    the watcher on this machine, until Ctrl-C or SIGTERM.

    The registry configures publishers for the tolerances that subscribers
    request. The translator makes a channel for each class of coarser
    subscriptions. The dictionary trainer trains dictionaries for topics that
    use them. The watcher evaluates watches. The broker listens on 127.0.0.1
    only and ends with this process, even if it is killed. Exits with 0 when
    stopped, with 2 if it cannot start.

    \b
    thinwire up --dir ~/thinwire-data
    thinwire up --to nats://broker:4222
    thinwire up --plan plan.toml
    thinwire up --to nats://broker:4222 --only translator
    """
    output = Output(json)
    # Read before anything starts, so that an invalid plan leaves nothing running.
    planned = load_plan(plan) if plan is not None else None
    if to is None:
        try:
            server = EmbeddedServer(directory, port=port, leaves=leaves)
            run(_run_broker_and_services(output, server, only, planned), close_timeout=STOP_TIMEOUT)
        except OSError as error:
            where = str(directory or tempfile.gettempdir())
            raise ConfigError(
                f"{error.strerror}: free some space, or choose another directory (--dir)", dir=where
            ) from None
    elif directory is not None:
        raise ConfigError("--dir requires a broker started here: omit --dir, or omit --to", dir=str(directory))
    else:
        run(_run_services(output, BrokerAccess(to, credentials), only, planned))


async def _run_broker_and_services(
    output: Output, server: EmbeddedServer, only: Service | None, plan: Plan | None
) -> None:
    async with server, _services(server.url, {}, only) as services:
        await _register(output, server.url, {}, plan)
        lifetime = " until it stops; --dir DIR keeps them" if server.temporary else ""
        running = f"broker{', ' if only is None else ' and '}{_display_name(only)} run"
        leaves = f"; edge hosts connect to {server.leaf_url}" if server.leaf_url else ""
        _announce(output, server.url, server.directory, f"{running}; data in {server.directory}{lifetime}{leaves}")
        with Interruptible():
            await _wait_for_end(services, server)


async def _run_services(output: Output, access: BrokerAccess, only: Service | None, plan: Plan | None) -> None:
    if read_url(access.url).scheme not in ("nats", "tls"):
        raise ConfigError(
            "give the URL of a running broker: nats://host:4222 or tls://host:4222", to=access.redacted_url
        )
    async with _services(access.url, access.options(), only) as services:
        await _register(output, access.url, access.options(), plan)
        _announce(output, access.redacted_url, None, f"{_display_name(only)} {'run' if only is None else 'runs'}")
        with Interruptible():
            await _wait_for_end(services)


async def _register(output: Output, url: str, options: dict[str, Any], plan: Plan | None) -> None:
    """Register the topics of a plan before the start is announced."""
    if plan is None:
        return
    async with AsyncExitStack() as stack:
        broker, _ = await open_broker(read_url(url), {"name": "plan", **options}, stack)
        topics = await register_plan(await open_registry(broker), plan)
    output.note(f"registered from the plan: {', '.join(topic.topic for topic in topics)}")


_NAMES = {Service.DICTIONARIES: "the dictionary trainer", Service.WATCHES: "the watcher"}


def _display_name(only: Service | None) -> str:
    if only is None:
        return "registry, translator, dictionaries and watches"
    return _NAMES.get(only, f"the {only}")


@asynccontextmanager
async def _services(url: str, options: dict[str, Any], only: Service | None) -> AsyncIterator[set[asyncio.Task[None]]]:
    """Start the services and yield their tasks."""
    starts = {
        Service.REGISTRY: run_registry,
        Service.TRANSLATOR: run_translator,
        Service.DICTIONARIES: run_dictionaries,
        Service.WATCHES: run_watches,
    }
    async with AsyncExitStack() as stack:
        tasks: set[asyncio.Task[None]] = set()
        for service, start in starts.items():
            if only in (None, service):
                broker, _ = await open_broker(read_url(url), {"name": str(service), **options}, stack)
                tasks.add(await start(broker, WallClock(), stack))
        yield tasks


async def _wait_for_end(services: set[asyncio.Task[None]], server: EmbeddedServer | None = None) -> None:
    """Wait until a service or the broker ends, and raise its error."""
    ended: set[asyncio.Task[None]] = set()
    while not ended:
        ended, _ = await asyncio.wait(services, timeout=POLL_INTERVAL, return_when=asyncio.FIRST_COMPLETED)
        if server is not None and not server.running:
            raise BrokerUnavailable(f"the broker has exited. End of its log:\n{server.log_tail()}\n")
    for service in ended:
        service.result()


def _announce(output: Output, url: str, directory: Path | None, text: str) -> None:
    if output.json:
        line = {"url": url, "pid": os.getpid(), "dir": None if directory is None else str(directory)}
        print(json_text.dumps(line), flush=True)
    output.note(f"{url}  {text}. Ctrl-C stops it.")
