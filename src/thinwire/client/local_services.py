"""A narrow line in front of a broker: `connect(url, limits="up=56kbit,delay=150ms")`.

Every byte of this connection goes through a proxy in this process, so that a program can be tried under the link it
will have in the field.
"""

from __future__ import annotations

from contextlib import AsyncExitStack
from dataclasses import replace
from urllib.parse import urlsplit

from thinwire.brokers.embedded import LOOPBACK
from thinwire.brokers.link_limits_limits import Limits, read_limits
from thinwire.brokers.nats.options import Options, Tls, read_servers
from thinwire.brokers.proxy import Proxy
from thinwire.errors import ConfigError


async def limited(url: str, options: Options, limits: Limits | str, stack: AsyncExitStack) -> tuple[list[str], Options]:
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
