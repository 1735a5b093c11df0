"""A narrow line in front of a broker: `connect(url, limits="up=56kbit,delay=150ms")`.

Every byte of this connection goes through a proxy in this process, so that a program can be tried under the link it
will have in the field.

From a URL to a broker: one that runs, one started here, or one in memory; the last two bring the services along.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from dataclasses import fields, replace
from importlib.util import find_spec
from typing import Any, Protocol
from urllib.parse import urlsplit

from thinwire.brokers.broker_url import Address, read_url
from thinwire.brokers.embedded import LOOPBACK
from thinwire.brokers.link_limits import Limits, read_limits
from thinwire.brokers.nats.options import NatsOptions, Tls, read_servers
from thinwire.brokers.protocol import Broker
from thinwire.brokers.proxy import Proxy
from thinwire.clock import Clock
from thinwire.errors import ConfigError, MissingExtra


async def limited(
    url: str, options: NatsOptions, limits: Limits | str, stack: AsyncExitStack
) -> tuple[list[str], NatsOptions]:
    """The servers behind proxies with these limits, one each, while the stack lasts; and how to connect to them."""
    asked = read_limits(limits) if isinstance(limits, str) else limits
    servers, options = read_servers(url, options)
    if options.tls is not None and options.tls.hostname is None:
        options = replace(options, tls=_known_as(servers, options.tls))
    return [await _behind_proxy(server, asked, stack) for server in servers], options


async def _behind_proxy(server: str, limits: Limits, stack: AsyncExitStack) -> str:
    parts = urlsplit(server)
    assert parts.hostname is not None
    assert parts.port is not None
    proxy = await stack.enter_async_context(Proxy(parts.hostname, parts.port, limits=limits))
    return f"{parts.scheme}://{LOOPBACK}:{proxy.port}"


def _known_as(servers: list[str], tls: Tls) -> Tls:
    """A certificate is checked against the name of the server, not against that of the proxy."""
    hosts = {urlsplit(server).hostname for server in servers}
    if len(hosts) > 1:
        raise ConfigError(
            "several servers behind a limited line: say which name is in their certificate", hostname=None
        )
    return replace(tls, hostname=hosts.pop())


async def open_broker(address: Address, options: dict[str, Any], stack: AsyncExitStack) -> tuple[Broker, Broker | None]:
    """A connection, and a second one for the services where they run in this process. Ending the stack ends all."""
    if address.scheme == "memory":
        if options.get("limits") is not None:
            raise ConfigError("limits need a socket: use nats://, tls:// or embedded://", limits=str(options["limits"]))
        return _in_memory(address, stack), _in_memory(address, stack)
    if find_spec("nats") is None:
        raise MissingExtra("a NATS broker needs the client library", extra="nats")
    if address.scheme == "embedded":
        address = await _started(address, stack)
        free = {name: value for name, value in options.items() if name != "limits"}  # services stand beside the broker
        return await _connected(address, options, stack), await _connected(address, free, stack)
    return await _connected(address, options, stack), None


def _in_memory(address: Address, stack: AsyncExitStack) -> Broker:
    from thinwire.brokers.memory import LocalBroker, LocalServer

    broker = LocalBroker(LocalServer.named(address.rest))
    stack.push_async_callback(broker.close)
    return broker


async def _started(address: Address, stack: AsyncExitStack) -> Address:
    from thinwire.brokers.embedded import EmbeddedServer

    server = await stack.enter_async_context(EmbeddedServer(directory=address.rest or None))
    return read_url(server.url)


async def _connected(address: Address, options: dict[str, Any], stack: AsyncExitStack) -> Broker:
    from thinwire.brokers.nats.broker import connect
    from thinwire.brokers.nats.options import NatsOptions, Tls

    given = dict(options)
    limits = given.pop("limits", None)
    tls = {name: given.pop(name) for name in _fields(Tls) & given.keys()}
    unknown = given.keys() - _fields(NatsOptions)
    if unknown:
        known = sorted((_fields(NatsOptions) | _fields(Tls) | {"limits"}) - {"tls"})
        raise ConfigError("no such option of a connection", option=sorted(unknown), choose_from=known)
    if tls:
        given["tls"] = Tls(**tls)
    servers: str | list[str] = address.url
    made = NatsOptions(**given)
    if limits is not None:
        servers, made = await limited(address.url, made, limits, stack)
    broker = await connect(servers, made)
    stack.push_async_callback(broker.close)
    return broker


def _fields(kind: Any) -> set[str]:
    return {item.name for item in fields(kind)}


async def run_services(broker: Broker, clock: Clock, stack: AsyncExitStack) -> list[asyncio.Task[None]]:
    """The registry and all other services in this process, as long as the stack lasts; their tasks."""
    runs = run_registry, run_translator, run_dictionaries, run_watches
    return [await run(broker, clock, stack) for run in runs]


async def run_registry(broker: Broker, clock: Clock, stack: AsyncExitStack) -> asyncio.Task[None]:
    """The registry's service in this process, as long as the stack lasts; the task that does it."""
    from thinwire.services.registry.registry_service import RegistryService

    return await _run(RegistryService(broker, clock), "registry", stack)


async def run_translator(broker: Broker, clock: Clock, stack: AsyncExitStack) -> asyncio.Task[None]:
    """A translator in this process, as long as the stack lasts; the task that does it."""
    from thinwire.services.translator.translator_service import TranslatorService

    return await _run(TranslatorService(broker, clock), "translator", stack)


async def run_dictionaries(broker: Broker, clock: Clock, stack: AsyncExitStack) -> asyncio.Task[None]:
    """A dictionary service in this process, as long as the stack lasts; the task that does it."""
    from thinwire.services.dictionary_trainer.dictionary_service import DictionaryService

    return await _run(DictionaryService(broker, clock), "dictionaries", stack)


async def run_watches(broker: Broker, clock: Clock, stack: AsyncExitStack) -> asyncio.Task[None]:
    """A watch service in this process, as long as the stack lasts; the task that does it."""
    from thinwire.services.watcher.watch_service import WatchService

    return await _run(WatchService(broker, clock), "watches", stack)


class _Service(Protocol):
    async def run(self) -> None: ...

    async def ready(self) -> None: ...


async def _run(service: _Service, name: str, stack: AsyncExitStack) -> asyncio.Task[None]:
    task = asyncio.create_task(service.run(), name=name)
    stack.push_async_callback(_end, task)
    await service.ready()
    return task


async def _end(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
