"""`thinwire up`: a broker and the services, or services alone, until somebody stops them."""

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

from thinwire.brokers.broker_url import read_url
from thinwire.brokers.embedded import EmbeddedServer
from thinwire.cli.connection_options import NOBODY, Access, Identity, identified
from thinwire.cli.output import Output
from thinwire.cli.terminal import Interruptible, run
from thinwire.client.local_services import open_broker, run_dictionaries, run_registry, run_translator, run_watches
from thinwire.clock import WallClock
from thinwire.errors import BrokerUnavailable, ConfigError
from thinwire.topics.registry_client import open_registry
from thinwire.topics.topic_plan import Plan, load_plan, register_plan

PULSE = 0.5
"""seconds between two looks at whether the broker still runs"""
STOPPING = 15.0
"""seconds that a broker with much in hand may need to stop"""


class Service(StrEnum):
    """What runs beside a broker."""

    REGISTRY = "registry"
    TRANSLATOR = "translator"
    DICTIONARIES = "dictionaries"
    WATCHES = "watches"


PortOption = Annotated[int, typer.Option("--port", help="Where it listens; 0 for a free port.", min=0, max=65535)]
DirectoryOption = Annotated[
    Path | None,
    typer.Option("--dir", metavar="DIR", help="Where its data stay; else they go when it stops."),
]
LeavesOption = Annotated[
    int | None,
    typer.Option("--leaves", metavar="PORT", help="Where hosts of the edge join; 0 for a free port.", min=0, max=65535),
]
RunningOption = Annotated[
    str | None, typer.Option("--to", metavar="URL", help="Start no broker: only the services, on the one at URL.")
]
OnlyOption = Annotated[
    Service | None,
    typer.Option("--only", help="Run one of the services alone; all but the registry share the work with others."),
]
PlanOption = Annotated[
    Path | None, typer.Option("--plan", metavar="FILE", help="Register the topics of this plan, with their settings.")
]
JsonLineOption = Annotated[bool, typer.Option("--json", help="Print one line of JSON once everything is up.")]


@identified
def up(
    port: PortOption = 4222,
    leaves: LeavesOption = None,
    directory: DirectoryOption = None,
    to: RunningOption = None,
    only: OnlyOption = None,
    plan: PlanOption = None,
    who: Identity = NOBODY,
    json: JsonLineOption = False,
) -> None:
    """Run a broker on this machine, the registry, a translator, the
    dictionary service and the watch service, until Ctrl-C or SIGTERM.

    The registry tells publishers what subscribers want; the translator makes
    channels of the log for those who ask for less than the most demanding
    one; the dictionary service finds what the messages of a topic share,
    where its owner wants that; the watch service evaluates what `thinwire
    watch` asks. The broker listens on 127.0.0.1 alone and dies with this
    process, even a killed one. Leaves with 0 when it is stopped, with 2
    where it cannot start.

    \b
    thinwire up --dir ~/thinwire-data
    thinwire up --to nats://broker:4222
    thinwire up --plan plan.toml
    thinwire up --to nats://broker:4222 --only translator
    """
    output = Output(json)
    # read before anything starts, for it may be bad
    planned = load_plan(plan) if plan is not None else None
    if to is None:
        try:
            server = EmbeddedServer(directory, port=port, leaves=leaves)
            run(_broker_and_services(output, server, only, planned), patience=STOPPING)
        except OSError as trouble:
            where = str(directory or tempfile.gettempdir())
            raise ConfigError(
                f"{trouble.strerror}: make room, or choose another directory (--dir)", dir=where
            ) from None
    elif directory is not None:
        raise ConfigError("a broker that runs has its data elsewhere: leave out --dir, or --to", dir=str(directory))
    else:
        run(_services_alone(output, Access(to, who), only, planned))


async def _broker_and_services(output: Output, server: EmbeddedServer, only: Service | None, plan: Plan | None) -> None:
    async with server, _services(server.url, {}, only) as services:
        await _register(output, server.url, {}, plan)
        kept = "go when it stops; --dir DIR keeps them" if server.temporary else "stay there"
        running = f"broker{', ' if only is None else ' and '}{_named(only)} run"
        joined = f"; hosts of the edge join at {server.leaf_url}" if server.leaf_url else ""
        _announce(output, server.url, server.directory, f"{running}; data in {server.directory} {kept}{joined}")
        with Interruptible():
            await _watch(services, server)


async def _services_alone(output: Output, access: Access, only: Service | None, plan: Plan | None) -> None:
    if read_url(access.url).scheme not in ("nats", "tls"):
        raise ConfigError("name a broker that runs: nats://host:4222 or tls://host:4222", to=access.shown)
    async with _services(access.url, access.options(), only) as services:
        await _register(output, access.url, access.options(), plan)
        _announce(output, access.shown, None, f"{_named(only)} {'run' if only is None else 'runs'}")
        with Interruptible():
            await _watch(services)


async def _register(output: Output, url: str, options: dict[str, Any], plan: Plan | None) -> None:
    """Make the topics of a plan known before anybody is told that everything is up."""
    if plan is None:
        return
    async with AsyncExitStack() as stack:
        broker, _ = await open_broker(read_url(url), {"name": "plan", **options}, stack)
        topics = await register_plan(await open_registry(broker), plan)
    output.note(f"registered from the plan: {', '.join(topic.topic for topic in topics)}")


_NAMES = {Service.DICTIONARIES: "the dictionary service", Service.WATCHES: "the watch service"}


def _named(only: Service | None) -> str:
    if only is None:
        return "registry, translator, dictionaries and watches"
    return _NAMES.get(only, f"the {only}")


@asynccontextmanager
async def _services(url: str, options: dict[str, Any], only: Service | None) -> AsyncIterator[set[asyncio.Task[None]]]:
    """The services at work, as the tasks that do it."""
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


async def _watch(services: set[asyncio.Task[None]], server: EmbeddedServer | None = None) -> None:
    """Until a service, or the broker under it, ends by itself."""
    ended: set[asyncio.Task[None]] = set()
    while not ended:
        ended, _ = await asyncio.wait(services, timeout=PULSE, return_when=asyncio.FIRST_COMPLETED)
        if server is not None and not server.running:
            raise BrokerUnavailable(f"the broker ended by itself. Its log ends with:\n{server.log_tail()}\n")
    for service in ended:
        service.result()


def _announce(output: Output, url: str, directory: Path | None, sentence: str) -> None:
    if output.json:
        line = {"url": url, "pid": os.getpid(), "dir": None if directory is None else str(directory)}
        print(json_text.dumps(line), flush=True)
    output.note(f"{url}  {sentence}. Ctrl-C stops it.")
