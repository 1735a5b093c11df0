"""`thinwire up`: a broker and the registry, or the registry alone, until somebody stops them."""

from __future__ import annotations

import asyncio
import json as json_text
import os
import tempfile
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from thinwire.cli.ending import Interruptible, run
from thinwire.cli.live import (
    Access,
    CaOption,
    CertificateOption,
    CredentialsOption,
    KeyOption,
    TokenOption,
)
from thinwire.cli.output import Output
from thinwire.client.opening import open_broker, run_registry
from thinwire.client.urls import read_url
from thinwire.clock import WallClock
from thinwire.errors import BrokerUnavailable, ConfigError
from thinwire.transports.embedded import EmbeddedServer

PULSE = 0.5
"""seconds between two looks at whether the broker still runs"""
STOPPING = 15.0
"""seconds that a broker with much in hand may need to stop"""

PortOption = Annotated[int, typer.Option("--port", help="Where it listens; 0 for a free port.", min=0, max=65535)]
DirectoryOption = Annotated[
    Path | None,
    typer.Option("--dir", metavar="DIR", help="Where its data stay; else they go when it stops."),
]
RunningOption = Annotated[
    str | None, typer.Option("--to", metavar="URL", help="Start no broker: only the registry, on the one at URL.")
]
JsonLineOption = Annotated[bool, typer.Option("--json", help="Print one line of JSON once everything is up.")]


def up(
    port: PortOption = 4222,
    directory: DirectoryOption = None,
    to: RunningOption = None,
    token_file: TokenOption = None,
    creds: CredentialsOption = None,
    ca: CaOption = None,
    cert: CertificateOption = None,
    key: KeyOption = None,
    json: JsonLineOption = False,
) -> None:
    """Run a broker on this machine, and the registry, until Ctrl-C or SIGTERM.

    The broker listens on 127.0.0.1 alone and dies with this process, even
    a killed one. Leaves with 0 when it is stopped, with 2 where it cannot
    start.

    \b
    thinwire up --dir ~/thinwire-data
    thinwire up --to nats://broker:4222
    """
    output = Output(json)
    if to is None:
        try:
            run(_broker_and_registry(output, port, directory), patience=STOPPING)
        except OSError as trouble:
            where = str(directory or tempfile.gettempdir())
            raise ConfigError(
                f"{trouble.strerror}: make room, or choose another directory (--dir)", dir=where
            ) from None
    elif directory is not None:
        raise ConfigError("a broker that runs has its data elsewhere: leave out --dir, or --to", dir=str(directory))
    else:
        run(_registry_alone(output, Access(to, token_file, creds, ca, cert, key)))


async def _broker_and_registry(output: Output, port: int, directory: Path | None) -> None:
    async with EmbeddedServer(directory, port=port) as server, _registry(server.url, {}) as service:
        kept = "stay there" if directory is not None else "go when it stops; --dir DIR keeps them"
        _announce(output, server.url, server.directory, f"broker and registry run; data in {server.directory} {kept}")
        with Interruptible():
            await _watch(service, server)


async def _registry_alone(output: Output, access: Access) -> None:
    if read_url(access.url).scheme not in ("nats", "tls"):
        raise ConfigError("name a broker that runs: nats://host:4222 or tls://host:4222", to=access.shown)
    async with _registry(access.url, access.options()) as service:
        _announce(output, access.shown, None, "the registry runs")
        with Interruptible():
            await _watch(service)


@asynccontextmanager
async def _registry(url: str, options: dict[str, Any]) -> AsyncIterator[asyncio.Task[None]]:
    """The registry at work, as the task that does it."""
    async with AsyncExitStack() as stack:
        broker, _ = await open_broker(read_url(url), {"name": "registry", **options}, stack)
        yield await run_registry(broker, WallClock(), stack)


async def _watch(service: asyncio.Task[None], server: EmbeddedServer | None = None) -> None:
    """Until the registry, or the broker under it, ends by itself."""
    while not service.done():
        await asyncio.wait({service}, timeout=PULSE)
        if server is not None and not server.running:
            raise BrokerUnavailable(f"the broker ended by itself. Its log ends with:\n{server.log_tail()}\n")
    service.result()


def _announce(output: Output, url: str, directory: Path | None, sentence: str) -> None:
    if output.json:
        line = {"url": url, "pid": os.getpid(), "dir": None if directory is None else str(directory)}
        print(json_text.dumps(line), flush=True)
    output.note(f"{url}  {sentence}. Ctrl-C stops it.")
