"""`thinwire up`: run a broker and the services, or the services alone."""

from __future__ import annotations

import asyncio
import json as json_text
import os
import tempfile
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from thinwire.brokers.broker_url import open_broker, read_url
from thinwire.brokers.embedded import EmbeddedServer
from thinwire.cli.connection_options import BrokerAccess, Credentials, with_options
from thinwire.cli.output import Output
from thinwire.cli.terminal import interruptible, run
from thinwire.client.local_services import run_service
from thinwire.clock import WallClock
from thinwire.errors import BrokerUnavailable, ConfigError
from thinwire.topics.registry_client import open_registry
from thinwire.topics.topic_plan import Plan, load_plan, register_plan

DEFAULT_PORT = 4222
POLL_INTERVAL = 0.5
"""seconds between two checks whether the broker still runs"""
STOP_TIMEOUT = 15.0
"""seconds that a busy broker may need to stop"""


class Service(StrEnum):
    """A service of a broker."""

    REGISTRY = "registry"
    TRANSLATOR = "translator"
    DICTIONARIES = "dictionaries"
    WATCHES = "watches"


JsonLineOption = Annotated[bool, typer.Option("--json", help="Print one line of JSON when everything has started.")]


@dataclass(frozen=True)
class LocalBrokerOptions:
    """Options of the broker that `thinwire up` starts. They do not apply to the broker of `--to`."""

    port: Annotated[
        int | None,
        typer.Option("--port", help="Port of the broker, 0 for a free one; default: 4222.", min=0, max=65535),
    ] = None
    leaves: Annotated[
        int | None,
        typer.Option("--leaves", metavar="PORT", help="Port for edge hosts, 0 for a free one.", min=0, max=65535),
    ] = None
    dir: Annotated[
        Path | None,
        typer.Option("--dir", metavar="DIR", help="Data directory of the broker; default: a temporary one."),
    ] = None

    def check_unused(self) -> None:
        """Raise `ConfigError` if an option is set, although no broker is started."""
        for name, value in vars(self).items():
            if value is not None:
                detail = f"--{name} requires a broker started here: omit --{name}, or omit --to"
                raise ConfigError(detail, **{name: str(value)})


@dataclass(frozen=True)
class ServiceOptions:
    """Options of the services."""

    to: Annotated[
        str | None, typer.Option("--to", metavar="URL", help="Start no broker; run the services on the one at URL.")
    ] = None
    only: Annotated[Service | None, typer.Option("--only", help="Run only this service.")] = None
    plan: Annotated[
        Path | None,
        typer.Option("--plan", metavar="FILE", help="Register the topics of this plan with their settings."),
    ] = None


@with_options
def up(
    *, local: LocalBrokerOptions, services: ServiceOptions, credentials: Credentials, json: JsonLineOption = False
) -> None:
    """Run a broker, the registry, a translator, the dictionary trainer and
    the watcher on this machine, until Ctrl-C or SIGTERM.

    The registry configures publishers for the tolerances that subscribers
    request. The translator makes a channel for each class of coarser
    subscriptions. The dictionary trainer trains dictionaries for topics that
    use them. The watcher evaluates watches. The broker listens on 127.0.0.1
    only and ends with this process, even if this process is killed. Exits
    with 0 after Ctrl-C, with 2 if the broker or a service cannot start.

    \b
    thinwire up --dir ~/thinwire-data
    thinwire up --to nats://broker:4222
    thinwire up --plan plan.toml
    thinwire up --to nats://broker:4222 --only translator
    """
    output = Output(json)
    # Read before anything starts, so that an invalid plan leaves nothing running.
    plan = load_plan(services.plan) if services.plan is not None else None
    if services.to is not None:
        local.check_unused()
        run(_run_services(output, BrokerAccess(services.to, credentials), services.only, plan))
    else:
        run(_run_broker_and_services(output, local, services.only, plan), close_timeout=STOP_TIMEOUT)


async def _run_broker_and_services(
    output: Output, local: LocalBrokerOptions, only: Service | None, plan: Plan | None
) -> None:
    async with AsyncExitStack() as stack:
        try:
            port = DEFAULT_PORT if local.port is None else local.port
            server = await stack.enter_async_context(EmbeddedServer(local.dir, port=port, leaves=local.leaves))
        except OSError as error:
            detail = f"{error.strerror or error}: free some space, or choose another directory (--dir)"
            raise ConfigError(detail, dir=str(local.dir or tempfile.gettempdir())) from None
        tasks = await stack.enter_async_context(_services(server.url, {}, only))
        await _register(output, server.url, {}, plan)
        running = f"broker{', ' if only is None else ' and '}{_display_name(only)} run"
        data = f"data in {server.directory}"
        data += ", deleted at the end; --dir DIR selects a permanent directory" if server.temporary else ""
        leaves = f"; edge hosts connect to {server.leaf_url}" if server.leaf_url else ""
        await _announce_and_wait(output, server.url, f"{running}; {data}{leaves}", tasks, server)


async def _run_services(output: Output, broker: BrokerAccess, only: Service | None, plan: Plan | None) -> None:
    broker.check_running("to")
    async with _services(broker.url, broker.options(), only) as tasks:
        await _register(output, broker.url, broker.options(), plan)
        text = f"{_display_name(only)} {'run' if only is None else 'runs'}"
        await _announce_and_wait(output, broker.redacted_url, text, tasks)


async def _announce_and_wait(
    output: Output, url: str, text: str, tasks: set[asyncio.Task[None]], server: EmbeddedServer | None = None
) -> None:
    directory = None if server is None else str(server.directory)
    announce(output, {"url": url, "pid": os.getpid(), "dir": directory}, f"{url}  {text}. Ctrl-C ends the command.")
    with interruptible():
        await wait_for_end(tasks, server)


async def _register(output: Output, url: str, options: dict[str, Any], plan: Plan | None) -> None:
    """Register the topics of a plan, if there is one."""
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
    async with AsyncExitStack() as stack:
        tasks: set[asyncio.Task[None]] = set()
        for service in Service:
            if only in (None, service):
                broker, _ = await open_broker(read_url(url), {"name": str(service), **options}, stack)
                tasks.add(await run_service(service, broker, WallClock(), stack))
        yield tasks


async def wait_for_end(tasks: set[asyncio.Task[None]], server: EmbeddedServer | None = None) -> None:
    """Wait until a task or the broker ends, and raise its error."""
    ended: set[asyncio.Task[None]] = set()
    while not ended:
        ended, _ = await asyncio.wait(tasks, timeout=POLL_INTERVAL, return_when=asyncio.FIRST_COMPLETED)
        if server is not None and not server.running:
            raise BrokerUnavailable(f"the broker has exited. End of its log:\n{server.log_tail()}\n")
    for task in ended:
        task.result()


def announce(output: Output, document: dict[str, Any], text: str) -> None:
    """Print a line of text, and with --json a line of JSON, after everything has started."""
    if output.json:
        print(json_text.dumps(document), flush=True)
    output.note(text)
