"""Broker URLs: the factory of each scheme, and opening a connection by URL.

A broker is added by a module with a factory and one call of `register_broker` (or one line in `_FACTORIES`).

>>> read_url("memory://test")
Address(scheme='memory', rest='test')
>>> read_url("nats://ada:secret@broker:4222")
Address(scheme='nats', rest='broker:4222')
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, NamedTuple

from thinwire.brokers.protocol import Broker
from thinwire.errors import BadUrl, ConfigError

_SCHEME = re.compile(r"[a-z][a-z0-9+.-]{0,31}")


@dataclass(frozen=True)
class Address:
    """A parsed URL. `rest` is the part after the scheme without credentials; `url` is complete and not shown."""

    scheme: str
    rest: str
    url: str = field(repr=False, compare=False, default="")

    @property
    def shown(self) -> str:
        """The URL without credentials."""
        return f"{self.scheme}://{self.rest}"


class OpenedBroker(NamedTuple):
    """Result of a factory.

    service_broker: second connection, for the services that run in this process; None if services run elsewhere
    """

    broker: Broker
    service_broker: Broker | None = None


BrokerFactory = Callable[[Address, Mapping[str, Any], AsyncExitStack], Awaitable[OpenedBroker]]
"""receives the address, the options of `connect`, and a stack on which it pushes what must be closed"""

_FACTORIES: dict[str, BrokerFactory | str] = {
    "nats": "thinwire.brokers.nats.broker:open_nats",
    "tls": "thinwire.brokers.nats.broker:open_nats",
    "embedded": "thinwire.brokers.embedded:open_embedded",
    "memory": "thinwire.brokers.memory.broker:open_memory",
}
"""a string is module:function, imported on first use"""


def register_broker(scheme: str, factory: BrokerFactory) -> None:
    """Open URLs of this scheme with `factory`. Raise `ConfigError` if the scheme is invalid or taken."""
    if not _SCHEME.fullmatch(scheme):
        raise ConfigError("a scheme is up to 32 lower-case letters, digits, +, - and .", scheme=scheme)
    if _FACTORIES.get(scheme, factory) is not factory:
        raise ConfigError("another broker is registered for this scheme", scheme=scheme)
    _FACTORIES[scheme] = factory


def read_url(url: str) -> Address:
    """Parse a URL. The servers of a cluster are separated by commas."""
    scheme, separator, rest = url.partition("://")
    if not separator or scheme not in _FACTORIES:
        raise BadUrl("unknown scheme" if separator else "no scheme", url=without_credentials(url))
    return Address(scheme, ",".join(without_credentials(server) for server in rest.split(",")), url)


async def open_broker(address: Address, options: Mapping[str, Any], stack: AsyncExitStack) -> OpenedBroker:
    """Connect to the broker at `address`. Its connections are closed with the stack."""
    factory = _FACTORIES[address.scheme]
    if isinstance(factory, str):
        module, _, name = factory.partition(":")
        factory = _FACTORIES[address.scheme] = getattr(import_module(module), name)
    return await factory(address, options, stack)


def without_credentials(server: str) -> str:
    """Return an address without the part before the last @."""
    return server.rpartition("@")[2]
