"""`thinwire up`: run a broker and the services, or the services alone."""

from __future__ import annotations

import asyncio
import json as json_text
import os
import tempfile
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from thinwire.brokers.embedded import EmbeddedServer
from thinwire.cli.connection_options import BrokerAccess, Credentials
from thinwire.cli.option_groups import option, with_options
from thinwire.cli.output import Output
from thinwire.cli.terminal import interruptible, run
from thinwire.client.local_services import SERVICES, run_service
from thinwire.clock import WallClock
from thinwire.errors import BrokerUnavailable, ConfigError
from thinwire.topics.registry_client import open_registry
from thinwire.topics.topic_plan import Plan, load_plan, register_plan

DEFAULT_PORT = 4222
POLL_INTERVAL = 0.5
"""seconds between two checks whether the broker still runs"""
STOP_TIMEOUT = 15.0
"""seconds that a busy broker may need to stop"""


Service = Literal["registry", "translator", "dictionaries", "watches"]


@dataclass
class StartOutput(Output):
    """Output of a command that runs until Ctrl-C."""

    json: bool = option(False, "Print one line of JSON when everything has started.")

    def announce(self, document: dict[str, Any], text: str) -> None:
        """Print a line of text, and with --json a line of JSON, after everything has started."""
        if self.json:
            print(json_text.dumps(document), flush=True)
        self.note(f"{text}. Ctrl-C ends the command.")


@dataclass(frozen=True)
class LocalBrokerOptions:
    """Options of the broker that `thinwire up` starts. They do not apply to the broker of `--to`."""

    port: int | None = option(None, "Port of the broker, 0 for a free one; default: 4222.", min=0, max=65535)
    leaves: int | None = option(None, "Port for edge hosts, 0 for a free one.", metavar="PORT", min=0, max=65535)
    dir: Path | None = option(None, "Data directory of the broker; default: a temporary one.", metavar="DIR")

    def check_unused(self) -> None:
        """Raise `ConfigError` if an option is set, although no broker is started."""
        for name, value in vars(self).items():
            if value is not None:
                detail = f"--{name} requires a broker started here: omit --{name}, or omit --to"
                raise ConfigError(detail, **{name: str(value)})


@dataclass(frozen=True)
class ServiceOptions:
    to: str | None = option(None, "Start no broker; run the services on the one at URL.", metavar="URL")
    only: Service | None = option(None, "Run only this service.")
    plan: Path | None = option(None, "Register the topics of this plan with their settings.", metavar="FILE")


@with_options
def up(*, local: LocalBrokerOptions, services: ServiceOptions, credentials: Credentials, output: StartOutput) -> None:
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
    # Read before anything starts, so that an invalid plan leaves nothing running.
    plan = load_plan(services.plan) if services.plan is not None else None
    if services.to is None:
        run(_run_with_broker(output, local, services.only, plan), close_timeout=STOP_TIMEOUT)
    else:
        local.check_unused()
        access = BrokerAccess(services.to, credentials)
        access.check_running("to")
        run(_run_services(output, access, services.only, plan))


async def _run_with_broker(
    output: StartOutput, local: LocalBrokerOptions, only: Service | None, plan: Plan | None
) -> None:
    async with AsyncExitStack() as stack:
        server = await _start_broker(local, stack)
        await _run_services(output, BrokerAccess(server.url), only, plan, server)


async def _run_services(
    output: StartOutput,
    access: BrokerAccess,
    only: Service | None,
    plan: Plan | None,
    server: EmbeddedServer | None = None,
) -> None:
    async with AsyncExitStack() as stack:
        tasks = await _start_services(access, only, stack)
        if plan is not None:
            async with access.bus("plan") as bus:
                topics = await register_plan(await open_registry(bus.broker), plan)
            output.note(f"registered from the plan: {', '.join(topic.topic for topic in topics)}")
        document = {"url": access.redacted_url, "pid": os.getpid(), "dir": server and str(server.directory)}
        output.announce(document, f"{access.redacted_url}  {_describe(only, server)}")
        with interruptible():
            await wait_for_end(tasks, server)


async def _start_broker(local: LocalBrokerOptions, stack: AsyncExitStack) -> EmbeddedServer:
    port = DEFAULT_PORT if local.port is None else local.port
    try:
        return await stack.enter_async_context(EmbeddedServer(local.dir, port=port, leaves=local.leaves))
    except OSError as error:
        detail = f"{error.strerror or error}: free some space, or choose another directory (--dir)"
        raise ConfigError(detail, dir=str(local.dir or tempfile.gettempdir())) from None


async def _start_services(access: BrokerAccess, only: Service | None, stack: AsyncExitStack) -> set[asyncio.Task[None]]:
    """Start the services, each with its own connection, and return their tasks."""
    selected = SERVICES if only is None else (only,)
    return {await run_service(service, await access.open(service, stack), WallClock(), stack) for service in selected}


def _describe(only: Service | None, server: EmbeddedServer | None) -> str:
    """Return what runs, and where the data of a broker started here is."""
    names = {"dictionaries": "the dictionary trainer", "watches": "the watcher"}
    services = "registry, translator, dictionaries and watches" if only is None else names.get(only, f"the {only}")
    if server is None:
        return f"{services} {'run' if only is None else 'runs'}"
    text = f"broker{', ' if only is None else ' and '}{services} run; data in {server.directory}"
    text += ", deleted at the end; --dir DIR selects a permanent directory" if server.temporary else ""
    return text + (f"; edge hosts connect to {server.leaf_url}" if server.leaf_url else "")


async def wait_for_end(tasks: set[asyncio.Task[None]], server: EmbeddedServer | None = None) -> None:
    """Wait until a task or the broker ends, and raise its error."""
    ended: set[asyncio.Task[None]] = set()
    while not ended:
        ended, _ = await asyncio.wait(tasks, timeout=POLL_INTERVAL, return_when=asyncio.FIRST_COMPLETED)
        if server is not None and not server.running:
            raise BrokerUnavailable(f"the broker has exited. End of its log:\n{server.log_tail()}\n")
    for task in ended:
        task.result()
